// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/etcdstore"
)

// New makes a store in etcd, on a server that accepts larger requests than by default. The store
// rejects larger transactions before it sends them.
func ExampleNew() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://etcd.example:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	s, err := etcdstore.New(client, etcdstore.Options{Prefix: "/shop", MaxTxnBytes: 4 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = s.Txn(context.Background(), nil, []store.Op{store.Put("/large/", make([]byte, 5<<20))})
	fmt.Println(errors.Is(err, store.ErrTooLarge), err)
	// Output:
	// true the value of /large/ has 5242880 bytes, the limit of a transaction is 4194304: too large for the store
}
