// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"context"
	"fmt"

	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// A key is written on the condition that it does not exist. The second attempt returns the first
// owner.
func ExampleNew() {
	ctx := context.Background()
	s := memstore.New(memstore.Options{})
	for _, owner := range []string{"one", "two"} {
		result, err := s.Txn(ctx, []store.Compare{store.Absent("/owner/")}, []store.Op{store.Put("/owner/", []byte(owner))})
		if err != nil {
			panic(err)
		}
		fmt.Println(owner, result.Succeeded)
		if !result.Succeeded {
			fmt.Printf("it is %s's\n", result.Current[0].Value)
		}
	}
	// Output:
	// one true
	// two false
	// it is one's
}
