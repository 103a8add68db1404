// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

// conflictLimit is the number of attempts of a transaction that conflicts with other writers.
const conflictLimit = 100

// Instantiate queues the event that applies all resources of a context. With [WithRollout] it moves
// from cluster to cluster.
//
// Like all methods that queue an event, it returns ErrNotFound, ErrStopped, ErrInvalidInput and
// errors of the store. After an error of the store the event may be queued: see [IdempotencyKey].
// The engine checks whether the state allows the event when the event begins: see
// [ErrInvalidState].
func (e *Engine) Instantiate(ctx context.Context, id string, options ...CallOption) (EventRef, error) {
	return e.enqueue(ctx, id, Element{Event: Instantiate}, options)
}

// Terminate queues the event that deletes all resources of a context. If the state allows it,
// earlier events in the queue are skipped, and the event in progress ends when it would otherwise
// wait.
//
// Objects that another context holds stay, with the manifest of that context: see
// [Engine.Inventory]. [ClusterStatus].Message names these objects with their contexts.
func (e *Engine) Terminate(ctx context.Context, id string, options ...CallOption) (EventRef, error) {
	return e.enqueue(ctx, id, Element{Event: Terminate}, options)
}

// Read queues the event that reads the state of all resources from the clusters, into
// [ClusterStatus].Resources.
func (e *Engine) Read(ctx context.Context, id string, options ...CallOption) (EventRef, error) {
	return e.enqueue(ctx, id, Element{Event: Read}, options)
}

// Update queues the event that leads from one context to another. The event is in the queue of the
// new context. When it begins, the earlier context must be Instantiated or have failed. The event
// first applies the resources that are new or have changed. When all of them are applied, an
// UpdateDelete in the queue of the earlier context deletes the objects that the new context does
// not have. [Engine.Wait] waits for both.
//
// With [WithRollout] an Update moves from cluster to cluster. After a failed update, the next one
// applies all resources. It also queues an UpdateDelete in every other context that took part in
// failed updates and still has objects.
func (e *Engine) Update(ctx context.Context, from, to string, options ...CallOption) (EventRef, error) {
	if from == to {
		return EventRef{}, invalid("from and to must differ, and both are %q", to)
	}
	if err := checkID(from); err != nil {
		return EventRef{}, err
	}
	kv, err := e.store.Get(ctx, queueKey(from))
	if err != nil {
		return EventRef{}, err
	}
	if !kv.Exists() {
		return EventRef{}, notFound(from)
	}
	return e.enqueue(ctx, to, Element{Event: Update, UCID: from}, options)
}

// Rollback queues the event that leads from a context back to an earlier one. It is the same as
// [Engine.Update], so it can lead to any context. It is also valid after a failed update. With a
// rollout it can roll back one group of clusters: see ROLLOUT.md.
func (e *Engine) Rollback(ctx context.Context, from, to string, options ...CallOption) (EventRef, error) {
	return e.Update(ctx, from, to, options...)
}

func checkID(id string) error {
	if id == "" || len(id) > appcontext.MaxName || strings.ContainsRune(id, '/') {
		return invalid("ID %q: must be 1 to 253 bytes of letters, digits and . _ - : @ +", id)
	}
	return nil
}

// enqueue adds an element and the active record in one transaction. A failed transaction returns
// the values for the next attempt.
func (e *Engine) enqueue(ctx context.Context, id string, element Element, options []CallOption) (EventRef, error) {
	if err := checkID(id); err != nil {
		return EventRef{}, err
	}
	call := callOf(options)
	element.IdempotencyKey = call.IdempotencyKey
	rollout, err := e.rolloutOf(ctx, id, &element, call.Rollout)
	if err != nil {
		return EventRef{}, err
	}
	if len(element.IdempotencyKey) > appcontext.MaxName {
		return EventRef{}, invalid("the idempotency key is longer than %d bytes", appcontext.MaxName)
	}
	kv, err := e.store.Get(ctx, queueKey(id))
	if err != nil {
		return EventRef{}, err
	}
	for range conflictLimit {
		if !kv.Exists() {
			return EventRef{}, notFound(id)
		}
		ref, t, err := e.enqueueOps(id, kv, element, rollout)
		if err != nil {
			return EventRef{}, err
		}
		result, err := e.txn(ctx, t.compares, t.ops)
		if err != nil {
			return EventRef{}, fmt.Errorf("queue %s of app context %q: %w", element.Event, id, err)
		}
		if result.Succeeded {
			e.metrics.queuedEvent(element.Event)
			return ref, nil
		}
		if len(result.Current) > 2 && result.Current[2].Exists() {
			ref, err := e.queuedBefore(ctx, id, result.Current[2], &element, rollout)
			if err != nil || ref.Seq != 0 {
				return ref, err
			}
		}
		if result.Current[1].Exists() {
			return EventRef{}, fmt.Errorf("app context %q: %w", id, ErrStopped)
		}
		kv = result.Current[0]
	}
	return EventRef{}, fmt.Errorf("queue %s of app context %q: %w", element.Event, id, ErrConflict)
}

// queuedBefore returns the event that was queued with the key of an element. It returns
// ErrInvalidInput if another call has used the key. It returns no event if the history has removed
// the event and the key meanwhile.
func (e *Engine) queuedBefore(
	ctx context.Context, id string, key store.KeyValue, element *Element, rollout *rolloutRecord,
) (EventRef, error) {
	seq, err := decode[uint64](key)
	if err != nil {
		return EventRef{}, err
	}
	kv, before, err := get[Element](ctx, e, elementKey(id, seq))
	if err != nil || !kv.Exists() {
		return EventRef{}, err
	}
	if before.Event != element.Event || before.UCID != element.UCID {
		return EventRef{}, invalid("another call on app context %q had the idempotency key %q: %s (event %d), and this is %s",
			id, element.IdempotencyKey, before.call(), seq, element.call())
	}
	if same, err := e.sameRollout(ctx, id, seq, rollout); err != nil || !same {
		return EventRef{}, cmp.Or(err,
			invalid("another call on app context %q had the idempotency key %q, and another rollout (event %d)",
				id, element.IdempotencyKey, seq))
	}
	return EventRef{id, seq}, nil
}

func (e *Engine) enqueueOps(
	id string, kv store.KeyValue, element Element, rollout *rolloutRecord,
) (EventRef, transaction, error) {
	t, err := decode[tail](kv)
	if err != nil {
		return EventRef{}, transaction{}, err
	}
	element.Seq, element.Status, element.Queued = t.Next, Pending, e.now()
	compares := []store.Compare{store.Unchanged(kv), store.Absent(stopKey(id))}
	ops := []store.Op{putElement(id, &element), store.Put(queueKey(id), encode(tail{Next: t.Next + 1})), putActive(id)}
	if rollout != nil {
		ops = append(ops, store.Put(rolloutKey(id, element.Seq), encode(rollout)))
	}
	if element.IdempotencyKey != "" {
		key := idempotencyKey(id, element.IdempotencyKey)
		compares = append(compares, store.Absent(key))
		ops = append(ops, store.Put(key, encode(element.Seq)))
	}
	return EventRef{id, element.Seq}, transaction{compares, ops}, nil
}

// now returns the time as it is stored: in UTC, without the monotonic part.
func (e *Engine) now() time.Time { return e.options.Clock.Now().UTC().Round(0) }

// Stop stops a context until ClearStop. The event in progress ends when it would otherwise wait;
// calls to clusters that are in progress finish. Queued events are skipped, and new events are
// rejected with ErrStopped. Stop returns ErrNotFound if the context does not exist. To stop a
// stopped context is no error.
func (e *Engine) Stop(ctx context.Context, id string) error {
	return e.latch(ctx, id, store.Put(stopKey(id), encode(id)))
}

// ClearStop ends a Stop, so new events can be queued. Skipped events stay skipped. Call it after
// the event in progress has ended: a Stop that is cleared earlier may have no effect.
func (e *Engine) ClearStop(ctx context.Context, id string) error {
	return e.latch(ctx, id, store.Delete(stopKey(id)))
}

func (e *Engine) latch(ctx context.Context, id string, op store.Op) error {
	if err := checkID(id); err != nil {
		return err
	}
	return retryChanged(id, func() error {
		kv, err := e.store.Get(ctx, headKey(id))
		if err != nil {
			return err
		}
		if !kv.Exists() {
			return notFound(id)
		}
		return e.apply(ctx, transaction{[]store.Compare{store.Unchanged(kv)}, []store.Op{op}})
	})
}
