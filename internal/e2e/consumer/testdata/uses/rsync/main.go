// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use brings an app to a cluster in memory.
//
// Prints: Instantiated <nil>
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

func main() {
	ctx := context.Background()
	engine, err := rsync.New(memstore.New(memstore.Options{}), fake.New(), rsync.Options{})
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(engine.Start(ctx)) }()
	builder := appcontext.NewBuilder("shop")
	builder.App("web").Resource("edge", "cluster1",
		[]byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}"))
	shop, err := builder.Build()
	if err != nil {
		log.Fatal(err)
	}
	if err := engine.Create(ctx, shop); err != nil {
		log.Fatal(err)
	}
	ref, err := engine.Instantiate(ctx, "shop")
	if err != nil {
		log.Fatal(err)
	}
	status, err := engine.Wait(ctx, ref)
	fmt.Println(status.State, err)
}
