// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Create stores a context, in the state Created. It returns an [*appcontext.Error] for one that is not valid, ErrConflict
// where there is one of that ID, and store.ErrTooLarge for what the store cannot hold. After an error there is no context.
//
// Manifests are written before the context itself, in as many transactions as the store's limits demand, so nobody ever
// sees half of one. The engine need not be started.
func (e *Engine) Create(ctx context.Context, c *appcontext.AppContext) error {
	if err := appcontext.Validate(c); err != nil {
		return err
	}
	h := head{ID: c.ID, Generation: rand.Text(), Meta: c.Meta}
	var specs []store.Op
	for _, a := range c.Apps {
		app := headApp{Name: a.Name, DependsOn: a.DependsOn}
		for i := range a.Clusters {
			cluster := &a.Clusters[i]
			app.Clusters = append(app.Clusters, cluster.ClusterID)
			specs = append(specs, store.Put(specKey(c.ID, h.Generation, a.Name, cluster.ClusterID), encode(cluster.Resources)))
		}
		h.Apps = append(h.Apps, app)
	}
	r := record{State: Created, Version: 1}
	final := append([]store.Op{
		store.Put(headKey(c.ID), encode(h)), store.Put(queueKey(c.ID), encode(tail{Next: 1})),
	}, putRecord(c.ID, &r)...)

	if err := e.tooLarge(append(specs, final...)); err != nil {
		return fmt.Errorf("app context %q: %w", c.ID, err)
	}
	absent := []store.Compare{store.Absent(headKey(c.ID))}
	for _, batch := range e.batches(specs) {
		if err := e.createTxn(ctx, c.ID, h.Generation, absent, batch); err != nil {
			return err
		}
	}
	return e.createTxn(ctx, c.ID, h.Generation, absent, final)
}

// createTxn does a part of Create, and takes back what was written where it fails.
func (e *Engine) createTxn(ctx context.Context, id, generation string, absent []store.Compare, ops []store.Op) error {
	result, err := e.txn(ctx, absent, ops)
	if err == nil && result.Succeeded {
		return nil
	}
	if err == nil {
		var h head
		if json.Unmarshal(result.Current[0].Value, &h) == nil && h.Generation == generation {
			return nil // an attempt whose answer was lost
		}
		err = fmt.Errorf("app context %q exists: %w", id, ErrConflict)
	}
	// The head, if it came to be although the call failed, says that these manifests are its own.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.options.CallTimeout)
	defer cancel()
	kv, getErr := e.store.Get(clean, headKey(id))
	if getErr != nil {
		return errors.Join(err, fmt.Errorf("whether the context was created is not known: %w", getErr))
	}
	var h head
	if kv.Exists() && json.Unmarshal(kv.Value, &h) == nil && h.Generation == generation {
		return nil
	}
	_, cleanErr := e.txn(clean, []store.Compare{store.Unchanged(kv)}, []store.Op{store.DeletePrefix(specsKey(id) + generation + "/")})
	return errors.Join(err, cleanErr)
}

// tooLarge finds single values that no transaction can hold.
func (e *Engine) tooLarge(ops []store.Op) error {
	maxBytes, _ := store.LimitsOf(e.store)
	for _, op := range ops {
		if have := len(op.Key) + len(op.Value) + 1024; have > maxBytes { // some room for conditions and the other keys
			return &store.SizeError{What: "bytes", Key: op.Key, Have: have, Limit: maxBytes}
		}
	}
	return nil
}

// batches divides ops so that each part fits into a transaction.
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

// loadSpec reads the manifests of a context.
func (e *Engine) loadSpec(ctx context.Context, h *head) (*appcontext.AppContext, error) {
	result, err := e.store.Range(ctx, specsKey(h.ID)+h.Generation+"/")
	if err != nil {
		return nil, err
	}
	values := map[string][]byte{}
	for _, kv := range result.KVs {
		values[kv.Key] = kv.Value
	}
	out := &appcontext.AppContext{ID: h.ID, Meta: h.Meta}
	for _, a := range h.Apps {
		app := appcontext.App{Name: a.Name, DependsOn: a.DependsOn}
		for _, id := range a.Clusters {
			cluster := appcontext.Cluster{ClusterID: id}
			key := specKey(h.ID, h.Generation, a.Name, id)
			if value, ok := values[key]; !ok || json.Unmarshal(value, &cluster.Resources) != nil {
				return nil, &brokenError{key}
			}
			app.Clusters = append(app.Clusters, cluster)
		}
		out.Apps = append(out.Apps, app)
	}
	return out, nil
}

// brokenError is of a value that cannot be used, which no repetition helps.
type brokenError struct{ key string }

func (e *brokenError) Error() string { return "the value of " + e.key + " is missing or broken" }

// AppContext returns a context as it was created. It returns ErrNotFound.
func (e *Engine) AppContext(ctx context.Context, id string) (*appcontext.AppContext, error) {
	kv, err := e.store.Get(ctx, headKey(id))
	if err != nil {
		return nil, err
	}
	if !kv.Exists() {
		return nil, notFound(id)
	}
	var h head
	if err := json.Unmarshal(kv.Value, &h); err != nil {
		return nil, &brokenError{kv.Key}
	}
	return e.loadSpec(ctx, &h)
}

// Delete removes a context with its history. It returns ErrNotFound, and ErrInvalidState while events of it are queued or
// its objects may be on clusters: the state must be Created, Terminated, Updated, or TerminationFailed, of which the caller
// knows better.
func (e *Engine) Delete(ctx context.Context, id string) error {
	for range conflictLimit {
		img, err := e.image(ctx, id)
		if err != nil {
			return err
		}
		switch img.record.State {
		case Created, Terminated, Updated, TerminationFailed:
		default:
			return fmt.Errorf("app context %q is %s, terminate it first: %w", id, img.record.State, ErrInvalidState)
		}
		compares := []store.Compare{store.Unchanged(img.stateKV), store.Unchanged(img.tailKV), store.Absent(activeKey(id))}
		result, err := e.txn(ctx, compares, []store.Op{
			store.DeletePrefix(contextKey(id)), store.DeletePrefix(specsKey(id)), store.Delete(indexKey(id)), store.Delete(stopKey(id)),
		})
		if err != nil || result.Succeeded {
			return err
		}
		if result.Current[2].Exists() {
			return fmt.Errorf("events of app context %q are under way, wait for them: %w", id, ErrInvalidState)
		}
	}
	return fmt.Errorf("app context %q: %w", id, ErrConflict)
}

// image reads all of a context but its manifests.
func (e *Engine) image(ctx context.Context, id string) (*image, error) {
	if id == "" || strings.ContainsRune(id, '/') {
		return nil, fmt.Errorf("%w: %q cannot be the ID of an app context", ErrInvalidInput, id)
	}
	result, err := e.store.Range(ctx, contextKey(id))
	if err != nil {
		return nil, err
	}
	img, found, err := parseImage(id, result)
	if err == nil && !found {
		err = notFound(id)
	}
	return img, err
}
