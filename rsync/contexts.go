// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

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
			var records [][]byte
			for {
				part := specPartKey(key, len(records))
				record, ok := values[part]
				if !ok {
					break
				}
				records = append(records, record)
				delete(values, part) // it may be large
			}
			if json.Unmarshal(bytes.Join(records, nil), &cluster.Resources) != nil { // also if there is no record
				return nil, &brokenError{key}
			}
			app.Clusters = append(app.Clusters, cluster)
		}
		out.Apps = append(out.Apps, app)
	}
	return out, nil
}

// brokenError is the error for a value that cannot be used. A retry does not help.
type brokenError struct{ key string }

func (e *brokenError) Error() string { return "the value of " + e.key + " is " + ErrBroken.Error() }

func (e *brokenError) Unwrap() error { return ErrBroken }

// AppContext returns a context with its manifests, as it was created. It returns ErrNotFound,
// ErrInvalidInput and ErrBroken.
func (e *Engine) AppContext(ctx context.Context, id string) (*appcontext.AppContext, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	h, err := e.headOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.loadSpec(ctx, h)
}

// headOf reads the head of a context. It returns ErrNotFound if the context does not exist.
func (e *Engine) headOf(ctx context.Context, id string) (*head, error) {
	kv, h, err := get[head](ctx, e, headKey(id))
	if err == nil && !kv.Exists() {
		err = notFound(id)
	}
	return &h, err
}

// Delete removes a context and its history from the store. It deletes no objects on clusters. It
// returns ErrNotFound, and ErrInvalidState while events are queued or the state is not Created,
// Terminated, Updated or TerminationFailed. After TerminationFailed objects may remain on clusters.
func (e *Engine) Delete(ctx context.Context, id string) error {
	return retryChanged(id, func() error {
		img, err := e.image(ctx, id)
		if err != nil {
			return err
		}
		if !img.record.State.empty() && img.record.State != TerminationFailed {
			return fmt.Errorf("app context %q is %s, terminate it first: %w", id, img.record.State, ErrInvalidState)
		}
		compares := []store.Compare{
			store.Unchanged(img.stateKV), store.Unchanged(img.tailKV), store.Absent(activeKey(id))}
		ops := []store.Op{store.DeletePrefix(contextKey(id)), store.Delete(indexKey(id)), store.Delete(stopKey(id))}
		first, after := e.removal(&img.head, ops)
		result, err := e.txn(ctx, compares, first)
		if err == nil && result.Succeeded {
			after(ctx, result.Revision)
		}
		if err != nil || result.Succeeded {
			return err
		}
		if result.Current[2].Exists() {
			return fmt.Errorf("app context %q has unfinished events, wait for them: %w", id, ErrInvalidState)
		}
		return errChanged
	})
}

// removal returns the writes that remove a context, which include ops. After their transaction the
// caller must call after, which removes the manifests if they need further transactions.
func (e *Engine) removal(h *head, ops []store.Op) (first []store.Op, after func(ctx context.Context, revision int64)) {
	entries := inventoryDeletes(h)
	whole := slices.Concat(entries, ops, []store.Op{store.DeletePrefix(specsKey(h.ID))})
	if len(e.batches(whole)) == 1 {
		return whole, func(context.Context, int64) {}
	}
	n := &creation{id: h.ID, generation: h.Generation}
	key := unfinishedKey(n.id, n.generation)
	return append(ops, store.Put(key, encode(unfinished{e.now()}))), func(ctx context.Context, revision int64) {
		err := e.removeGeneration(ctx, n, []store.Compare{store.SameLife(key, revision)}, entries)
		if err != nil {
			klog.FromContext(ctx).Info("Failed to remove the manifests of a deleted app context, a later session retries",
				"appContext", h.ID, "reason", err.Error())
		}
	}
}

// image reads everything that is stored of a context, except its manifests.
func (e *Engine) image(ctx context.Context, id string) (*image, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	return e.stored(ctx, id)
}

// stored is like image, for an ID that is known to be valid. It returns ErrNotFound if the context
// does not exist, and a brokenError if a required key is missing.
func (e *Engine) stored(ctx context.Context, id string) (*image, error) {
	img, err := e.keysBelow(ctx, id, contextKey(id))
	switch {
	case err != nil:
		return nil, err
	case !img.found:
		return nil, notFound(id)
	case !img.stateKV.Exists():
		return nil, &brokenError{stateKey(id)}
	case !img.tailKV.Exists():
		return nil, &brokenError{queueKey(id)}
	}
	return img, nil
}

// keysBelow reads and decodes the keys of a context with a prefix.
func (e *Engine) keysBelow(ctx context.Context, id, prefix string) (*image, error) {
	result, err := e.store.Range(ctx, prefix)
	if err != nil {
		return nil, err
	}
	return parseKeys(id, result)
}
