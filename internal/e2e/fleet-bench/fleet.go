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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// fleet is a hub and its agents: a source with an informer, and an agent for each cluster. With
// --store, a process has only the source, without an informer, or only the agents.
type fleet struct {
	options
	url    string // of the broker
	id     string
	failed func(error) // ends the run
	meter  meter

	server   *server // of --broker grpc, in the process of the source
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

// newFleet returns a fleet without a source and agents. failed is called, from any goroutine, for an
// error that invalidates the run.
func newFleet(o options, id string, failed func(error)) *fleet {
	f := &fleet{options: o, url: o.broker, id: id, failed: failed, ticks: make(chan time.Time)}
	f.meter.reset()
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// newID returns the ID of a run: its source and the prefix of its clusters. It is new for each run,
// since the broker and the store may be shared.
func newID() string { return "fleet-bench-" + rand.String(8) }

// cluster returns the name of cluster i.
func (f *fleet) cluster(i int) string { return fmt.Sprintf("%s-%d", f.id, i) }

// addSource adds the source. Without a store, it has an informer.
func (f *fleet) addSource(store work.Store) error {
	var err error
	if f.server != nil {
		f.link = &link{Transport: f.server.Transport(), meter: &f.meter}
	} else if f.link, err = f.newLink(); err != nil {
		return err
	}
	o := work.SourceOptions{SourceID: f.id, ResyncInterval: onDemand, Clock: resyncClock{ticks: f.ticks}, Store: store}
	if _, ok := store.(work.SharedStore); ok {
		o.SharedGroup = "hub"
	}
	if f.source, err = work.NewSource(f.link, o); err != nil || store != nil {
		return err
	}
	f.informer = workinformers.NewManifestWorkInformer(f.source.Clientset(), "", 0, cache.Indexers{})
	_, err = f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, obj any) { f.updated(obj.(*workv1.ManifestWork)) }, DeleteFunc: f.deleted,
	})
	return err
}

// addAgents adds an agent for each cluster.
func (f *fleet) addAgents() error {
	for i := range f.options.agents {
		a, err := f.newAgent(f.cluster(i))
		if err != nil {
			return err
		}
		f.agents = append(f.agents, a)
	}
	return nil
}

func (f *fleet) newLink() (*link, error) {
	transport, err := f.newTransport()
	return &link{Transport: transport, meter: &f.meter}, err
}

func (f *fleet) newTransport() (cloudevents.Transport, error) {
	if address, ok := strings.CutPrefix(f.url, serverScheme); ok {
		return grpc.New(grpc.Options{
			Address: address, Insecure: f.ca == "", CAFile: f.ca, CertFile: f.ca, KeyFile: f.ca,
		})
	}
	return mqtt.New(mqtt.Options{BrokerURL: f.url, CAFile: f.ca})
}

// updated ends the operation of a work when the status of its current generation has arrived.
func (f *fleet) updated(obj *workv1.ManifestWork) {
	if l := f.load.Load(); l != nil && !l.deletes && observed(obj) == obj.Generation {
		l.finished(obj.Name)
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

// watch calls updated for the works of the source until ctx has ended, in place of an informer.
func (f *fleet) watch(ctx context.Context) {
	version := ""
	for ctx.Err() == nil {
		w, err := f.source.Clientset().WorkV1().ManifestWorks("").Watch(ctx, metav1.ListOptions{ResourceVersion: version})
		if err != nil {
			if ctx.Err() == nil {
				f.failed(fmt.Errorf("watch of the hub: %w", err))
			}
			return
		}
		for e := range w.ResultChan() {
			if obj, ok := e.Object.(*workv1.ManifestWork); ok {
				version = obj.ResourceVersion
				f.updated(obj)
			}
		}
		w.Stop() // a watch that was too slow starts again
	}
}

// clients returns the number of connections of a connected fleet. A source with a server in its
// process has none.
func (f *fleet) clients() int {
	n := len(f.agents)
	if f.source != nil && f.server == nil {
		n++
	}
	return n
}

// connect starts the source and then the agents. It returns when all are connected and have their
// works.
func (f *fleet) connect(ctx context.Context) error {
	if f.source != nil {
		if err := f.startSource(ctx); err != nil {
			return err
		}
		// The hub has no works. Without this call, each agent would wait for works.
		if err := f.source.InventoryComplete(ctx); err != nil {
			return err
		}
	}
	for _, a := range f.agents {
		f.start(a.agent, a.watch)
	}
	for _, a := range f.agents {
		if err := reach(ctx, a.agent, a.synced); err != nil {
			return err
		}
	}
	return nil
}

// startSource starts the source, and returns when it is ready.
func (f *fleet) startSource(ctx context.Context) error {
	if f.informer == nil {
		f.start(f.source, f.watch)
		return reach(ctx, f.source, f.source.Ready())
	}
	f.start(f.source, f.informer.RunWithContext)
	if err := reach(ctx, f.source, f.source.Ready()); err != nil {
		return err
	}
	return reach(ctx, f.source, f.informer.HasSyncedChecker().Done())
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
	if f.source != nil && f.server == nil && f.source.Healthy() == nil {
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
	if f.link != nil { // the hub is in this process
		cuts.Go(f.link.cut)
	}
	for _, a := range f.agents {
		cuts.Go(a.link.cut)
	}
	cuts.Wait()
}

// stop stops the source and the agents, and waits for their end.
func (f *fleet) stop() {
	f.cancel()
	f.running.Wait()
	if f.server != nil {
		f.server.kill()
	}
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
	return f.source.Clientset().WorkV1().ManifestWorks(f.cluster(i % f.options.agents))
}

// envelope is a ConfigMap as the only manifest of a work.
const envelope = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"payload","namespace":"default"},` +
	`"data":{"revision":"%d","value":"%s"}}`

// manifests returns a manifest of about the given size, which differs for each revision. With
// --distinct, it also differs for each work.
func (f *fleet) manifests(i, revision int) []workv1.Manifest {
	filler := strings.Repeat("v", max(0, f.size-len(envelope)))
	if number := strconv.Itoa(i); f.distinct && len(number) < len(filler) {
		filler = number + filler[len(number):]
	}
	return []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil, envelope, revision, filler)}}}
}

// create creates work i, with its name prefix followed by i.
func (f *fleet) create(ctx context.Context, prefix string, i int) error {
	obj := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: prefix + strconv.Itoa(i)}}
	obj.Spec.Workload.Manifests = f.manifests(i, 0)
	_, err := f.worksOf(i).Create(ctx, obj, metav1.CreateOptions{})
	return err
}

// update changes the manifest of work i.
func (f *fleet) update(ctx context.Context, prefix string, i int) error {
	obj, err := f.worksOf(i).Get(ctx, prefix+strconv.Itoa(i), metav1.GetOptions{})
	if err != nil {
		return err
	}
	obj.Spec.Workload.Manifests = f.manifests(i, 1)
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
