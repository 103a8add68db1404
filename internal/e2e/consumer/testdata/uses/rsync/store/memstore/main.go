// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use keeps a value.
//
// Prints: one <nil>
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

func main() {
	ctx := context.Background()
	s := memstore.New(memstore.Options{})
	if _, err := s.Txn(ctx, nil, []store.Op{store.Put("/key/", []byte("one"))}); err != nil {
		log.Fatal(err)
	}
	kv, err := s.Get(ctx, "/key/")
	fmt.Println(string(kv.Value), err)
}
