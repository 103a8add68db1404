// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package emco

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Bridge reads contexts from EMCO's keys and writes their statuses there. Its methods may be called
// from any goroutine. Any number of bridges may work on the same keys.
type Bridge struct {
	engine *rsync.Engine
	keys   store.Data

	started atomic.Bool

	mu      sync.Mutex
	dirty   map[string]bool
	wake    wait.Signal
	watches map[string]context.CancelFunc
	views   map[string]*view // of contexts with events in progress
}

// New returns a bridge between an engine and EMCO's keys, which does nothing before Start. It
// returns rsync.ErrInvalidInput if either is nil.
//
// keys must not be the store of the engine.
func New(engine *rsync.Engine, keys store.Data) (*Bridge, error) {
	if engine == nil || keys == nil {
		return nil, fmt.Errorf("%w: emco.New needs an engine and EMCO's keys", rsync.ErrInvalidInput)
	}
	return &Bridge{
		engine: engine, keys: keys, dirty: map[string]bool{}, wake: wait.NewSignal(),
		watches: map[string]context.CancelFunc{}, views: map[string]*view{},
	}, nil
}

const (
	// workers is the number of contexts that are written concurrently. pause is the time between
	// two writes by one worker.
	workers = 4
	pause   = 100 * time.Millisecond
	// retryPause is the time before a retry.
	retryPause = time.Second
	// conflictLimit limits the attempts of a write that conflicts with other bridges.
	conflictLimit = 20
)

// Start writes statuses to EMCO's keys until ctx ends, and returns nil. It can be called once. It
// writes the statuses of all contexts that are in the engine and in EMCO's keys, at the start and
// after each change. It writes the statuses of resources and clusters first, and the status of the
// context last. It writes only differences. A write that fails is repeated, also after a restart.
// Start also follows the stop flags of contexts with events: see [Bridge.FollowStop].
func (b *Bridge) Start(ctx context.Context) error {
	if b.started.Swap(true) {
		return fmt.Errorf("%w: Start was called before", rsync.ErrInvalidInput)
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() { b.work(ctx) })
	}
	for ctx.Err() == nil {
		if err := b.observe(ctx, &group); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to follow the engine, retrying")
			sleep(ctx, retryPause)
		}
	}
	group.Wait()
	return nil
}

// observe marks all contexts, and then the contexts with events.
func (b *Bridge) observe(ctx context.Context, group *sync.WaitGroup) error {
	all, err := b.engine.List(ctx)
	if err != nil && !errors.Is(err, rsync.ErrBroken) {
		return err
	}
	for _, summary := range all {
		b.mark(summary.ID)
	}
	for activity, err := range b.engine.Activity(ctx) {
		if err != nil {
			return err
		}
		if activity.Active {
			b.watch(ctx, activity.AppContextID, group)
		} else {
			b.unwatch(activity.AppContextID)
		}
		b.mark(activity.AppContextID)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	_ = wait.Sleep(ctx, clock.RealClock{}, d)
}

// mark schedules a write of the status of a context.
func (b *Bridge) mark(id string) {
	b.mu.Lock()
	b.dirty[id] = true
	b.mu.Unlock()
	b.wake.Set()
}

// watch marks a context for each change while it has events.
func (b *Bridge) watch(ctx context.Context, id string, group *sync.WaitGroup) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watches[id] != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	b.watches[id] = cancel
	group.Go(func() { b.followStops(ctx, id) })
	group.Go(func() {
		defer cancel()
		for ctx.Err() == nil {
			if kv, err := b.keys.Get(ctx, rootOf(id)); err == nil && !kv.Exists() {
				return // the context is not one of EMCO's
			}
			for change, err := range b.engine.Watch(ctx, id, 0) {
				if change.Deleted || errors.Is(err, rsync.ErrNotFound) {
					return
				}
				b.mark(id)
			}
			sleep(ctx, retryPause)
		}
	})
}

func (b *Bridge) unwatch(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cancel := b.watches[id]; cancel != nil {
		cancel()
		delete(b.watches, id)
	}
}

// work writes the statuses of marked contexts.
func (b *Bridge) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		}
		for id, ok := b.next(); ok; id, ok = b.next() {
			if err := b.write(ctx, id); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Failed to write a status to EMCO's keys, retrying", "appContext", id)
				sleep(ctx, retryPause)
				b.mark(id)
			}
			sleep(ctx, pause)
			if ctx.Err() != nil {
				return
			}
		}
	}
}

func (b *Bridge) next() (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.dirty {
		delete(b.dirty, id)
		return id, true
	}
	return "", false
}

// write writes the status of a context, if the context is one of EMCO's.
func (b *Bridge) write(ctx context.Context, id string) error {
	if written, err := b.written(ctx, id); err != nil || written {
		return err
	}
	for range conflictLimit {
		v, err := b.view(ctx, id)
		if err != nil || v == nil {
			return err
		}
		// The status is read after the keys. So a status that another bridge has written is not
		// newer.
		status, err := b.engine.Status(ctx, id)
		if errors.Is(err, rsync.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		done, err := b.put(ctx, v, status)
		b.keep(id, v, done && err == nil && markerOf(status).Seq == 0)
		if err != nil || done {
			return err
		}
	}
	return fmt.Errorf("write the status of EMCO's app context %q: other writers change it too often", id)
}

// written reports whether there is nothing to write: the context is not one of EMCO's, or no event
// has begun since its status was written.
func (b *Bridge) written(ctx context.Context, id string) (bool, error) {
	b.mu.Lock()
	followed := b.watches[id] != nil
	b.mu.Unlock()
	if followed {
		return false, nil
	}
	root, err := b.keys.Get(ctx, rootOf(id))
	if err != nil || !root.Exists() {
		return true, err
	}
	kv, err := b.keys.Get(ctx, rootOf(id)+markerLevel)
	var have marker
	if err != nil || !kv.Exists() || json.Unmarshal(kv.Value, &have) != nil {
		return false, err
	}
	status, err := b.engine.Status(ctx, id)
	if errors.Is(err, rsync.ErrNotFound) {
		return true, nil
	}
	return err == nil && have == markerOf(status) && have.Seq > 0, err
}

// view returns the keys of a context, or nil if it is not one of EMCO's.
func (b *Bridge) view(ctx context.Context, id string) (*view, error) {
	b.mu.Lock()
	v := b.views[id]
	delete(b.views, id)
	b.mu.Unlock()
	if v != nil {
		return v, nil
	}
	keys, err := b.read(ctx, id)
	if errors.Is(err, rsync.ErrNotFound) {
		return nil, nil //nolint:nilnil // not one of EMCO's
	}
	if err != nil {
		return nil, err
	}
	root := rootOf(id)
	v = &view{root: root, keys: keys, statusRoot: root, statusKeys: keys}
	var statusID string
	if kv, ok := keys[root+"statusappctxid/"]; ok && json.Unmarshal(kv.Value, &statusID) == nil && statusID != id {
		statusKeys, err := b.read(ctx, statusID)
		switch {
		// EMCO's rsync then uses the context
		case errors.Is(err, rsync.ErrNotFound), errors.Is(err, rsync.ErrInvalidInput):
		case err != nil:
			return nil, err
		default:
			v.statusRoot, v.statusKeys = rootOf(statusID), statusKeys
		}
	}
	v.forgetManifests()
	return v, nil
}

// forgetManifests drops values that no comparison needs.
func (v *view) forgetManifests() {
	for _, keys := range []map[string]store.KeyValue{v.keys, v.statusKeys} {
		for key, kv := range keys {
			if strings.Contains(key, "/resource/") && strings.HasSuffix(key, "/") && len(kv.Value) > 256 {
				kv.Value = nil
				keys[key] = kv
			}
		}
	}
}

// keep caches the keys of a context with events in progress. A shared status context is read again
// each time.
func (b *Bridge) keep(id string, v *view, underWay bool) {
	if !underWay || v.statusRoot != v.root {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watches[id] != nil {
		b.views[id] = v
	}
}

// maxBatch limits the keys that one transaction puts, in addition to the markers.
const maxBatch = 50

// put writes the differences. It returns false if another process has written since the view was
// read.
func (b *Bridge) put(ctx context.Context, v *view, status *rsync.Status) (bool, error) {
	changes := v.changes(status)
	last := jsonOf(markerOf(status))
	if have, ok := v.keys[v.root+markerLevel]; len(changes) == 0 && ok && string(have.Value) == last {
		return true, nil
	}
	for {
		batch := changes[:min(maxBatch, len(changes))]
		changes = changes[len(batch):]
		value := last
		if len(changes) > 0 {
			value = jsonOf(marker{By: status.ID})
		}
		if done, err := b.putBatch(ctx, v, batch, value); err != nil || !done || len(changes) == 0 {
			return done, err
		}
	}
}

func (b *Bridge) putBatch(ctx context.Context, v *view, batch []change, value string) (bool, error) {
	var compares []store.Compare
	ops := make([]store.Op, 0, len(batch)+2)
	for _, c := range batch {
		ops = append(ops, store.Put(c.key, []byte(c.value)))
	}
	mark := func(root string, keys map[string]store.KeyValue, value string) {
		key := root + markerLevel
		have := keys[key]
		have.Key = key
		// EMCO may delete the context. Then no write may create its keys again.
		compares = append(compares, store.SameLife(root, keys[root].CreateRevision), store.Unchanged(have))
		ops = append(ops, store.Put(key, []byte(value)))
	}
	mark(v.root, v.keys, value)
	if v.statusRoot != v.root {
		mark(v.statusRoot, v.statusKeys, jsonOf(marker{
			By: strings.TrimSuffix(strings.TrimPrefix(v.root, "/context/"), "/"),
		}))
	}
	result, err := b.keys.Txn(ctx, compares, ops)
	if err != nil || !result.Succeeded {
		return false, err
	}
	for _, op := range ops {
		keys := v.keys
		if !strings.HasPrefix(op.Key, v.root) {
			keys = v.statusKeys
		}
		kv := keys[op.Key]
		kv.Key, kv.Value, kv.ModRevision = op.Key, op.Value, result.Revision
		if kv.CreateRevision == 0 {
			kv.CreateRevision = result.Revision
		}
		keys[op.Key] = kv
	}
	return true, nil
}
