// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

// record stores the observation of an app on a cluster, if it has changed. In the same transaction
// it queues a Heal if one is due.
func (o *observer) record(
	ctx context.Context, c *observedContext, v *view, app string, cluster appcontext.ClusterID, seen *observation,
) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.view == nil || !c.view.same(v) {
		o.missedLocked(c, cluster)
		return
	}
	if err := o.recordLocked(ctx, c, app, cluster, seen); err != nil && ctx.Err() == nil {
		if !errors.Is(err, errChanged) {
			klog.FromContext(ctx).Info("Failed to store an observation, retrying", "appContext", c.id, "cluster",
				cluster.String(), "reason", err.Error())
		}
		c.view, c.lost = nil, true
		o.missedLocked(c, cluster)
	}
}

// missedLocked schedules a read of a cluster after the context is loaded again.
func (o *observer) missedLocked(c *observedContext, cluster appcontext.ClusterID) {
	c.dirty[cluster] = true
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.contexts[c.id] == c {
		o.reloadLocked(c)
	}
}

func (o *observer) recordLocked(
	ctx context.Context, c *observedContext, app string, cluster appcontext.ClusterID, seen *observation,
) error {
	key := taskKey{app, cluster}
	before := c.last[key]
	base := before.observed
	if base.Transitions != c.view.record.Transitions {
		base = observed{Transitions: c.view.record.Transitions}
		base.App, base.Cluster = app, cluster
	}
	if base.Heal != 0 {
		ended, done, err := o.outcome(ctx, c.id, key, base.Heal)
		if err != nil {
			return err
		}
		if !ended {
			c.dirty[cluster] = true
			return nil
		}
		if done {
			base.Heals++
		}
		base.Heal = 0
	}
	next := seen.after(base)
	t := transaction{compares: []store.Compare{
		o.session.fence(), store.Unchanged(c.view.stateKV), store.Unchanged(c.view.detachedKV),
		{Key: observationKey(c.id, app, cluster), Revision: before.kv.ModRevision},
	}}
	if o.session.engine.options.Observe == ObserveHeal {
		heal, at := next.decide(len(base.Indexes) > 0, o.now())
		if !at.IsZero() {
			o.again(c.id, cluster, at)
		}
		if heal {
			queued, err := o.queueHeal(ctx, c, &next)
			if err != nil {
				return err
			}
			t.add(queued)
			c.dirty[cluster] = true // the end of the event causes another read
		}
	}
	if len(t.ops) == 0 && next.same(&before.observed) {
		return nil
	}
	next.Time = o.session.engine.now()
	return o.put(ctx, c, key, next, t)
}

// put stores an observation with t, which may queue a Heal.
func (o *observer) put(ctx context.Context, c *observedContext, key taskKey, next observed, t transaction) error {
	place := observationKey(c.id, key.app, key.cluster)
	result, err := o.session.engine.txn(ctx, t.compares, append(t.ops, store.Put(place, encode(&next))))
	if err != nil {
		return err
	}
	if !result.Succeeded {
		if result.Current[0].CreateRevision != o.session.epoch {
			o.session.lose(errors.New("the session's key was deleted"))
		}
		return errChanged
	}
	if len(t.ops) > 0 {
		o.session.engine.metrics.queuedEvent(Heal)
	}
	c.last[key] = stored{next, store.KeyValue{Key: place, ModRevision: result.Revision}}
	return nil
}

// queueHeal selects an event that heals the drift of an observation: a queued Heal, or a new one.
// It does nothing if other events are queued, because they run first.
func (o *observer) queueHeal(ctx context.Context, c *observedContext, next *observed) (transaction, error) {
	e := o.session.engine
	if o.session.isStopped(c.id) {
		return transaction{}, nil
	}
	img, err := e.keysBelow(ctx, c.id, queueKey(c.id))
	if err != nil {
		return transaction{}, err
	}
	pending := img.pending()
	switch {
	case len(pending) > 0 && pending[0].Event == Heal: // it cannot have begun if the record is unchanged
		next.start(pending[0].Seq, e.now())
		return transaction{}, nil
	case len(pending) > 0:
		return transaction{}, nil
	}
	ref, t, err := e.enqueueOps(c.id, img.tailKV, Element{Event: Heal}, nil)
	if err == nil {
		next.start(ref.Seq, e.now())
	}
	return t, err
}

// outcome returns whether a Heal has ended, and whether it succeeded on a cluster.
func (o *observer) outcome(ctx context.Context, id string, key taskKey, seq uint64) (ended, done bool, err error) {
	e := o.session.engine
	kv, element, err := get[Element](ctx, e, elementKey(id, seq))
	if err != nil || kv.Exists() && !element.Status.Final() {
		return false, false, err
	}
	_, status, err := get[ClusterStatus](ctx, e, statusKey(id, key.app, key.cluster))
	if err != nil {
		return false, false, err
	}
	return true, status.Seq == seq && status.Phase == PhaseDone, nil
}
