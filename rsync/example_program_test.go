// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// webOf returns version id of an app with one ConfigMap on two clusters.
func webOf(id, colour string) *appcontext.AppContext {
	b := appcontext.NewBuilder(id)
	for _, cluster := range []string{"cluster1", "cluster2"} {
		b.App("web").Resource("edge", cluster, fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": {"namespace": "default", "name": "web"}, "data": {"colour": %q}}`, colour))
	}
	out, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	return out
}

// An engine applies an app on two clusters, updates it, rolls it back and deletes it. Store and clusters
// are in memory here. A real program uses etcdstore.New and the connectors kube, git or manifestwork.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	clusters := fake.New()
	engine, err := rsync.New(memstore.New(memstore.Options{}), clusters, rsync.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- engine.Start(ctx) }()
	for id, colour := range map[string]string{"web-1": "red", "web-2": "blue"} {
		if err := engine.Create(ctx, webOf(id, colour)); err != nil {
			log.Fatal(err)
		}
	}
	wait := func(ref rsync.EventRef, err error) {
		if err != nil {
			log.Fatal(err)
		}
		done, err := engine.Wait(ctx, ref)
		fmt.Println(done.State, len(clusters.Cluster("edge", "cluster1").Objects()), "object on cluster1", err)
	}
	wait(engine.Instantiate(ctx, "web-1"))
	wait(engine.Update(ctx, "web-1", "web-2"))
	wait(engine.Rollback(ctx, "web-2", "web-1"))
	wait(engine.Terminate(ctx, "web-1"))
	cancel()
	fmt.Println(<-ended)
	// Output:
	// Instantiated 1 object on cluster1 <nil>
	// Instantiated 1 object on cluster1 <nil>
	// Instantiated 1 object on cluster1 <nil>
	// Terminated 0 object on cluster1 <nil>
	// <nil>
}
