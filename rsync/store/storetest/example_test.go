// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package storetest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// The second write is executed, but its answer is lost. Users of a store must handle this case.
func ExampleNewFaults() {
	ctx := context.Background()
	s := storetest.NewFaults(memstore.New(memstore.Options{}), func(n int, _ []store.Op) storetest.Verdict {
		if n == 2 {
			return storetest.VerdictFailAfter
		}
		return storetest.VerdictPass
	})
	for _, value := range []string{"1", "2"} {
		_, err := s.Txn(ctx, nil, []store.Op{store.Put("/key/", []byte(value))})
		fmt.Println(err)
		fmt.Println(errors.Is(err, storetest.ErrInjected))
	}
	kv, err := s.Get(ctx, "/key/")
	fmt.Println(string(kv.Value), err)
	// Output:
	// <nil>
	// false
	// injected failure of the store
	// true
	// 2 <nil>
}
