// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet has a hub and its agents in one process: a source with an informer, and for each
// cluster an agent with an informer or a watch. A controller of the agent reports on each work at
// once.
package fleet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/cache"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

const (
	// connecting is the limit of concurrent connection attempts at the start. More attempts would
	// fill the broker's backlog, and a dropped packet costs a second.
	connecting = 64
	// initialSync is the time limit of the initial sync. It is long enough for thousands of agents
	// that connect at once.
	initialSync = time.Minute
)

// Options configures a [Fleet].
type Options struct {
	// MQTT has the broker, without a ClientID.
	MQTT mqtt.Options
	// Agents is the number of clusters.
	Agents int
	// Size is the size of a work's manifest, in bytes.
	Size int
	// Light is whether agents watch their works without an informer.
	Light bool
	// Failed is called, from any goroutine, for an error that invalidates the run.
	Failed func(error)
}

// Observer receives events of the hub's informer, in their order and from one goroutine.
type Observer struct {
	// Reported is called when the status of a work's current generation has arrived.
	Reported func(name string)
	// Gone is called when a work has been removed.
	Gone func(name string)
}

// Fleet is a hub and its agents. Its methods may be called from any goroutine. Connect and Stop may
// be called once, in this order.
type Fleet struct {
	options  Options
	id       string
	source   *work.Source
	link     *link
	view     view
	members  []*member
	pulse    *pulse
	meter    Meter
	observer atomic.Pointer[Observer]

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// New returns a fleet that is not connected.
func New(o Options) (*Fleet, error) {
	f := &Fleet{options: o, id: "fleet-bench-" + rand.String(8), pulse: newPulse()}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.Observe(Observer{})
	var err error
	if f.link, err = f.newLink(); err != nil {
		return nil, err
	}
	f.source, err = work.NewSource(f.link, work.SourceOptions{
		SourceID: f.id, Outbox: 10_000_000, ResyncInterval: never, Clock: f.pulse,
	})
	if err != nil {
		return nil, err
	}
	f.view, err = newInformer(f.source.Clientset(),
		cache.ResourceEventHandlerFuncs{UpdateFunc: f.updated, DeleteFunc: f.deleted})
	if err != nil {
		return nil, err
	}
	for i := range o.Agents {
		m, err := f.newMember(i)
		if err != nil {
			return nil, err
		}
		f.members = append(f.members, m)
	}
	return f, nil
}

func (f *Fleet) newLink() (*link, error) {
	transport, err := mqtt.New(f.options.MQTT)
	if err != nil {
		return nil, err
	}
	return &link{Transport: transport, meter: &f.meter}, nil
}

// Observe replaces the observer.
func (f *Fleet) Observe(o Observer) { f.observer.Store(&o) }

func (f *Fleet) updated(before, now any) {
	was, is := before.(*workv1.ManifestWork), now.(*workv1.ManifestWork)
	if o := f.observer.Load(); o.Reported != nil && observed(was) != observed(is) && observed(is) == is.Generation {
		o.Reported(is.Name)
	}
}

func (f *Fleet) deleted(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if o := f.observer.Load(); o.Gone != nil {
		o.Gone(obj.(*workv1.ManifestWork).Name)
	}
}

// Meter returns the meter of published events.
func (f *Fleet) Meter() *Meter { return &f.meter }

// Size returns the number of connections of a connected fleet.
func (f *Fleet) Size() int { return len(f.members) + 1 }

// cluster returns the name of the cluster of work i. The names are new for each run, since the
// broker may be shared.
func (f *Fleet) cluster(i int) string { return fmt.Sprintf("%s-%d", f.id, i%f.options.Agents) }

func (f *Fleet) works(i int) worktyped.ManifestWorkInterface {
	return f.source.Clientset().WorkV1().ManifestWorks(f.cluster(i))
}

// Connect starts the source and then the agents. It waits until all are connected and their
// informers have synced.
func (f *Fleet) Connect(ctx context.Context) error {
	f.start(f.source, f.view)
	if err := f.reach(ctx, f.source, f.view); err != nil {
		return err
	}
	// The hub has no works. Without this call, each agent would wait for works.
	if err := f.source.InventoryComplete(ctx); err != nil {
		return err
	}
	slots := make(chan struct{}, connecting)
	errs := make(chan error, len(f.members))
	started := 0
	for _, m := range f.members {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return f.failure(ctx, errs, started)
		}
		f.start(m.agent, m.view)
		started++
		f.running.Go(func() {
			errs <- f.reach(ctx, m.agent, m.view)
			<-slots
		})
	}
	return f.failure(ctx, errs, started)
}

// failure returns the first error of the started agents, since it is the most precise. Otherwise it
// returns the reason why the others were not started.
func (f *Fleet) failure(ctx context.Context, errs <-chan error, started int) error {
	for range started {
		if err := <-errs; err != nil {
			return err
		}
	}
	if started < len(f.members) {
		return context.Cause(ctx)
	}
	return nil
}

type peer interface {
	Start(context.Context) error
	Ready() <-chan struct{}
	Healthy() error
}

func (f *Fleet) start(p peer, v view) {
	f.running.Go(func() {
		if err := p.Start(f.ctx); err != nil {
			f.options.Failed(err)
		}
	})
	f.running.Go(func() { v.RunWithContext(f.ctx) })
}

// reach waits until the view of a peer has synced.
func (f *Fleet) reach(ctx context.Context, p peer, v view) error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	ready := p.Ready()
	for !v.HasSynced() {
		select {
		case <-ready:
			ready = nil // then only poll
		case <-ticker.C:
		case <-ctx.Done():
			if err := p.Healthy(); err != nil {
				return fmt.Errorf("%w: %w", context.Cause(ctx), err)
			}
			return context.Cause(ctx)
		case <-f.ctx.Done():
			return f.ctx.Err()
		}
	}
	return nil
}

// Resync starts a resync between the source and all agents.
func (f *Fleet) Resync() { f.pulse.beat(f.ctx.Done()) }

// Cut closes all connections at once. Each client connects again.
func (f *Fleet) Cut() {
	var cuts sync.WaitGroup
	cuts.Go(f.link.cut)
	for _, m := range f.members {
		cuts.Go(m.link.cut)
	}
	cuts.Wait()
}

// Connected returns the number of connected clients.
func (f *Fleet) Connected() int {
	n := 0
	if f.source.Healthy() == nil {
		n++
	}
	for _, m := range f.members {
		if m.agent.Healthy() == nil {
			n++
		}
	}
	return n
}

// Stop stops the source and the agents, and waits for their end.
func (f *Fleet) Stop() {
	f.cancel()
	f.running.Wait()
}
