// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package revisions_test

import (
	"context"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/revisions"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// A controller changes an application, rolls it back and removes it.
func ExampleNew() {
	ctx, cancel := context.WithCancel(context.Background())
	clusters := fake.New()
	manager, err := revisions.New(memstore.New(memstore.Options{}), clusters, revisions.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- manager.Start(ctx) }()
	set := func(target revisions.Target) {
		manager.Set("shop", target)
		if err := manager.Settled(ctx, "shop"); err != nil {
			log.Fatal(err)
		}
		_, wanted, err := manager.Revisions(ctx, "shop")
		fmt.Println("revision", wanted, err)
		for _, manifest := range clusters.Cluster("edge", "cluster1").Objects() {
			fmt.Println(manifest)
		}
	}
	content := func(colour string) *revisions.Content {
		b := appcontext.NewBuilder("shop")
		b.App("web").Resource("edge", "cluster1", fmt.Appendf(nil,
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: %s}}", colour))
		shop, err := b.Build()
		if err != nil {
			log.Fatal(err)
		}
		return &revisions.Content{Apps: shop.Apps, Source: colour}
	}

	set(revisions.Target{Content: content("red"), Cause: "first release"})
	set(revisions.Target{Content: content("blue"), Cause: "the colour has changed"})
	first, err := manager.Content(ctx, "shop", 1)
	if err != nil {
		log.Fatal(err)
	}
	set(revisions.Target{Content: first, Revision: 1, Cause: "rollback to 1"})
	set(revisions.Target{Cause: "the shop has closed"})

	cancel()
	fmt.Println(<-ended)
	// Output:
	// revision 1 <nil>
	// {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: red}}
	// revision 2 <nil>
	// {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: blue}}
	// revision 1 <nil>
	// {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: red}}
	// revision 0 <nil>
	// <nil>
}
