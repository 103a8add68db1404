// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncstore_test

import (
	"context"
	"fmt"

	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/cloudevents/join/rsyncstore"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// A replica of a hub reads the records of another one.
func ExampleNew() {
	ctx, shared := context.Background(), memstore.New(memstore.Options{}) // in place of a database
	one, two := rsyncstore.New(shared, "/join/"), rsyncstore.New(shared, "/join/")
	if err := one.Put(ctx, join.Record{Key: "cluster/c1", Value: []byte("revoked")}); err != nil {
		fmt.Println(err)
	}
	r, err := two.Get(ctx, "cluster/c1")
	fmt.Println(string(r.Value), err)
	fmt.Println(two.Put(ctx, join.Record{Key: "cluster/c1", Value: []byte("joined")}))
	// Output:
	// revoked <nil>
	// the record has another version
}
