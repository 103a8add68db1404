// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// connecting is the limit of concurrent connection attempts at the start. More attempts would fill
// the broker's backlog, and a dropped packet costs a second.
const connecting = 64

// fleet is a hub and its agents: a source with an informer, and an agent for each cluster.
type fleet struct {
	url    string // of the broker
	id     string
	size   int         // of a manifest, in bytes
	failed func(error) // ends the run
	meter  meter

	source   *work.Source
	link     *link
	informer cache.SharedIndexInformer
	agents   []*agent
	ticks    chan time.Time
	load     atomic.Pointer[load] // receives events of the informer

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// newFleet returns a fleet that is not connected. failed is called, from any goroutine, for an error
// that invalidates the run.
func newFleet(url string, agents, size int, failed func(error)) (*fleet, error) {
	f := &fleet{url: url, id: "fleet-bench-" + rand.String(8), size: size, failed: failed, ticks: make(chan time.Time)}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	var err error
	if f.link, err = f.newLink(); err != nil {
		return nil, err
	}
	f.source, err = work.NewSource(f.link, work.SourceOptions{
		SourceID: f.id, ResyncInterval: onDemand, Clock: resyncClock{ticks: f.ticks},
	})
	if err != nil {
		return nil, err
	}
	f.informer = workinformers.NewManifestWorkInformer(f.source.Clientset(), "", 0, cache.Indexers{})
	_, err = f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: f.updated, DeleteFunc: f.deleted})
	if err != nil {
		return nil, err
	}
	for i := range agents {
		// The names are new for each run, since the broker may be shared.
		a, err := f.newAgent(fmt.Sprintf("%s-%d", f.id, i))
		if err != nil {
			return nil, err
		}
		f.agents = append(f.agents, a)
	}
	return f, nil
}

func (f *fleet) newLink() (*link, error) {
	transport, err := mqtt.New(mqtt.Options{BrokerURL: f.url})
	if err != nil {
		return nil, err
	}
	return &link{Transport: transport, meter: &f.meter}, nil
}

// updated ends the operation of a work when the status of its current generation has arrived.
func (f *fleet) updated(before, now any) {
	was, is := before.(*workv1.ManifestWork), now.(*workv1.ManifestWork)
	if l := f.load.Load(); l != nil && !l.deletes && observed(was) != observed(is) && observed(is) == is.Generation {
		l.finished(is.Name)
	}
}

func (f *fleet) deleted(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if l := f.load.Load(); l != nil && l.deletes {
		l.finished(obj.(*workv1.ManifestWork).Name)
	}
}

// clients returns the number of connections of a connected fleet.
func (f *fleet) clients() int { return len(f.agents) + 1 }

// connect starts the source and then the agents. It returns when all are connected and have their
// works.
func (f *fleet) connect(ctx context.Context) error {
	f.start(f.source, f.informer.RunWithContext)
	for _, ready := range []<-chan struct{}{f.source.Ready(), f.informer.HasSyncedChecker().Done()} {
		if err := reach(ctx, f.source, ready); err != nil {
			return err
		}
	}
	// The hub has no works. Without this call, each agent would wait for works.
	if err := f.source.InventoryComplete(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(connecting)
	for _, a := range f.agents {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			f.start(a.agent, a.watch)
			return reach(ctx, a.agent, a.synced)
		})
	}
	return group.Wait()
}

// peer is a source or an agent.
type peer interface {
	Start(ctx context.Context) error
	Healthy() error
}

// start starts a peer and the watch on its works. They end with the fleet.
func (f *fleet) start(p peer, watch func(context.Context)) {
	f.running.Go(func() {
		if err := p.Start(f.ctx); err != nil {
			f.failed(err)
		}
	})
	f.running.Go(func() { watch(f.ctx) })
}

// reach waits for a channel of a peer.
func reach(ctx context.Context, p peer, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	if err := p.Healthy(); err != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return context.Cause(ctx)
}

// connected returns the number of connected clients.
func (f *fleet) connected() int {
	n := 0
	if f.source.Healthy() == nil {
		n++
	}
	for _, a := range f.agents {
		if a.agent.Healthy() == nil {
			n++
		}
	}
	return n
}

// cut closes all connections at once. Each client connects again.
func (f *fleet) cut() {
	var cuts sync.WaitGroup
	cuts.Go(f.link.cut)
	for _, a := range f.agents {
		cuts.Go(a.link.cut)
	}
	cuts.Wait()
}

// stop stops the source and the agents, and waits for their end.
func (f *fleet) stop() {
	f.cancel()
	f.running.Wait()
}

// onDemand is an interval that is longer than any run. A resyncClock identifies its ticker by it.
const onDemand = 1000 * time.Hour

// resyncClock is the real clock, except for the ticker of the source's resyncs. It ticks at the
// measured moment.
type resyncClock struct {
	clock.RealClock
	ticks chan time.Time
}

// NewTicker implements [clock.WithTicker].
func (c resyncClock) NewTicker(d time.Duration) clock.Ticker {
	if d == onDemand {
		return resyncTicker(c.ticks)
	}
	return c.RealClock.NewTicker(d)
}

type resyncTicker <-chan time.Time

func (t resyncTicker) C() <-chan time.Time { return t }
func (resyncTicker) Stop()                 {}

// resync starts a resync between the source and all agents.
func (f *fleet) resync() {
	select {
	case f.ticks <- time.Now():
	case <-f.ctx.Done():
	}
}

// worksOf returns the client of work i. Works are distributed evenly over the clusters.
func (f *fleet) worksOf(i int) worktyped.ManifestWorkInterface {
	return f.source.Clientset().WorkV1().ManifestWorks(f.agents[i%len(f.agents)].cluster)
}

// envelope is a ConfigMap as the only manifest of a work.
const envelope = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"payload","namespace":"default"},` +
	`"data":{"revision":"%d","value":"%s"}}`

// manifests returns a manifest of about the given size, which differs for each revision.
func (f *fleet) manifests(revision int) []workv1.Manifest {
	filler := strings.Repeat("v", max(0, f.size-len(envelope)))
	return []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil, envelope, revision, filler)}}}
}

// create creates work i, with its name prefix followed by i.
func (f *fleet) create(ctx context.Context, prefix string, i int) error {
	obj := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: prefix + strconv.Itoa(i)}}
	obj.Spec.Workload.Manifests = f.manifests(0)
	_, err := f.worksOf(i).Create(ctx, obj, metav1.CreateOptions{})
	return err
}

// update changes the manifest of work i.
func (f *fleet) update(ctx context.Context, prefix string, i int) error {
	obj, err := f.worksOf(i).Get(ctx, prefix+strconv.Itoa(i), metav1.GetOptions{})
	if err != nil {
		return err
	}
	obj.Spec.Workload.Manifests = f.manifests(1)
	_, err = f.worksOf(i).Update(ctx, obj, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) { // its status arrived in the meantime
		return f.update(ctx, prefix, i)
	}
	return err
}

// remove deletes work i.
func (f *fleet) remove(ctx context.Context, prefix string, i int) error {
	return f.worksOf(i).Delete(ctx, prefix+strconv.Itoa(i), metav1.DeleteOptions{})
}
