// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

// unfinishedLimit is the time limit of a Create that needs several transactions.
const unfinishedLimit = 10 * time.Minute

// unfinished is a note that the manifests of a context are being written before Create makes it
// visible, or removed after Delete.
type unfinished struct {
	Began time.Time `json:"began"`
}

// creation is a Create in progress.
type creation struct {
	id, generation string
	conditions     []store.Compare // of its next transaction
}

// Create stores a context in the state Created. It returns an [*appcontext.Error] for an invalid
// context, ErrInvalidInput for nil, and ErrConflict if a context with the ID exists. For a context
// that exceeds the limits of the store it returns store.ErrTooLarge. After other errors of the
// store, the complete context may be stored. Call Create again: it then returns ErrConflict.
//
// A large context takes several transactions. The last one makes it visible, so no reader finds an
// incomplete context. All of them together must end within 10 minutes. If the process ends before
// the last one, the next engine that starts removes the parts after these 10 minutes. Create needs
// no Start.
func (e *Engine) Create(ctx context.Context, c *appcontext.AppContext) error {
	if err := appcontext.Validate(c); err != nil {
		if c == nil {
			return invalid("%w", err)
		}
		return err
	}
	h := head{ID: c.ID, Generation: rand.Text(), Meta: c.Meta}
	var specs []store.Op
	for j := range c.Apps {
		a := &c.Apps[j]
		for i := range a.Clusters {
			cluster := &a.Clusters[i]
			specs = append(specs, specOps(specKey(c.ID, h.Generation, a.Name, cluster.ClusterID),
				encode(cluster.Resources))...)
			specs = append(specs, inventoryOps(c.ID, h.Generation, a.Name, cluster)...)
		}
		h.Apps = append(h.Apps, newHeadApp(a))
	}
	r := record{State: Created, Version: 1, Generation: h.Generation}
	final := append([]store.Op{
		store.Put(headKey(c.ID), encode(h)), store.Put(queueKey(c.ID), encode(tail{Next: 1})),
	}, h.putRecord(&r)...)
	return e.write(ctx, &h, specs, final)
}

func newHeadApp(a *appcontext.App) headApp {
	out := headApp{Name: a.Name, DependsOn: a.DependsOn}
	for i := range a.Clusters {
		out.Clusters = append(out.Clusters, a.Clusters[i].ClusterID)
	}
	return out
}

// write stores a new context, in several transactions if it is too large for one. The last one
// makes the context visible, and only the last one has the conditions. If they are not true, write
// returns errChanged.
func (e *Engine) write(ctx context.Context, h *head, specs, final []store.Op, conditions ...store.Compare) error {
	all := slices.Concat(specs, final)
	if err := e.tooLarge(all); err != nil {
		return fmt.Errorf("app context %q: %w", h.ID, err)
	}
	n := &creation{id: h.ID, generation: h.Generation, conditions: []store.Compare{store.Absent(headKey(h.ID))}}
	if len(e.batches(all)) == 1 {
		return e.createTxn(ctx, n, all, conditions...)
	}
	note := store.Put(unfinishedKey(n.id, n.generation), encode(unfinished{e.now()}))
	for i, batch := range e.batches(specs) {
		if i == 0 {
			batch = append(batch, note)
		}
		if err := e.createTxn(ctx, n, batch); err != nil {
			return err
		}
	}
	return e.createTxn(ctx, n, append(final, store.Delete(note.Key)), conditions...)
}

// maxSpecPart is the maximum size of a record of manifests, in bytes. Larger manifests are divided.
const maxSpecPart = 512 << 10

func specOps(key string, text []byte) []store.Op {
	var out []store.Op
	for part := range slices.Chunk(text, maxSpecPart) {
		out = append(out, store.Put(specPartKey(key, len(out)), part))
	}
	return out
}

// createTxn writes a part of a new context. If it fails, it removes all parts. It returns
// errChanged if the conditions in more are not true. Each part except the first requires the note
// of the first part, so a late part writes nothing after the others were removed.
func (e *Engine) createTxn(ctx context.Context, n *creation, ops []store.Op, more ...store.Compare) error {
	result, err := e.txn(ctx, slices.Concat(n.conditions, more), ops)
	switch {
	case err == nil && result.Succeeded:
		if len(n.conditions) == 1 {
			n.conditions = append(n.conditions, store.SameLife(unfinishedKey(n.id, n.generation), result.Revision))
		}
		return nil
	case err == nil && n.created(result.Current[0]):
		return nil // an earlier attempt succeeded, and its answer was lost
	case err == nil && result.Current[0].Exists():
		err = fmt.Errorf("app context %q exists: use a new ID for each version, or call Delete first: %w", n.id,
			ErrConflict)
	case err == nil && len(more) > 0:
		err = errChanged
	case err == nil:
		err = fmt.Errorf("creating app context %q took longer than %s, and was abandoned: %w", n.id, unfinishedLimit,
			ErrConflict)
	}
	// The head may exist although the call failed. Then these manifests belong to it.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.options.CallTimeout)
	defer cancel()
	kv, getErr := e.store.Get(clean, headKey(n.id))
	if getErr != nil {
		return errors.Join(err, fmt.Errorf("the result of the create is unknown: %w", getErr))
	}
	if n.created(kv) {
		return nil
	}
	return errors.Join(err, e.undo(clean, n, []store.Compare{store.Unchanged(kv)}))
}

func (n *creation) created(kv store.KeyValue) bool {
	var h head
	return kv.Exists() && json.Unmarshal(kv.Value, &h) == nil && h.Generation == n.generation
}

func (e *Engine) undo(ctx context.Context, n *creation, conditions []store.Compare) error {
	specs := specsKey(n.id) + n.generation + "/"
	result, err := e.store.Range(ctx, specs)
	if err != nil {
		return err
	}
	var ops []store.Op
	for _, kv := range result.KVs {
		names := strings.Split(strings.TrimPrefix(kv.Key, specs), "/")
		if provider, name, ok := strings.Cut(names[1], "+"); ok && len(names) == 3 { // not a later part
			cluster := appcontext.ClusterID{Provider: provider, Name: name}
			ops = append(ops, store.DeletePrefix(inventoryKey(cluster, n.id, n.generation, names[0])))
		}
	}
	return e.removeGeneration(ctx, n, conditions, ops)
}

// removeGeneration applies ops, which remove entries of the inventory. It removes the manifests and
// the note last, so a sweep can remove the rest after a crash.
func (e *Engine) removeGeneration(ctx context.Context, n *creation, conditions []store.Compare, ops []store.Op) error {
	ops = append(ops, store.DeletePrefix(specsKey(n.id)+n.generation+"/"),
		store.Delete(unfinishedKey(n.id, n.generation)))
	for _, batch := range e.batches(ops) {
		if result, err := e.txn(ctx, conditions, batch); err != nil || !result.Succeeded {
			return err
		}
	}
	return nil
}

// sweep removes the parts of contexts that interrupted calls of Create and Delete have left. It
// removes each at once, or when unfinishedLimit is over.
func (s *session) sweep() {
	result, err := s.engine.store.Range(s.ctx, unfinishedPrefix)
	if err != nil {
		klog.FromContext(s.ctx).V(1).Info("Failed to read unfinished app contexts, the next session retries", "reason",
			err.Error())
		return
	}
	for _, kv := range result.KVs {
		var note unfinished
		id, generation, ok := strings.Cut(idOf(unfinishedPrefix, kv.Key), "/")
		if !ok || json.Unmarshal(kv.Value, &note) != nil {
			klog.FromContext(s.ctx).Info("Ignored a broken note on an unfinished app context", "key", kv.Key)
			continue
		}
		n := &creation{id: id, generation: generation, conditions: []store.Compare{s.fence(), store.Unchanged(kv)}}
		left := unfinishedLimit - s.engine.options.Clock.Since(note.Began)
		s.spawn(func() {
			s.engine.sleep(s.ctx, max(left, 0))
			if s.ctx.Err() != nil {
				return
			}
			if err := s.engine.undo(s.ctx, n, n.conditions); err != nil {
				klog.FromContext(s.ctx).V(1).Info("Failed to remove an unfinished app context, the next session retries",
					"appContext", id, "reason", err.Error())
			}
		})
	}
}

// tooLarge returns an error for a single value that exceeds the limits of a transaction.
func (e *Engine) tooLarge(ops []store.Op) error {
	maxBytes, _ := store.LimitsOf(e.store)
	for _, op := range ops {
		// 1024 bytes are reserved for conditions and other keys
		if have := len(op.Key) + len(op.Value) + 1024; have > maxBytes {
			return &store.SizeError{What: "bytes", Key: op.Key, Have: have, Limit: maxBytes}
		}
	}
	return nil
}

// batches divides ops into parts, each small enough for one transaction.
func (e *Engine) batches(ops []store.Op) [][]store.Op {
	maxBytes, maxOps := store.LimitsOf(e.store)
	var out [][]store.Op
	size := 0
	for _, op := range ops {
		have := len(op.Key) + len(op.Value)
		if last := len(out) - 1; last >= 0 && size+have+1024 <= maxBytes && len(out[last]) < maxOps/2 {
			out[last] = append(out[last], op)
			size += have
		} else {
			out = append(out, []store.Op{op})
			size = have
		}
	}
	return out
}
