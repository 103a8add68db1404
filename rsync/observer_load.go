// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
	"errors"
	"sync"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

// observedContext is a context that a session observes.
type observedContext struct {
	id string

	// The observer's mutex guards the following fields.
	clusters []appcontext.ClusterID
	reload   bool // it is queued to be read
	retry    clock.Timer
	failures int

	mu    sync.Mutex // locked for each write
	head  *head      // nil until it is read
	view  *view      // nil while an event is in progress, and when a write has failed
	last  map[taskKey]stored
	dirty map[appcontext.ClusterID]bool // clusters to read again when there is a view
	lost  bool                          // last may be out of date
	at    uint64                        // Transitions of the last view
}

// view has the stored values that the observations of a context depend on. No write succeeds after
// one of them has changed.
type view struct {
	record     record
	stateKV    store.KeyValue
	detached   detachedClusters
	detachedKV store.KeyValue
}

func (v *view) same(other *view) bool {
	return v.stateKV.ModRevision == other.stateKV.ModRevision &&
		v.detachedKV.ModRevision == other.detachedKV.ModRevision
}

// stored is an observation with its key and revision in the store.
type stored struct {
	observed
	kv store.KeyValue
}

// load reads a context after its record has changed, or a write has failed.
func (o *observer) load(c *observedContext) {
	o.mu.Lock()
	c.reload = false // a later change causes another load
	o.mu.Unlock()
	if err := o.loadContext(o.session.ctx, c); err != nil && o.session.ctx.Err() == nil {
		klog.FromContext(o.session.ctx).Info("Failed to read an app context to observe, retrying", "appContext", c.id,
			"reason", err.Error())
		o.mu.Lock()
		defer o.mu.Unlock()
		c.failures++
		if !o.ended && o.contexts[c.id] == c {
			c.retry = o.session.engine.options.Clock.AfterFunc(o.session.engine.options.Backoff.delay(c.failures),
				func() {
					o.mu.Lock()
					defer o.mu.Unlock()
					if o.contexts[c.id] == c {
						o.reloadLocked(c)
					}
				})
		}
	}
}

func (o *observer) loadContext(ctx context.Context, c *observedContext) error {
	e := o.session.engine
	c.mu.Lock()
	defer c.mu.Unlock()
	kv, record, err := e.stateOf(ctx, c.id)
	if err != nil {
		return err
	}
	c.view = nil
	if !kv.Exists() || record.State != Instantiated || record.Current != 0 {
		return nil // the next change of the record causes another load
	}
	next := &view{record: record, stateKV: kv}
	if next.detachedKV, next.detached, err = e.detachedOf(ctx, c.id); err != nil {
		return err
	}
	first := c.head == nil || record.Generation != "" && record.Generation != c.head.Generation
	if first {
		h, err := e.headOf(ctx, c.id)
		if errors.Is(err, ErrNotFound) {
			c.head = nil
			return nil
		}
		if err != nil {
			return err
		}
		c.head = h
	}
	if first || c.lost {
		if c.last, err = e.observations(ctx, c.id); err != nil {
			return err
		}
		c.lost = false
	}
	all := first || c.at != record.Transitions
	dirty := c.dirty
	c.view, c.at = next, record.Transitions
	c.dirty = map[appcontext.ClusterID]bool{}
	o.place(c, c.head.clusters(), func(id appcontext.ClusterID) bool { return all || dirty[id] })
	return nil
}

func (e *Engine) observations(ctx context.Context, id string) (map[taskKey]stored, error) {
	result, err := e.store.Range(ctx, observedKey(id))
	if err != nil {
		return nil, err
	}
	out := map[taskKey]stored{}
	for _, kv := range result.KVs {
		o, err := decode[observed](kv)
		if err != nil {
			return nil, err
		}
		kv.Value = nil
		out[taskKey{o.App, o.Cluster}] = stored{o, kv}
	}
	return out, nil
}

// drifted returns the positions of the objects that a Heal applies. They do not change during the
// Heal, because each write of an observation requires an unchanged record.
func (r *run) drifted(ctx context.Context, seq uint64) (map[taskKey][]int, error) {
	all, err := r.engine.observations(ctx, r.id)
	if err != nil {
		return nil, err
	}
	out := map[taskKey][]int{}
	for key, s := range all {
		if s.Heal == seq && s.Transitions == r.img.record.Transitions {
			out[key] = s.Indexes
		}
	}
	return out, nil
}
