// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet is a hub and its agents in one process: a source with an informer, and for each cluster an agent with
// an informer or a watch and a controller that reports on each work at once.
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
	"github.com/spokewire/sdk-go/codec"
)

const (
	// connecting is how many connections are being made at once at the start: more would only fill the
	// broker's backlog, and a packet that it drops costs a second.
	connecting = 64
	// initialSync is more than thousands of agents need that come at once.
	initialSync = time.Minute
	// noSync is for the other profile, whose sources do not say when an answer is complete: in a new fleet there is
	// nothing to wait for.
	noSync = -1
)

// Options says how large a fleet is.
type Options struct {
	// MQTT is how to reach the broker, without a ClientID.
	MQTT mqtt.Options
	// Profile is the wire format.
	Profile codec.Profile
	// Agents is how many clusters there are.
	Agents int
	// Size is how large a work's manifest is, in bytes.
	Size int
	// Light agents watch their works without an informer.
	Light bool
	// Failed is told, from any goroutine, what makes the run worthless.
	Failed func(error)
}

// Observer is told by the hub's informer, in the order of events, from one goroutine.
type Observer struct {
	// Reported is called when the status of a work's current generation has come.
	Reported func(name string)
	// Gone is called when a work has been removed.
	Gone func(name string)
}

// Fleet is a hub and its agents. Its methods may be called from any goroutine, but Connect and Stop once only, in
// that order.
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

// New makes a fleet and connects to nothing.
func New(o Options) (*Fleet, error) {
	f := &Fleet{options: o, id: "fleet-bench-" + rand.String(8), pulse: newPulse()}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.Observe(Observer{})
	var err error
	if f.link, err = f.newLink(); err != nil {
		return nil, err
	}
	f.source, err = work.NewSource(f.link, work.SourceOptions{
		SourceID: f.id, Profile: o.Profile, Outbox: 10_000_000, ResyncInterval: never, Clock: f.pulse,
	})
	if err != nil {
		return nil, err
	}
	f.view, err = newInformer(f.source.Clientset(), cache.ResourceEventHandlerFuncs{UpdateFunc: f.updated, DeleteFunc: f.deleted})
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

// Observe replaces who is told.
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

// Meter counts what the fleet publishes.
func (f *Fleet) Meter() *Meter { return &f.meter }

// Size is how many connections the fleet has when all is well.
func (f *Fleet) Size() int { return len(f.members) + 1 }

// cluster names the cluster of work i. The names are new for each run: on a shared broker nobody else has them.
func (f *Fleet) cluster(i int) string { return fmt.Sprintf("%s-%d", f.id, i%f.options.Agents) }

func (f *Fleet) works(i int) worktyped.ManifestWorkInterface {
	return f.source.Clientset().WorkV1().ManifestWorks(f.cluster(i))
}

// Connect starts everybody, the source first, and returns when all are connected and their informers have synced.
func (f *Fleet) Connect(ctx context.Context) error {
	f.start(f.source, f.view)
	if err := f.reach(ctx, f.source, f.view); err != nil {
		return err
	}
	// The hub has no works, and says so: else each agent would wait for those to come.
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

// failure returns the first error of those that were started, which say best what is wrong; else why no more were.
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

// reach waits for a peer and its view.
func (f *Fleet) reach(ctx context.Context, p peer, v view) error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	ready := p.Ready()
	for !v.HasSynced() {
		select {
		case <-ready:
			ready = nil // and what is left is to look again
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

// Resync makes the source and all agents compare what they have.
func (f *Fleet) Resync() { f.pulse.beat(f.ctx.Done()) }

// Cut ends all connections at once; each client makes another.
func (f *Fleet) Cut() {
	var cuts sync.WaitGroup
	cuts.Go(f.link.cut)
	for _, m := range f.members {
		cuts.Go(m.link.cut)
	}
	cuts.Wait()
}

// Connected is how many are connected.
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

// Stop ends everybody and returns when nothing is left.
func (f *Fleet) Stop() {
	f.cancel()
	f.running.Wait()
}
