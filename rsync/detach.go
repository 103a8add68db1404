// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Detach removes a cluster from a context. Use it for a cluster that does not answer any more. From
// then on:
//
//   - Events omit the cluster, including the event in progress. The status of each app there is
//     Skipped, with the reason Detached. Terminate and Delete of the context work without the
//     cluster.
//   - The context does not hold its objects on the cluster: see [Engine.Inventory].
//   - [Engine.Detached] lists the objects that the context may have there. When the cluster answers
//     again, the engine deletes those that no other context holds. It runs no hooks. Until then it
//     probes the cluster, with a delay that grows to 10 minutes, and records the reason why the
//     cleanup waits.
//
// The cluster stays detached until [Engine.Attach], also after the cleanup. Detach returns
// ErrNotFound if the context does not exist or has no app on the cluster, and ErrBroken if the
// manifests cannot be decoded. To detach again is no error.
func (e *Engine) Detach(ctx context.Context, id string, cluster appcontext.ClusterID) error {
	return retryChanged(id, func() error {
		img, err := e.onCluster(ctx, id, cluster)
		if err != nil || img.detached.has(cluster) {
			return err
		}
		return e.detach(ctx, img, cluster)
	})
}

// retryChanged calls write until it returns another error than errChanged, or conflictLimit times.
func retryChanged(id string, write func() error) error {
	for range conflictLimit {
		if err := write(); !errors.Is(err, errChanged) {
			return err
		}
	}
	return fmt.Errorf("app context %q: %w", id, ErrConflict)
}

func (e *Engine) detach(ctx context.Context, img *image, cluster appcontext.ClusterID) error {
	next := detachedCluster{Cluster: cluster, Since: e.now()}
	t := transaction{compares: []store.Compare{store.Unchanged(img.stateKV), store.Unchanged(img.detachedKV)}}
	if img.record.Current != 0 { // makes the owner read the queue again
		t.ops = append(t.ops, putActive(img.head.ID))
	}
	if before := img.detached.get(cluster); before != nil && before.Remnant != "" {
		// The new remnant has the same objects.
		stop, err := e.stopRemnant(ctx, before.Remnant)
		if err != nil {
			return err
		}
		t.add(stop)
	}
	if img.record.Holds || !img.record.State.empty() { // it may have objects
		apps, absent, err := e.present(ctx, img, cluster)
		if err != nil {
			return err
		}
		if t.compares = append(t.compares, absent...); len(apps) > 0 {
			return e.createRemnant(ctx, img, apps, next, t)
		}
	}
	t.ops = append(t.ops, img.detached.with(next).put(img.head.ID))
	return e.apply(ctx, t)
}

// apply runs a transaction. It returns errChanged if a condition is not true.
func (e *Engine) apply(ctx context.Context, t transaction) error {
	result, err := e.txn(ctx, t.compares, t.ops)
	if err == nil && !result.Succeeded {
		err = errChanged
	}
	return err
}

// Attach undoes Detach. The next Instantiate of the context applies all resources on the cluster.
// Until this Instantiate, objects may be missing on the cluster. Therefore an Update from the
// context applies all resources of the new context on the cluster. Attach ends an unfinished
// cleanup, unless a Terminate or an UpdateDelete of the context has begun. Attach returns
// ErrNotFound in the same cases as Detach. To attach a cluster that is not detached is no error.
func (e *Engine) Attach(ctx context.Context, id string, cluster appcontext.ClusterID) error {
	return retryChanged(id, func() error {
		img, err := e.onCluster(ctx, id, cluster)
		if err != nil || !img.detached.has(cluster) {
			return err
		}
		next := *img.detached.get(cluster)
		next.Attached = true
		t := transaction{
			[]store.Compare{store.Unchanged(img.stateKV), store.Unchanged(img.detachedKV)},
			[]store.Op{img.detached.with(next).put(id)},
		}
		if img.record.Holds && next.Remnant != "" {
			stop, err := e.stopRemnant(ctx, next.Remnant)
			if err != nil {
				return err
			}
			t.add(stop)
		}
		if img.record.Current != 0 {
			t.ops = append(t.ops, putActive(id))
		}
		return e.apply(ctx, t)
	})
}

// onCluster reads a context. It returns ErrNotFound if the context has no app on the cluster.
func (e *Engine) onCluster(ctx context.Context, id string, cluster appcontext.ClusterID) (*image, error) {
	img, err := e.image(ctx, id)
	if err == nil && len(img.head.appsOn(cluster)) == 0 {
		return nil, fmt.Errorf("app context %q has no app on cluster %s: %w", id, cluster, ErrNotFound)
	}
	return img, err
}

func (h *head) appsOn(cluster appcontext.ClusterID) []headApp {
	var out []headApp
	for _, a := range h.Apps {
		if slices.Contains(a.Clusters, cluster) {
			out = append(out, headApp{Name: a.Name, DependsOn: a.DependsOn, Clusters: []appcontext.ClusterID{cluster}})
		}
	}
	return out
}

// present returns the apps that are on a cluster and not absent there. The conditions ensure that
// the other apps are still absent.
func (e *Engine) present(ctx context.Context, img *image, c appcontext.ClusterID) ([]headApp, []store.Compare, error) {
	apps := img.head.appsOn(c)
	if !img.record.Partial {
		return apps, nil, nil
	}
	var out []headApp
	var compares []store.Compare
	for _, a := range apps {
		n := neighbor{cluster: c, id: img.head.ID, generation: img.head.Generation, app: a.Name}
		absent, kv, err := e.absentOn(ctx, &n, &img.record)
		switch {
		case err != nil:
			return nil, nil, err
		case absent:
			compares = append(compares, store.Unchanged(kv))
		default:
			out = append(out, a)
		}
	}
	return out, compares, nil
}

// detachedCluster is a cluster that is or was detached from a context.
type detachedCluster struct {
	Cluster appcontext.ClusterID `json:"cluster"`
	Since   time.Time            `json:"since"`
	// Remnant is the ID of the remnant, which may have been removed. It is empty if the context had
	// no objects.
	Remnant string `json:"remnant,omitempty"`
	// Attached is set by Attach. The entry then stays until an event has handled the cluster.
	Attached bool `json:"attached,omitempty"`
}

// detachedClusters is the value at detachedKey, in the order of the clusters.
type detachedClusters []detachedCluster

func (d detachedClusters) find(c appcontext.ClusterID) (int, bool) {
	return slices.BinarySearchFunc(d, c, func(entry detachedCluster, c appcontext.ClusterID) int {
		return cmp.Or(cmp.Compare(entry.Cluster.Provider, c.Provider), cmp.Compare(entry.Cluster.Name, c.Name))
	})
}

func (d detachedClusters) get(c appcontext.ClusterID) *detachedCluster {
	if i, ok := d.find(c); ok {
		return &d[i]
	}
	return nil
}

// has reports whether a cluster is detached now.
func (d detachedClusters) has(c appcontext.ClusterID) bool {
	entry := d.get(c)
	return entry != nil && !entry.Attached
}

// clusters returns the clusters that are detached now.
func (d detachedClusters) clusters() []appcontext.ClusterID {
	var out []appcontext.ClusterID
	for i := range d {
		if !d[i].Attached {
			out = append(out, d[i].Cluster)
		}
	}
	return out
}

// with returns a copy with an entry, which replaces an entry for the same cluster.
func (d detachedClusters) with(entry detachedCluster) detachedClusters {
	out := slices.Clone(d)
	i, ok := out.find(entry.Cluster)
	if ok {
		out[i] = entry
		return out
	}
	return slices.Insert(out, i, entry)
}

// handled returns a copy without the attached clusters that an event has handled, and whether any
// were removed.
func (d detachedClusters) handled(w *work) (detachedClusters, bool) {
	if len(d) == 0 {
		return d, false
	}
	leftOut := map[appcontext.ClusterID]bool{}
	for _, t := range w.tasks {
		if t.reason == ReasonDetached {
			leftOut[t.cluster] = true
		}
	}
	out := slices.DeleteFunc(slices.Clone(d), func(entry detachedCluster) bool {
		return entry.Attached && !leftOut[entry.Cluster]
	})
	return out, len(out) < len(d)
}

func (d detachedClusters) put(id string) store.Op {
	if len(d) == 0 {
		return store.Delete(detachedKey(id))
	}
	return store.Put(detachedKey(id), encode(d))
}

func (e *Engine) detachedOf(ctx context.Context, id string) (store.KeyValue, detachedClusters, error) {
	return get[detachedClusters](ctx, e, detachedKey(id))
}

// without returns the other context of an update without the clusters on which that context does
// not count. An Update applies everything where the context from which it leads may lack objects.
// An UpdateDelete deletes everything where the context to which the update led holds nothing.
func (d detachedClusters) without(other *appcontext.AppContext, event EventType) *appcontext.AppContext {
	if len(d) == 0 {
		return other
	}
	out := *other
	out.Apps = slices.Clone(other.Apps)
	for i := range out.Apps {
		a := &out.Apps[i]
		a.Clusters = slices.DeleteFunc(slices.Clone(a.Clusters), func(c appcontext.Cluster) bool {
			entry := d.get(c.ClusterID)
			return entry != nil && (event == Update || !entry.Attached)
		})
	}
	return &out
}

// leaveOut ends the tasks on detached clusters, now or when their calls have returned.
func (r *run) leaveOut() {
	if len(r.img.detached) == 0 {
		return
	}
	for _, t := range r.work.tasks {
		switch {
		case t.end != "" || !r.img.detached.has(t.cluster):
		case t.op == nil:
			t.leaveOut()
			r.work.enqueue(t)
		case t.op.cluster != nil:
			t.op.cluster.leaveOut(t.op)
		}
	}
}

func (t *task) leaveOut() {
	t.end, t.reason, t.message = PhaseSkipped, ReasonDetached, "the cluster is detached from the app context"
	t.deployed, t.ready, t.dirty = true, true, true
}

func (c *cluster) leaveOut(o *op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.cut = ReasonDetached
	switch {
	case o.state == opEnded:
	case o.state != opRunning:
		c.removeLocked(o)
		c.endLocked(o, result{reason: ReasonDetached, err: errCut})
	case o.cancel != nil:
		o.late = true
		o.cancel()
	}
}
