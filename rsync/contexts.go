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
			if json.Unmarshal(bytes.Join(records, nil), &cluster.Resources) != nil { // also without a record
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

func (e *brokenError) Error() string { return "the value of " + e.key + " is " + ErrBroken.Error() }

// Unwrap returns ErrBroken.
func (e *brokenError) Unwrap() error { return ErrBroken }

// AppContext returns a context as it was created. It returns ErrNotFound, ErrInvalidInput and ErrBroken.
func (e *Engine) AppContext(ctx context.Context, id string) (*appcontext.AppContext, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
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
		ops := []store.Op{store.DeletePrefix(contextKey(id)), store.Delete(indexKey(id)), store.Delete(stopKey(id))}
		entries := inventoryDeletes(&img.head)
		whole := append(slices.Clone(entries), append(ops, store.DeletePrefix(specsKey(id)))...)
		n := &creation{id: id, generation: img.head.Generation}
		parts := len(e.batches(whole)) > 1
		if parts {
			whole = append(ops, store.Put(unfinishedKey(n.id, n.generation), encode(unfinished{e.now()})))
		}
		result, err := e.txn(ctx, compares, whole)
		if err == nil && result.Succeeded && parts {
			note := store.SameLife(unfinishedKey(n.id, n.generation), result.Revision)
			if err := e.removeGeneration(ctx, n, []store.Compare{note}, entries); err != nil {
				klog.FromContext(ctx).Info("Manifests of a deleted app context could not be removed, a later session does",
					"appContext", id, "reason", err.Error())
			}
		}
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
	if err := checkID(id); err != nil {
		return nil, err
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
