// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use makes a store on etcd, and refuses what etcd would.
//
// Prints: too large: true
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/etcdstore"
)

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
	if err != nil {
		log.Fatal(err)
	}
	s, err := etcdstore.New(client, etcdstore.Options{Prefix: "/shop"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.Txn(context.Background(), nil, []store.Op{store.Put("/large/", make([]byte, 5<<20))})
	fmt.Println("too large:", errors.Is(err, store.ErrTooLarge))
	if err := client.Close(); err != nil {
		log.Fatal(err)
	}
}
