// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/examples/internal/folderwatch"
	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Start loads the documents of the folder, now and after changes, or the stored ones, and runs
// until ctx ends. It returns an error if the first documents are invalid; later invalid documents
// change nothing. It can be called once.
func (h *Hub) Start(parent context.Context) error {
	group, ctx := errgroup.WithContext(parent)
	group.Go(func() error { return h.settle(ctx) })
	group.Go(func() error { return h.giveUp(ctx) })
	group.Go(func() error { return h.watchSilence(ctx) })
	group.Go(func() error { return h.logUnclaimed(ctx) })
	group.Go(func() error {
		if h.options.Dir != "" {
			return h.follow(ctx)
		}
		h.change.Lock()
		set, _, err := h.kept(ctx)
		h.change.Unlock()
		if err == nil {
			err = h.Replace(ctx, set)
		}
		if err == nil {
			close(h.loaded)
		}
		return err
	})
	if err := group.Wait(); parent.Err() == nil {
		return err
	}
	return nil // interrupted changes continue after the next start
}

// Loaded returns a channel that is closed when Start has loaded the first documents.
func (h *Hub) Loaded() <-chan struct{} { return h.loaded }

// follow loads the documents of the folder.
func (h *Hub) follow(ctx context.Context) error {
	watcher, err := folderwatch.New(h.options.Dir, 0)
	if err != nil {
		return err
	}
	defer func() { _ = watcher.Close() }()
	take := func() error {
		set, err := document.ReadFolder(h.options.Dir)
		if err == nil && set.Len() == 0 {
			err = h.mayBeEmpty(ctx)
		}
		if err == nil {
			return h.Replace(ctx, set)
		}
		h.refuse(ctx, err)
		return err
	}
	if err := take(); err != nil {
		return err
	}
	close(h.loaded)
	return watcher.Start(ctx, func() { h.insist(ctx, take) })
}

// insist loads the documents of the folder. It retries errors that are not caused by the documents:
// a network file system or the store may fail for a moment.
func (h *Hub) insist(ctx context.Context, take func() error) {
	for attempt := 0; ; attempt++ {
		err := take()
		if err == nil || ctx.Err() != nil {
			return
		}
		if errors.As(err, new(*document.Error)) {
			return
		}
		if wait.Sleep(ctx, clock.RealClock{}, wait.Backoff(100*time.Millisecond, 30*time.Second, attempt)) != nil {
			return
		}
	}
}

// mayBeEmpty refuses a folder without documents if there are applications: a volume that is not
// mounted must not remove them.
func (h *Hub) mayBeEmpty(ctx context.Context) error {
	stored, err := h.options.Rollouts.Applications(ctx)
	if err != nil {
		return err
	}
	if len(stored) > 0 || h.Documents().Len() > 0 {
		return &document.Error{
			Where:   h.options.Dir,
			Problem: "no documents in the folder: to remove everything, keep the documents of the clusters",
		}
	}
	return nil
}

// kept returns the stored documents, and the revision of the store. It decodes documents that have
// changed since the last call. The caller holds change.
func (h *Hub) kept(ctx context.Context) (*document.Set, int64, error) {
	result, err := h.options.Store.Range(ctx, documentPrefix)
	if err != nil {
		return nil, 0, err
	}
	all := map[string]*document.Document{}
	for _, kv := range result.KVs {
		d := h.decoded[string(kv.Value)]
		if d == nil {
			if d, err = document.DecodeOne(kv.Value); err != nil {
				return nil, 0, err
			}
		}
		all[string(kv.Value)] = d
	}
	h.decoded = all
	set, err := document.NewSet(slices.Collect(maps.Values(all))...)
	return set, result.Revision, err
}

// Standby reads and renders the documents of the leader in advance, until ctx ends. Start then has
// to render only the last changes.
func (h *Hub) Standby(ctx context.Context) error {
	for ctx.Err() == nil && h.renderAhead(ctx) != nil { // Start returns the errors of documents
		_ = wait.Sleep(ctx, clock.RealClock{}, time.Second)
	}
	return nil
}

// renderAhead renders documents after each change in the store, until Start has loaded them.
func (h *Hub) renderAhead(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rendered, changes := int64(0), h.options.Store.Watch(ctx, documentPrefix, 0)
	if h.options.Dir != "" {
		changes = h.options.Rollouts.Watch(ctx) // the leader has read the folder again
	}
	for change := (store.Watched{Revision: 1}); change.Revision > 0; change = <-changes {
		if change.Revision <= rendered {
			continue
		}
		var err error
		if rendered, err = h.renderStored(ctx); err != nil || rendered == 0 {
			return err
		}
	}
	return errors.New("the watch has ended")
}

// renderStored renders the stored documents, and returns the revision of the store, or 0 after
// Start has loaded them.
func (h *Hub) renderStored(ctx context.Context) (revision int64, err error) {
	h.change.Lock()
	defer h.change.Unlock()
	h.mu.Lock()
	before, started := h.applications, !h.taken.IsZero()
	h.mu.Unlock()
	if started {
		return 0, nil
	}
	set, revision, err := h.kept(ctx)
	if err == nil && h.options.Dir != "" {
		set, err = document.ReadFolder(h.options.Dir)
	}
	if err == nil {
		err = h.configure(set)
	}
	if err != nil {
		return 0, err
	}
	applications := map[string]*application{}
	for _, r := range h.renderAll(ctx, set, set.Documents(document.ApplicationKind)) {
		if r.rendering != nil && r.err == nil {
			r.rendering.Digest() // computes it
			applications[r.name] = &application{rendering: r.rendering}
		}
	}
	h.mu.Lock()
	h.applications = applications
	h.mu.Unlock()
	for name := range before {
		if set.Document(document.ApplicationKind, name) == nil {
			err = errors.Join(err, h.options.Objects.Forget(name))
		}
	}
	return revision, err
}

// settle calls Settled when no application is held up: until then, the set of works is unknown. A
// hub that starts without documents calls it only after Complete. If the store started without documents, it
// waits for Complete, also after restarts: the store may have been lost, and applications on
// clusters must not be removed. It waits for the agents, because lost works are created again under
// other names: an object must be in the new work before the old one is deleted.
func (h *Hub) settle(ctx context.Context) error {
	select {
	case <-h.loaded:
	case <-ctx.Done():
		return nil
	}
	waited := h.awaitComplete(ctx)
	declare := waited || h.Documents().Len() > 0 && (!h.options.Declared || h.options.Dir != "")
	for ctx.Err() == nil {
		if declare {
			if err := h.declare(ctx); err != nil {
				return err
			}
		}
		select {
		case <-h.completed:
			declare = true
		case <-ctx.Done():
		}
	}
	return nil
}

// declare calls Settled when no application is held up and all are settled. It retries while another
// process with the same source ID writes.
func (h *Hub) declare(ctx context.Context) error {
	for {
		changed := h.news.Next()
		if !h.heldUp() {
			for _, d := range h.Documents().Documents(document.ApplicationKind) {
				if h.Settled(ctx, d.Name) != nil {
					return nil // ctx has ended
				}
			}
			if !h.heldUp() {
				if err := h.options.Settled(ctx); !apierrors.IsServiceUnavailable(err) {
					return err
				}
			}
		}
		select {
		case <-time.After(h.options.Beat):
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// heldUp reports whether any application is held up. It waits for the end of a change.
func (h *Hub) heldUp() bool {
	h.change.Lock()
	defer h.change.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.applications {
		if a.problem != "" {
			return true
		}
	}
	return false
}

// watchSilence logs clusters that become silent, and those that are heard again. It notifies in each
// beat that the state may have changed, because an agent that becomes silent causes no event.
func (h *Hub) watchSilence(ctx context.Context) error {
	silent := map[string]bool{}
	beat := time.NewTicker(h.options.Beat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			h.logSilence(silent)
			h.options.Changed()
		}
	}
}

// logSilence logs the clusters with works that are silent now, and were not before, or the reverse.
func (h *Hub) logSilence(silent map[string]bool) {
	v, now := h.view(), map[string]bool{}
	for cluster := range v.byCluster {
		connection, _ := v.agent(cluster)
		now[cluster] = connection == status.Silent
	}
	for cluster, is := range now {
		log := h.options.Log.WithValues("cluster", cluster, "lastReport", v.reports[cluster])
		switch {
		case is && !silent[cluster]:
			log.Error(nil, "Lost contact with a cluster: its agent, or its connection, is down")
		case !is && silent[cluster]:
			log.Info("Received a message of a silent cluster")
		}
	}
	maps.DeleteFunc(silent, func(string, bool) bool { return true })
	maps.Copy(silent, now)
}
