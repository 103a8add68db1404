// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use brings the first revision of an application to a cluster in memory.
//
// Prints: Deployed 1 <nil>
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/revisions"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

func main() {
	ctx := context.Background()
	manager, err := revisions.New(memstore.New(memstore.Options{}), fake.New(), revisions.Options{})
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(manager.Start(ctx)) }()
	builder := appcontext.NewBuilder("shop")
	builder.App("web").Resource("edge", "cluster1",
		[]byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}"))
	shop, err := builder.Build()
	if err != nil {
		log.Fatal(err)
	}
	manager.Set("shop", revisions.Target{Content: &revisions.Content{Apps: shop.Apps}})
	err = manager.Settled(ctx, "shop")
	status, _ := manager.Status("shop")
	fmt.Println(status.State, status.Revision, err)
}
