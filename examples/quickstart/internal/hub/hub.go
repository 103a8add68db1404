// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package hub is the quickstart's hub. It sends a work for each manifest file to each cluster, and
// waits until all are reported. Then it updates one work, deletes one, and finally removes all.
//
// It uses the generated clientset, so it could use ManifestWorks of a Kubernetes API server in the
// same way.
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
	// Works writes and watches the works. Required.
	Works workclientset.Interface
	// Clusters and Files are the clusters and the files to send to them: at least one of each.
	Clusters []string
	Files    []manifests.File
	// StatusTimeout limits the time without progress of any work while the hub waits. Then the run
	// fails. Defaults to 60 s.
	StatusTimeout time.Duration
	// ReadyTimeout limits the time to wait for ready workloads after all works are applied. Unready
	// workloads are not an error: an image may take long to pull. Defaults to 5 s.
	ReadyTimeout time.Duration
	// Event is called for every step, and Print for messages. Nil means no calls.
	Event func(progress.Event)
	Print func(format string, args ...any)
}

// Hub is one run. Its methods are called in the order Start (in its own goroutine), Run, Cleanup.
type Hub struct {
	o      Options
	synced chan struct{}

	mu      sync.Mutex
	works   map[key]*work
	changed wait.Broadcast // woken when a work makes progress
}

type key struct{ cluster, name string }

// New returns a hub that is not started.
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
	if o.Print == nil {
		o.Print = func(string, ...any) {}
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

// Run sends all works, updates one work and deletes one. It returns the error of the first work
// that cannot be written or makes no progress, or the cause of the end of ctx.
func (h *Hub) Run(ctx context.Context) (Summary, error) {
	s, err := h.run(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // more precise than the interrupted call
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
	// Other files may depend on the first file, but not on the last. So on the first cluster, the
	// first is updated and the last deleted. With one file it is the same work.
	cluster, first, last := h.o.Clusters[0], h.o.Files[0], h.o.Files[len(h.o.Files)-1]
	s := Summary{Clusters: len(h.o.Clusters), Files: len(h.o.Files), Sent: h.latencies(), Objects: h.objects()}
	h.o.Print("Updating %s on %s: an annotation on its %s", first.Work, cluster, first.Objects[0])
	updated, err := h.update(ctx, key{cluster, first.Work})
	if err != nil {
		return Summary{}, err
	}
	h.o.Print("Deleting %s on %s", last.Work, cluster)
	deleted, err := h.delete(ctx, key{cluster, last.Work})
	if err != nil {
		return Summary{}, err
	}
	s.Updated, s.Deleted, s.Took = updated, deleted, time.Since(begin)
	return s, nil
}

// sendAll creates every work and waits until all are reported and, for a limited time, their
// workloads are ready.
func (h *Hub) sendAll(ctx context.Context) error {
	h.o.Print("Sending %s to %s", progress.Count(len(h.o.Files), "work"), progress.Count(len(h.o.Clusters), "cluster"))
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

// Cleanup deletes all remaining works and waits until the agents have removed their objects, at
// most for the status timeout or until ctx ends. If there are remaining works, it prints a message
// with the hint. It returns the number of these works.
func (h *Hub) Cleanup(ctx context.Context, hint string) (deleted int, err error) {
	if left, _ := h.stuck((*work).absent); len(left) == 0 {
		return 0, nil
	}
	h.o.Print("Removing all works%s", hint)
	ctx, cancel := context.WithTimeoutCause(ctx, h.o.StatusTimeout,
		fmt.Errorf("removing took more than %v", h.o.StatusTimeout))
	defer cancel()
	if deleted, err = h.removeAll(ctx); err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // more precise than the interrupted call
	}
	return deleted, err
}

func (h *Hub) removeAll(ctx context.Context) (deleted int, err error) {
	// In reverse order: later files may depend on earlier ones.
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
