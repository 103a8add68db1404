// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
	"slices"

	"github.com/spokewire/sdk-go/rsync/store"
)

// Updates link contexts. Previous in the record of a context has the contexts that its last update
// replaces. The key linksKey of a context has the targets of the updates that replace it. A failed
// update leaves all of these contexts with objects. The next update of any of them finds the others
// by these links, and replaces them too.

// maxLinks is the maximum number of contexts that an update replaces.
const maxLinks = 16

func (e *Engine) stateOf(ctx context.Context, id string) (store.KeyValue, record, error) {
	return get[record](ctx, e, stateKey(id))
}

// linksOf reads the contexts to which updates from a context led.
func (e *Engine) linksOf(ctx context.Context, id string) (store.KeyValue, []string, error) {
	return get[[]string](ctx, e, linksKey(id))
}

// leftOver reports whether a context that is linked to an update may have objects on clusters, by
// its state.
func (s State) leftOver() bool {
	return slices.Contains(replaceable, s)
}

// replaces sets in next the contexts that an update replaces, and whether the update applies
// everything. The update replaces the context from. It also replaces contexts that may have objects
// and are linked with from or with the context of the run. replaces returns the writes that link
// each of them with the context of the run.
func (r *run) replaces(ctx context.Context, from string, fromRecord, next *record) (out transaction, err error) {
	_, own, err := r.engine.linksOf(ctx, r.id)
	if err != nil {
		return transaction{}, err
	}
	next.Whole = fromRecord.State != Instantiated
	queue := slices.Concat([]string{from}, next.Previous, own)
	next.Previous = nil
	seen := map[string]bool{r.id: true}
	for len(queue) > 0 && len(next.Previous) < maxLinks {
		id := queue[0]
		queue = queue[1:]
		if seen[id] {
			continue
		}
		seen[id] = true
		kv, rec, err := r.engine.stateOf(ctx, id)
		if err != nil {
			return transaction{}, err
		}
		if !kv.Exists() || id != from && !rec.State.leftOver() {
			continue
		}
		linksKV, links, err := r.engine.linksOf(ctx, id)
		if err != nil {
			return transaction{}, err
		}
		queue = slices.Concat(queue, rec.Previous, links)
		links = slices.DeleteFunc(links, func(id string) bool { return id == r.id })
		next.Whole = next.Whole || id != from || len(links) > 0
		next.Previous = append(next.Previous, id)
		links = append(links, r.id)
		out.compares = append(out.compares, store.Unchanged(linksKV))
		out.ops = append(out.ops, store.Put(linksKey(id), encode(links[max(0, len(links)-maxLinks):])))
	}
	return out, nil
}

// follow queues the UpdateDeletes of an Update in the contexts that it replaces, and returns the
// first one. Next of each UpdateDelete is the following one. In a stopped context the UpdateDelete
// is skipped at once. A removed context gets no UpdateDelete.
func (r *run) follow(ctx context.Context, e *Element) (out transaction, first *EventRef, err error) {
	for _, id := range slices.Backward(r.img.record.Previous) {
		if id != e.UCID {
			_, rec, err := r.engine.stateOf(ctx, id)
			if err != nil {
				return transaction{}, nil, err
			}
			if !rec.State.leftOver() {
				continue
			}
		}
		queued, ref, err := r.queueIn(ctx, id, Element{Event: UpdateDelete, UCID: r.id, Next: first})
		if err != nil {
			return transaction{}, nil, err
		}
		out.add(queued)
		if ref != nil {
			first = ref
		}
	}
	return out, first, nil
}

// queueIn queues an event in a context, unless the context was removed. In a stopped context the
// event is skipped at once.
func (r *run) queueIn(ctx context.Context, id string, e Element) (transaction, *EventRef, error) {
	kv, t, err := get[tail](ctx, r.engine, queueKey(id))
	if err != nil {
		return transaction{}, nil, err
	}
	if !kv.Exists() {
		return transaction{compares: []store.Compare{store.Unchanged(kv)}}, nil, nil
	}
	stop, err := r.engine.store.Get(ctx, stopKey(id))
	if err != nil {
		return transaction{}, nil, err
	}
	e.Seq, e.Status, e.Queued = t.Next, Pending, r.engine.now()
	if stop.Exists() {
		e.Status, e.Reason, e.Finished = Skip, ReasonStopped, e.Queued
	}
	ops := []store.Op{putElement(id, &e), store.Put(queueKey(id), encode(tail{Next: t.Next + 1}))}
	if !stop.Exists() {
		ops = append(ops, putActive(id))
	}
	return transaction{[]store.Compare{store.Unchanged(kv), store.Unchanged(stop)}, ops}, &EventRef{id, e.Seq}, nil
}
