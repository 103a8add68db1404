// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

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

// A cluster that does not answer delays no other cluster, and Stop ends the wait for it.
func ExampleEngine_Stop() {
	ctx, cancel := context.WithCancel(context.Background())
	clusters := fake.New()
	clusters.Cluster("edge", "cluster1").SetMode(fake.ModeUnreachable)
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

// A watch returns the changes of a context. After an error, a new watch continues after the last
// change.
func ExampleEngine_Watch() {
	ctx, cancel := context.WithCancel(context.Background())
	engine, err := rsync.New(memstore.New(memstore.Options{}), fake.New(), rsync.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- engine.Start(ctx) }()
	if err := engine.Create(ctx, shop("shop", "red")); err != nil {
		log.Fatal(err)
	}
	if _, err := engine.Instantiate(ctx, "shop"); err != nil {
		log.Fatal(err)
	}
	from := int64(0) // the current state, and then its changes
	last := rsync.State("")
	for last != rsync.Instantiated {
		for change, err := range engine.Watch(ctx, "shop", from) {
			if err != nil {
				break // again from the next revision, or from 0 after store.ErrCompacted
			}
			from = change.Revision + 1
			if change.State != "" {
				last = change.State
			}
			if last == rsync.Instantiated {
				break
			}
		}
	}
	fmt.Println(last)

	cancel()
	fmt.Println(<-ended)
	// Output:
	// Instantiated
	// <nil>
}

// An update is rolled back. With a key, the call is safe to repeat.
func ExampleEngine_Rollback() {
	ctx, cancel := context.WithCancel(context.Background())
	clusters := fake.New()
	engine, err := rsync.New(memstore.New(memstore.Options{}), clusters, rsync.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- engine.Start(ctx) }()
	wait := func(ref rsync.EventRef, err error) {
		if err != nil {
			log.Fatal(err)
		}
		status, err := engine.Wait(ctx, ref)
		fmt.Println(ref.AppContextID, status.State, err)
	}
	for id, colour := range map[string]string{"v1": "red", "v2": "blue"} {
		if err := engine.Create(ctx, shop(id, colour)); err != nil {
			log.Fatal(err)
		}
	}
	wait(engine.Instantiate(ctx, "v1"))
	wait(engine.Update(ctx, "v1", "v2"))
	wait(engine.Rollback(ctx, "v2", "v1", rsync.IdempotencyKey("rollback-17")))
	for _, manifest := range clusters.Cluster("edge", "cluster1").Objects() {
		fmt.Println(strings.Contains(manifest, "red"))
	}

	cancel()
	fmt.Println(<-ended)
	// Output:
	// v1 Instantiated <nil>
	// v2 Instantiated <nil>
	// v1 Instantiated <nil>
	// true
	// <nil>
}

// New validates its options and makes no calls. An engine that is not started queues events for the
// other engines on the store.
func ExampleNew() {
	store := memstore.New(memstore.Options{})
	engine, err := rsync.New(store, fake.New(), rsync.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if err := engine.Create(ctx, shop("shop", "red")); err != nil {
		log.Fatal(err)
	}
	ref, err := engine.Instantiate(ctx, "shop")
	fmt.Println(ref.AppContextID, err)
	status, err := engine.Status(ctx, "shop")
	fmt.Println(status.State, err)
	// Output:
	// shop <nil>
	// Created <nil>
}

// A call is repeated after a lost answer. It queues the event once.
func ExampleIdempotencyKey() {
	engine, err := rsync.New(memstore.New(memstore.Options{}), fake.New(), rsync.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if err := engine.Create(ctx, shop("shop", "red")); err != nil {
		log.Fatal(err)
	}
	first, err := engine.Instantiate(ctx, "shop", rsync.IdempotencyKey("rollout 7"))
	fmt.Println(err)
	again, err := engine.Instantiate(ctx, "shop", rsync.IdempotencyKey("rollout 7"))
	fmt.Println(first == again, err)
	// Output:
	// <nil>
	// true <nil>
}

// An update goes to one cluster first, waits for an approval, and then goes to the others.
func ExampleWithRollout() {
	ctx, cancel := context.WithCancel(context.Background())
	engine, err := rsync.New(memstore.New(memstore.Options{}), fake.New(), rsync.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- engine.Start(ctx) }()
	if err := engine.Create(ctx, shop("v1", "red")); err != nil {
		log.Fatal(err)
	}
	ref, err := engine.Instantiate(ctx, "v1", rsync.WithRollout(rsync.Rollout{
		Groups: []rsync.RolloutGroup{{
			Name: "canary", Clusters: []appcontext.ClusterID{{Provider: "edge", Name: "cluster2"}}, ApproveAfter: true,
		}},
		MaxConcurrency: "50%", ProgressDeadline: time.Minute, RollbackOnFailure: true,
	}))
	if err != nil {
		log.Fatal(err)
	}
	for change, err := range engine.Watch(ctx, "v1", 0) {
		if err != nil {
			log.Fatal(err)
		}
		if change.Cluster != nil && change.Cluster.Phase == rsync.PhaseDone {
			break
		}
	}
	status, err := engine.RolloutStatus(ctx, ref)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.Waiting)
	if err := engine.Approve(ctx, ref, rsync.Approval{Group: "canary", Gate: rsync.GateAfterGroup}); err != nil {
		log.Fatal(err)
	}
	if _, err := engine.Wait(ctx, ref); err != nil {
		log.Fatal(err)
	}
	if status, err = engine.RolloutStatus(ctx, ref); err != nil {
		log.Fatal(err)
	}
	for _, group := range status.Groups {
		fmt.Printf("%q: %d of %d succeeded\n", group.Name, group.Succeeded, group.Clusters)
	}
	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// the rollout waits for an approval after group "canary"
	// "canary": 1 of 1 succeeded
	// "": 1 of 1 succeeded
}

func ExampleStates() {
	fmt.Println(rsync.States())
	// Output: [Created Instantiating Instantiated InstantiateFailed Terminating Terminated TerminationFailed Updating Updated UpdateFailed]
}

// ParseState also accepts EMCO's spellings.
func ExampleParseState() {
	for _, text := range []string{"Instantiated", "InstantiationFailed", "Running"} {
		state, ok := rsync.ParseState(text)
		fmt.Printf("%q %v\n", state, ok)
	}
	// Output:
	// "Instantiated" true
	// "InstantiateFailed" true
	// "" false
}

// Diff shows what an update would change, before it is queued.
func ExampleEngine_Diff() {
	ctx, cancel := context.WithCancel(context.Background())
	engine, err := rsync.New(memstore.New(memstore.Options{}), fake.New(), rsync.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- engine.Start(ctx) }()
	for id, colour := range map[string]string{"shop-1": "red", "shop-2": "blue"} {
		if err := engine.Create(ctx, shop(id, colour)); err != nil {
			log.Fatal(err)
		}
	}
	ref, err := engine.Instantiate(ctx, "shop-1")
	if err == nil {
		_, err = engine.Wait(ctx, ref)
	}
	if err != nil {
		log.Fatal(err)
	}
	diff, err := engine.Diff(ctx, rsync.Update, "shop-2", "shop-1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(diff)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// Update of shop-2 from shop-1: 0 to create, 2 to change, 0 to replace, 0 to delete, 0 unchanged
	// edge+cluster1
	//   web of shop-2
	//     ~ ConfigMap default/settings
	//         .data.colour: "red" -> "blue"
	// edge+cluster2
	//   web of shop-2
	//     ~ ConfigMap default/settings
	//         .data.colour: "red" -> "blue"
	// <nil>
}
