// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/rsync/store"
)

// Status returns the status of a context. It returns ErrNotFound if the context does not exist.
func (e *Engine) Status(ctx context.Context, id string) (*Status, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	stop, err := e.store.Get(ctx, stopKey(id))
	if err != nil {
		return nil, err
	}
	img, err := e.stored(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &Status{
		ID: id, State: img.record.State, Stopped: stop.Exists(), Clusters: img.statuses,
		Transitions: img.record.Transitions, Revision: img.revision, Detached: img.detached.clusters(),
	}
	for _, element := range img.elements {
		out.Queue = append(out.Queue, *element)
	}
	for i := range img.observed {
		if o := &img.observed[i]; o.isCurrent(&img.record) {
			out.Observed = append(out.Observed, o.Observation)
		}
	}
	return out, nil
}

// List returns all contexts with their states, ordered by ID. If entries cannot be decoded, List
// returns the other contexts and an ErrBroken with the names of the broken ones.
func (e *Engine) List(ctx context.Context) ([]Summary, error) {
	result, err := e.store.Range(ctx, indexPrefix)
	if err != nil {
		return nil, err
	}
	out := make([]Summary, 0, len(result.KVs))
	var broken []error
	for _, kv := range result.KVs {
		if summary, err := decode[Summary](kv); err != nil {
			broken = append(broken, err)
		} else {
			out = append(out, summary)
		}
	}
	return out, errors.Join(broken...)
}

// Change is a change of a context. Exactly one of State, Element, Cluster, Observed, Rollout and
// Deleted is set.
type Change struct {
	// Revision is the revision of the store with this change. A Watch from Revision+1 continues
	// after it. Changes of one transaction have the same revision.
	Revision int64
	State    State
	Element  *Element
	Cluster  *ClusterStatus
	// Observed is valid until the state changes.
	Observed *Observation
	// Rollout is the number of an event. Its rollout was paused, resumed, approved or aborted, or
	// has ended.
	Rollout uint64
	// Deleted is true for the last change, after which the context does not exist.
	Deleted bool
}

// Watch returns the changes of a context from a revision on. With 0 it first returns the current
// state as changes. To continue after a Status or a Change, pass its Revision+1.
//
// Watch ends without an error when ctx ends or after the context was deleted. It ends with
// ErrNotFound, with ErrInvalidInput for a negative revision, and with store.ErrCompacted if the
// store does not have the revision. Such a revision is too old, or a restored store has not reached
// it: call Watch again with 0.
//
// For a deleted context, a Watch from a revision before the deletion returns the changes up to the
// deletion.
func (e *Engine) Watch(ctx context.Context, id string, fromRevision int64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := checkID(id); err != nil {
			yield(Change{}, err)
			return
		}
		if fromRevision < 0 {
			yield(Change{}, invalid("a watch cannot begin at revision %d", fromRevision))
			return
		}
		status, err := e.Status(ctx, id)
		gone := errors.Is(err, ErrNotFound) && fromRevision > 0
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !gone:
			yield(Change{}, err)
			return
		case !gone && fromRevision > status.Revision+1:
			yield(Change{}, fmt.Errorf("revision %d is in the future, the store is at %d: %w", fromRevision,
				status.Revision, store.ErrCompacted))
			return
		case fromRevision == 0:
			for _, c := range status.changes() {
				if !yield(c, nil) {
					return
				}
			}
			fromRevision = status.Revision + 1
		}
		var over <-chan time.Time // for a deleted context, which has no further changes
		if gone {
			timer := e.options.Clock.NewTimer(goneGrace)
			defer timer.Stop()
			over = timer.C()
		}
		messages := e.store.Watch(ctx, contextKey(id), fromRevision)
		for {
			var message store.Watched
			var ok bool
			select {
			case message, ok = <-messages:
			case <-over:
				yield(Change{}, notFound(id))
				return
			}
			if !ok || !tell(id, message, yield) {
				return
			}
		}
	}
}

// goneGrace limits the time in which the store must report the deletion of a deleted context.
const goneGrace = time.Second

// tell yields the changes of a message. It reports whether the watch continues.
func tell(id string, message store.Watched, yield func(Change, error) bool) bool {
	if message.Err != nil {
		yield(Change{}, message.Err)
		return false
	}
	for _, event := range message.Events {
		c, ok, err := changeOf(id, event)
		if err != nil {
			yield(Change{}, err)
			return false
		}
		if ok && (!yield(c, nil) || c.Deleted) {
			return false
		}
	}
	return true
}

func (s *Status) changes() []Change {
	out := []Change{{Revision: s.Revision, State: s.State}}
	for i := range s.Queue {
		out = append(out, Change{Revision: s.Revision, Element: &s.Queue[i]})
	}
	for i := range s.Clusters {
		out = append(out, Change{Revision: s.Revision, Cluster: &s.Clusters[i]})
	}
	for i := range s.Observed {
		out = append(out, Change{Revision: s.Revision, Observed: &s.Observed[i]})
	}
	return out
}

// changeOf decodes an event of the store. It returns false if Watch does not return the event.
func changeOf(id string, event store.Event) (Change, bool, error) {
	kv := event.KV
	rest := strings.TrimPrefix(kv.Key, contextKey(id))
	part, below, _ := strings.Cut(rest, "/")
	c := Change{Revision: kv.ModRevision}
	var err error
	switch {
	case event.Deleted:
		c.Deleted = rest == ""
		return c, c.Deleted, nil
	case part == "state":
		var r record
		err = json.Unmarshal(kv.Value, &r)
		c.State = r.State
	case part == "queue" && below != "" && kv.Key != detachedKey(id):
		c.Element = &Element{}
		err = json.Unmarshal(kv.Value, c.Element)
	case part == "status":
		c.Cluster = &ClusterStatus{}
		err = json.Unmarshal(kv.Value, c.Cluster)
	case part == "observed":
		c.Observed = &Observation{}
		err = json.Unmarshal(kv.Value, c.Observed)
	case part == "rollout" && kv.ModRevision > kv.CreateRevision:
		c.Rollout, err = strconv.ParseUint(strings.TrimSuffix(below, "/"), 16, 64)
	default:
		return c, false, nil
	}
	if err != nil {
		err = &brokenError{kv.Key}
	}
	return c, true, err
}

// Wait waits until an event has ended, and returns the status of the event's context. After an
// Update that is done, it also waits for its UpdateDelete. Wait returns the status and an
// [*EventError] for an event that failed or was skipped, and the status and an [*UnfinishedError]
// if ctx ends first. It returns ErrNotFound for an event that does not exist or is no longer in the
// history.
func (e *Engine) Wait(ctx context.Context, ref EventRef) (*Status, error) {
	current := ref
	element, err := e.await(ctx, ref)
	for err == nil && element.Status == Done && element.Next != nil {
		current = *element.Next
		if element, err = e.await(ctx, current); err == nil && element.Status != Done {
			err = element.failure(current)
		}
	}
	if err != nil && ctx.Err() != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), unfinishedGrace)
		defer cancel()
		status, _ := e.Status(late, current.AppContextID) // nil with an error: then the reasons are not known
		unfinished := status.unfinished(current, err)
		if unfinished.Status == Pending && !e.isStarted() {
			unfinished.Err = fmt.Errorf("this engine is not started: %w", err)
		}
		if rollout, _ := e.RolloutStatus(late, current); rollout != nil {
			unfinished.Rollout = rollout.Waiting
		}
		return status, unfinished
	}
	if err != nil && !errors.As(err, new(*EventError)) {
		return nil, err
	}
	status, statusErr := e.Status(ctx, ref.AppContextID)
	if err == nil && element.Status != Done {
		err = element.failure(ref)
	}
	return status, errors.Join(err, statusErr)
}

func (e *Element) failure(ref EventRef) error {
	return &EventError{Ref: ref, Event: e.Event, Status: e.Status, Reason: e.Reason, Message: e.Message}
}

func (e *Engine) await(ctx context.Context, ref EventRef) (*Element, error) {
	if err := checkID(ref.AppContextID); err != nil {
		return nil, err
	}
	key := elementKey(ref.AppContextID, ref.Seq)
	for {
		result, err := e.store.Range(ctx, key)
		if err != nil {
			return nil, err
		}
		if len(result.KVs) == 0 {
			return nil, fmt.Errorf("event %d of app context %q: %w", ref.Seq, ref.AppContextID, ErrNotFound)
		}
		element, err := finalElement(result.KVs[0])
		if err != nil || element != nil {
			return element, err
		}
		element, err = e.awaitChange(ctx, key, result.Revision+1)
		if element != nil || err != nil && !errors.Is(err, store.ErrCompacted) {
			return element, err
		}
	}
}

func (e *Engine) awaitChange(ctx context.Context, key string, from int64) (*Element, error) {
	watchCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	for message := range e.store.Watch(watchCtx, key, from) {
		if message.Err != nil {
			return nil, message.Err
		}
		for _, event := range message.Events {
			if event.Deleted {
				return nil, fmt.Errorf("%s: %w", key, ErrNotFound)
			}
			if element, err := finalElement(event.KV); element != nil || err != nil {
				return element, err
			}
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, store.ErrCompacted // the watch ended without an error: read again
}

func finalElement(kv store.KeyValue) (*Element, error) {
	element, err := decode[Element](kv)
	if err != nil || !element.Status.Final() {
		return nil, err
	}
	return &element, nil
}
