// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/store"
)

// A remnant is stored as a context of its own: see doc_durable.go. Three things differ from other
// contexts. It waits for its cluster in a separate queue (see cleanupQueue), it never fails, and
// its end removes it.

// remnant is in the head of a remnant and names the context that it belongs to.
type remnant struct {
	ID         string               `json:"id"`
	Generation string               `json:"generation"`
	Cluster    appcontext.ClusterID `json:"cluster"`
	Since      time.Time            `json:"since"`
}

// remnantMark is in the IDs of remnants and in no other ID.
const remnantMark = "~"

// contextID returns the ID of the context to which the objects of a run belong: the context of the
// remnant, or id if r is nil.
func (r *remnant) contextID(id string) string {
	if r != nil {
		return r.ID
	}
	return id
}

// createRemnant detaches a cluster from a context with apps that may have objects there.
func (e *Engine) createRemnant(
	ctx context.Context, img *image, apps []headApp, next detachedCluster, t transaction,
) error {
	next.Remnant = img.head.ID + remnantMark + rand.Text()
	h := head{
		ID: next.Remnant, Generation: rand.Text(), Meta: img.head.Meta, Apps: apps,
		Remnant: &remnant{img.head.ID, img.head.Generation, next.Cluster, next.Since},
	}
	var specs []store.Op
	for _, a := range h.Apps {
		n := neighbor{cluster: next.Cluster, id: img.head.ID, generation: img.head.Generation, app: a.Name}
		resources, err := e.resourcesOf(ctx, &n)
		if err != nil {
			return err
		}
		cluster := appcontext.Cluster{ClusterID: next.Cluster, Resources: resources}
		specs = append(specs, specOps(specKey(h.ID, h.Generation, a.Name, next.Cluster), encode(resources))...)
		specs = append(specs, inventoryOps(h.ID, h.Generation, a.Name, &cluster)...)
	}
	element := Element{Seq: 1, Event: Terminate, Status: InProgress, Queued: next.Since}
	ops := append(t.ops, img.detached.with(next).put(img.head.ID),
		store.Put(headKey(h.ID), encode(h)), store.Put(queueKey(h.ID), encode(tail{Next: 2})),
		putElement(h.ID, &element), putActive(h.ID), store.Put(remnantKey(next.Cluster, h.ID), encode(h.Remnant)))
	ops = append(ops, h.putRecord(&record{State: Terminating, Version: 1, Generation: h.Generation, Current: 1})...)
	return e.write(ctx, &h, specs, ops, t.compares...)
}

// stopRemnant returns the writes that end an unfinished cleanup. An engine then removes the
// remnant.
func (e *Engine) stopRemnant(ctx context.Context, id string) (transaction, error) {
	kv, err := e.store.Get(ctx, headKey(id))
	if err != nil || !kv.Exists() {
		return transaction{}, err
	}
	return transaction{[]store.Compare{store.Unchanged(kv)}, []store.Op{store.Put(stopKey(id), encode(id))}}, nil
}

// awaitOrigin returns a releasingError while an event of the remnant's context may have a call to
// the cluster in progress. An event that began after the cluster was detached sends no calls to it.
func (o *op) awaitOrigin(ctx context.Context) error {
	of := o.task.remnant
	if of == nil {
		return nil
	}
	_, detached, err := o.run.engine.detachedOf(ctx, of.ID)
	if err != nil || !detached.has(of.Cluster) {
		return err
	}
	n := neighbor{cluster: of.Cluster, id: of.ID, generation: of.Generation, app: o.task.app}
	r, err := o.run.engine.recordOf(ctx, &n)
	if err != nil || r.Current == 0 {
		return err
	}
	if ended, err := o.ended(ctx, &n, r.Current); err != nil || ended {
		return err
	}
	return &releasingError{fmt.Errorf("event %d of app context %s has to end here", r.Current, of.ID)}
}

// hurryInterval is the minimum time between two requests of an op to continue a cleanup.
const hurryInterval = time.Minute

// hurry makes the engine that owns a cleanup probe the cluster, because the op waits for the
// cleanup. It puts the active record of the remnant, which all engines watch.
func (o *op) hurry(ctx context.Context, n *neighbor, element store.KeyValue) error {
	now := o.run.engine.now()
	if !strings.Contains(n.id, remnantMark) || now.Sub(o.hurried) < hurryInterval {
		return nil
	}
	o.hurried = now
	err := o.run.engine.apply(ctx, transaction{[]store.Compare{store.Unchanged(element)}, []store.Op{putActive(n.id)}})
	if errors.Is(err, errChanged) { // the cleanup has ended
		return nil
	}
	return err
}

// hurried probes the clusters of a remnant before their next scheduled probe.
func (r *run) hurried() {
	if r.img.head.Remnant == nil || r.work == nil {
		return
	}
	for _, t := range r.work.tasks {
		if t.op != nil && t.op.cluster != nil {
			t.op.cluster.probeCleanups()
		}
	}
}

func (r *run) finishRemnant(ctx context.Context) error {
	if r.work.broken != "" {
		return errors.New(r.work.broken)
	}
	h := &r.img.head
	first, after := r.engine.removal(h, []store.Op{
		store.DeletePrefix(contextKey(h.ID)), store.Delete(activeKey(h.ID)), store.Delete(stopKey(h.ID)),
		store.Delete(remnantKey(h.Remnant.Cluster, h.ID)),
	})
	if err := r.commit(ctx, nil, transaction{ops: first}); err != nil {
		return err
	}
	after(ctx, r.img.revision)
	r.work, r.img = nil, nil
	return nil
}

// Remnant is the pending cleanup of a cluster that was detached from a context. Objects has the
// objects that the context may still have on the cluster.
type Remnant struct {
	// AppContextID is the context. It may have been deleted.
	AppContextID string
	Cluster      appcontext.ClusterID
	// Since is when the cluster was detached.
	Since time.Time
	// Objects has the objects that the context may have there, in order.
	Objects []appcontext.Object
	// Reason and Message explain why the cleanup waits. They are empty before the first attempt.
	Reason  Reason
	Message string
}

// Detached returns the pending cleanups of detached clusters, by cluster and context. It reads the
// manifests of all of them. [Status].Detached has the clusters that are detached from a context.
func (e *Engine) Detached(ctx context.Context) ([]Remnant, error) {
	result, err := e.store.Range(ctx, remnantPrefix)
	if err != nil {
		return nil, err
	}
	out := []Remnant{}
	for _, kv := range result.KVs {
		_, id, _ := strings.Cut(idOf(remnantPrefix, kv.Key), "/")
		img, err := e.stored(ctx, id)
		if errors.Is(err, ErrNotFound) { // cleaned up since
			continue
		}
		if err != nil {
			return nil, err
		}
		spec, err := e.loadSpec(ctx, &img.head)
		if err != nil {
			return nil, err
		}
		out = append(out, img.remnant(spec))
	}
	slices.SortFunc(out, func(a, b Remnant) int {
		return cmp.Or(cmp.Compare(a.Cluster.String(), b.Cluster.String()), cmp.Compare(a.AppContextID, b.AppContextID))
	})
	return out, nil
}

func (img *image) remnant(spec *appcontext.AppContext) Remnant {
	of := img.head.Remnant
	out := Remnant{AppContextID: of.ID, Cluster: of.Cluster, Since: of.Since}
	for i := range spec.Apps {
		for _, r := range spec.Apps[i].Clusters[0].Resources {
			if !isEnd(&r) && r.Hook != appcontext.HookCRDInstall { // definitions stay, as with Terminate
				out.Objects = append(out.Objects, r.Object)
			}
		}
	}
	slices.SortFunc(out.Objects, appcontext.Object.Compare)
	for i := range img.statuses {
		if s := &img.statuses[i]; s.Phase == PhaseRetrying && out.Reason == "" {
			out.Reason, out.Message = s.Reason, s.Message
		}
	}
	return out
}

// Forget ends the cleanups of a cluster that will not return. The objects stay on the cluster.
// [Engine.Detached] omits the cleanups after an engine has processed the call. The cluster stays
// detached.
func (e *Engine) Forget(ctx context.Context, cluster appcontext.ClusterID) error {
	result, err := e.store.Range(ctx, remnantsKey(cluster))
	if err != nil {
		return err
	}
	for _, kv := range result.KVs {
		if _, err := decode[remnant](kv); err != nil {
			return err
		}
		stop, err := e.stopRemnant(ctx, idOf(remnantsKey(cluster), kv.Key))
		if err == nil && len(stop.ops) > 0 {
			err = e.apply(ctx, stop)
		}
		if err != nil && !errors.Is(err, errChanged) { // cleaned up since
			return err
		}
	}
	return nil
}

// cleanupBackoff is the time between two probes of a cluster that only remnants wait for.
var cleanupBackoff = Backoff{Base: 10 * time.Second, Max: 10 * time.Minute}

// cleanupQueue has the ops of remnants that wait for the cluster. They are separate from parked ops
// because the cluster may never return: occasional probes replace the prober. The ops continue
// after any successful probe.
type cleanupQueue struct {
	ops     []*op
	probes  int // probes since the last call that succeeded
	waiting bool
	timer   interface{ Stop() bool }
}

func (q *cleanupQueue) stopLocked() {
	if q.timer != nil {
		q.timer.Stop()
	}
}

func (c *cluster) parkCleanupLocked(o *op) {
	o.state = opParked
	c.cleanups.ops = append(c.cleanups.ops, o)
	c.ensureCleanupProbeLocked()
}

// ensureCleanupProbeLocked schedules a probe of the cluster, if ops wait and no probe is scheduled.
func (c *cluster) ensureCleanupProbeLocked() {
	if c.cleanups.waiting || c.dead || len(c.cleanups.ops) == 0 {
		return
	}
	c.cleanups.waiting = true
	c.cleanups.probes++
	c.cleanups.timer = c.options().Clock.AfterFunc(cleanupBackoff.delay(c.cleanups.probes), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.dead || len(c.cleanups.ops) == 0 {
			c.cleanups.waiting = false
			return
		}
		c.useLocked(1)
		c.session.spawn(c.probeForCleanup)
	})
}

// probeCleanups probes the cluster now, if its next probe for cleanups is due later.
func (c *cluster) probeCleanups() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cleanups.waiting && c.cleanups.timer.Stop() {
		c.useLocked(1)
		c.session.spawn(c.probeForCleanup)
	}
}

func (c *cluster) probeForCleanup() {
	err := c.ask(c.session.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.useLocked(-1)
	c.cleanups.waiting = false
	switch {
	case c.session.ctx.Err() != nil:
	case err == nil:
		c.markUpLocked()
		c.unparkLocked(&c.cleanups.ops)
	default:
		reason := ReasonUnreachable
		if errors.Is(connector.ClassOf(err), connector.ErrTerminal) {
			reason = ReasonRefusedForNow
		}
		for _, o := range c.cleanups.ops {
			o.reportWait(reason, err)
		}
		c.ensureCleanupProbeLocked()
	}
}
