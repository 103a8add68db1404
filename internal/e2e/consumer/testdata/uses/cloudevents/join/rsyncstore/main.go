// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use keeps a record of a join.
//
// Prints: revoked <nil>
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/cloudevents/join/rsyncstore"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

func main() {
	ctx := context.Background()
	s := rsyncstore.New(memstore.New(memstore.Options{}), "/join/")
	if err := s.Put(ctx, join.Record{Key: "cluster/c1", Value: []byte("revoked")}); err != nil {
		log.Fatal(err)
	}
	r, err := s.Get(ctx, "cluster/c1")
	fmt.Println(string(r.Value), err)
}
