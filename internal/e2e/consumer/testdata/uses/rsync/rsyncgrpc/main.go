// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use serves an engine, and is its own client.
//
// Prints: 0 contexts
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

func main() {
	ctx := context.Background()
	engine, err := rsync.New(memstore.New(memstore.Options{}), fake.New(), rsync.Options{})
	if err != nil {
		log.Fatal(err)
	}
	server, err := rsyncgrpc.NewServer(engine, rsyncgrpc.ServerOptions{Addr: "127.0.0.1:0", Insecure: true})
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(server.Start(ctx)) }()
	<-server.Ready()
	client, err := rsyncgrpc.NewClient(server.Addr().String(), rsyncgrpc.ClientOptions{Insecure: true})
	if err != nil {
		log.Fatal(err)
	}
	contexts, err := client.List(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(contexts), "contexts")
}
