// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package hub drives the quickstart's hub: it sends a work for each manifest file to each cluster, waits until
// all are reported, updates one, deletes one, and in the end takes everything back.
//
// It is written against the generated clientset, so it would do the same with ManifestWorks that a Kubernetes
// API server stores.
package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/manifests"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/progress"
	"github.com/spokewire/sdk-go/internal/wait"
)

// Defaults of [Options].
const (
	DefaultStatusTimeout = 60 * time.Second
	DefaultReadyTimeout  = 5 * time.Second
)

// Options configures a [Hub].
type Options struct {
	// Works is the clientset that works are written to. Required.
	Works workclientset.Interface
	// Clusters and Files are what to send where: at least one of each.
	Clusters []string
	Files    []manifests.File
	// StatusTimeout is how long no work may get further, while some are waited for, before the run fails.
	// Defaults to 60 s.
	StatusTimeout time.Duration
	// ReadyTimeout is how long to wait, once everything is applied, for workloads to become ready. It is no
	// error if they do not: an image may take long to fetch. Defaults to 5 s.
	ReadyTimeout time.Duration
	// Event is told every step, Say what happens next. nil means nobody.
	Event func(progress.Event)
	Say   func(format string, args ...any)
}

// Hub is one run. Its methods are called in the order Start (in a goroutine of its own), Run, Cleanup.
type Hub struct {
	o      Options
	synced chan struct{}

	mu      sync.Mutex
	works   map[key]*work
	changed wait.Broadcast // a work got further
}

type key struct{ cluster, name string }

// New returns a hub. It starts nothing.
func New(o Options) (*Hub, error) {
	if o.Works == nil || len(o.Clusters) == 0 || len(o.Files) == 0 {
		return nil, errors.New("hub: Works, Clusters and Files are required")
	}
	if o.StatusTimeout <= 0 {
		o.StatusTimeout = DefaultStatusTimeout
	}
	if o.ReadyTimeout <= 0 {
		o.ReadyTimeout = DefaultReadyTimeout
	}
	if o.Event == nil {
		o.Event = func(progress.Event) {}
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	return &Hub{o: o, synced: make(chan struct{}), works: map[key]*work{}}, nil
}

// Start watches the works until ctx ends.
func (h *Hub) Start(ctx context.Context) error {
	factory := workinformers.NewSharedInformerFactory(h.o.Works, 0)
	informer := factory.Work().V1().ManifestWorks().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { h.observe(obj.(*workv1.ManifestWork)) },
		UpdateFunc: func(_, obj any) { h.observe(obj.(*workv1.ManifestWork)) },
		DeleteFunc: h.gone,
	})
	if err != nil {
		return fmt.Errorf("watch works: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		close(h.synced)
	}
	<-ctx.Done()
	return nil
}

// Run sends everything, updates one work and deletes one. It fails with the first work that cannot be written
// or gets no further, or with the cause of ctx's end.
func (h *Hub) Run(ctx context.Context) (Summary, error) {
	s, err := h.run(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // says more than what it has interrupted
	}
	return s, err
}

func (h *Hub) run(ctx context.Context) (Summary, error) {
	begin := time.Now()
	select {
	case <-h.synced:
	case <-ctx.Done():
		return Summary{}, context.Cause(ctx)
	}
	if err := h.sendAll(ctx); err != nil {
		return Summary{}, err
	}
	// The first file is what others may build on, the last what nothing does: the one is updated, the other
	// deleted, on the first cluster. With one file it is the same work.
	cluster, first, last := h.o.Clusters[0], h.o.Files[0], h.o.Files[len(h.o.Files)-1]
	s := Summary{Clusters: len(h.o.Clusters), Files: len(h.o.Files), Sent: h.latencies(), Objects: h.objects()}
	h.o.Say("Updating %s on %s: an annotation on its %s", first.Work, cluster, first.Objects[0])
	updated, err := h.update(ctx, key{cluster, first.Work})
	if err != nil {
		return Summary{}, err
	}
	h.o.Say("Deleting %s on %s", last.Work, cluster)
	deleted, err := h.delete(ctx, key{cluster, last.Work})
	if err != nil {
		return Summary{}, err
	}
	s.Updated, s.Deleted, s.Took = updated, deleted, time.Since(begin)
	return s, nil
}

// sendAll creates every work and waits until all are reported and, within limits, their workloads ready.
func (h *Hub) sendAll(ctx context.Context) error {
	h.o.Say("Sending %s to %s", progress.Count(len(h.o.Files), "work"), progress.Count(len(h.o.Clusters), "cluster"))
	for _, f := range h.o.Files {
		for _, cluster := range h.o.Clusters {
			if err := h.send(ctx, cluster, f); err != nil {
				return err
			}
		}
	}
	if err := h.wait(ctx, (*work).settled); err != nil {
		return err
	}
	ready, cancel := context.WithTimeoutCause(ctx, h.o.ReadyTimeout, errUnready)
	defer cancel()
	if err := h.wait(ready, (*work).ready); err != nil && !errors.Is(err, errUnready) {
		return err
	}
	return nil
}

// errUnready ends the wait for workloads.
var errUnready = errors.New("some workloads are not ready yet")

// Cleanup deletes every work that is left and waits until the agents have removed their objects, for the status
// timeout at most or until ctx ends. It says so, with a hint if there is one, unless nothing is left, and returns
// how many works these were.
func (h *Hub) Cleanup(ctx context.Context, hint string) (deleted int, err error) {
	if left, _ := h.stuck((*work).absent); len(left) == 0 {
		return 0, nil
	}
	h.o.Say("Removing what was sent%s", hint)
	ctx, cancel := context.WithTimeoutCause(ctx, h.o.StatusTimeout, fmt.Errorf("removing took more than %v", h.o.StatusTimeout))
	defer cancel()
	if deleted, err = h.removeAll(ctx); err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // says more than what it has interrupted
	}
	return deleted, err
}

func (h *Hub) removeAll(ctx context.Context) (deleted int, err error) {
	// Backwards: what came last builds on what came first.
	for _, f := range slices.Backward(h.o.Files) {
		for _, cluster := range h.o.Clusters {
			present, err := h.startDelete(ctx, key{cluster, f.Work})
			if err != nil {
				return deleted, err
			}
			if present {
				deleted++
			}
		}
	}
	return deleted, h.wait(ctx, (*work).absent)
}
