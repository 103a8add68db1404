// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

const config = `apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  namespace: default
data:
  colour: %s
`

func shop(id, colour string) *appcontext.AppContext {
	b := appcontext.NewBuilder(id)
	b.App("web").
		Resource("edge", "cluster1", fmt.Appendf(nil, config, colour)).
		Resource("edge", "cluster2", fmt.Appendf(nil, config, colour))
	out, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	return out
}

// A context is created, instantiated, updated and terminated, on clusters in memory.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	clusters := fake.New()
	engine, err := rsync.New(memstore.New(memstore.Options{}), clusters, rsync.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- engine.Start(ctx) }()

	show := func(id string, ref rsync.EventRef, err error) {
		if err != nil {
			log.Fatal(err)
		}
		if _, err := engine.Wait(ctx, ref); err != nil {
			log.Fatal(err)
		}
		status, err := engine.Status(ctx, id)
		fmt.Println(id, status.State, "with", len(clusters.Cluster("edge", "cluster1").Objects()), "object on cluster1", err)
	}
	for id, colour := range map[string]string{"shop-1": "red", "shop-2": "blue"} {
		if err := engine.Create(ctx, shop(id, colour)); err != nil {
			log.Fatal(err)
		}
	}
	ref, err := engine.Instantiate(ctx, "shop-1")
	show("shop-1", ref, err)
	ref, err = engine.Update(ctx, "shop-1", "shop-2")
	show("shop-2", ref, err)
	ref, err = engine.Terminate(ctx, "shop-2")
	show("shop-2", ref, err)

	cancel()
	fmt.Println(<-ended)
	// Output:
	// shop-1 Instantiated with 1 object on cluster1 <nil>
	// shop-2 Instantiated with 1 object on cluster1 <nil>
	// shop-2 Terminated with 0 object on cluster1 <nil>
	// <nil>
}

// A cluster that does not answer holds up nobody else, and Stop ends the wait for it.
func ExampleEngine_Stop() {
	ctx, cancel := context.WithCancel(context.Background())
	clusters := fake.New()
	clusters.Cluster("edge", "cluster1").SetMode(fake.Unreachable)
	engine, err := rsync.New(memstore.New(memstore.Options{}), clusters, rsync.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- engine.Start(ctx) }()

	if err := engine.Create(ctx, shop("shop", "red")); err != nil {
		log.Fatal(err)
	}
	ref, err := engine.Instantiate(ctx, "shop")
	if err != nil {
		log.Fatal(err)
	}
	for change, err := range engine.Watch(ctx, "shop", 0) {
		if err != nil {
			log.Fatal(err)
		}
		if c := change.Cluster; c != nil && c.Cluster.Name == "cluster1" && c.Phase == rsync.PhaseRetrying {
			break
		}
	}
	if err := engine.Stop(ctx, "shop"); err != nil {
		log.Fatal(err)
	}
	status, err := engine.Wait(ctx, ref)
	fmt.Println(status.State, errors.Is(err, rsync.ErrStopped))
	_, err = engine.Terminate(ctx, "shop")
	fmt.Println(errors.Is(err, rsync.ErrStopped))

	cancel()
	fmt.Println(<-ended)
	// Output:
	// InstantiateFailed true
	// true
	// <nil>
}
