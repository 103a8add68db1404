// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Approve opens a gate of a rollout. The group then begins, or the rollout continues after the
// group. A gate can be opened before the rollout reaches it. Approving an open gate writes nothing
// and returns nil, also after the event has ended. Approve returns ErrNotFound for an event that is
// unknown or has no rollout, and ErrInvalidInput for a gate that the rollout does not have. It
// returns ErrInvalidState after the event has ended, if the gate was not opened.
func (e *Engine) Approve(ctx context.Context, ref EventRef, approval Approval) error {
	return e.changeRollout(ctx, ref, func(r *rolloutRecord) error {
		gates, groups := []Gate{}, []string{} // the gates of the group, and the groups with gates
		for _, g := range r.Groups {
			if g.ApproveBefore || g.ApproveAfter {
				groups = append(groups, g.Name)
			}
			if g.Name == approval.Group && g.ApproveBefore {
				gates = append(gates, GateBeforeGroup)
			}
			if g.Name == approval.Group && g.ApproveAfter {
				gates = append(gates, GateAfterGroup)
			}
		}
		if !slices.Contains(gates, approval.Gate) {
			return invalid("the rollout has no gate %q of a group %q: the gates of the group are %q, and the groups with "+
				"gates are %q", approval.Gate, approval.Group, gates, groups)
		}
		if !slices.Contains(r.Approved, approval) {
			r.Approved = append(r.Approved, approval)
		}
		return nil
	})
}

// Pause pauses a rollout: after it returns, no further cluster begins until Resume. Clusters in
// progress continue. When all clusters have ended and all gates are open, the event ends despite
// the pause. Pause returns the errors of Approve.
func (e *Engine) Pause(ctx context.Context, ref EventRef) error {
	return e.changeRollout(ctx, ref, func(r *rolloutRecord) error {
		r.Paused = true
		return nil
	})
}

// Resume ends a Pause. It returns the errors of Approve.
func (e *Engine) Resume(ctx context.Context, ref EventRef) error {
	return e.changeRollout(ctx, ref, func(r *rolloutRecord) error {
		r.Paused = false
		return nil
	})
}

// Abort ends a rollout: after it returns, no further cluster begins. Clusters in progress end when
// they would otherwise wait. The event ends with the status Error and the reason Aborted, and
// RollbackOnFailure queues a rollback. Applied objects stay until the next event, for example a
// Rollback. Abort returns the errors of Approve.
func (e *Engine) Abort(ctx context.Context, ref EventRef) error {
	return e.changeRollout(ctx, ref, func(r *rolloutRecord) error {
		r.Aborted = true
		return nil
	})
}

func (e *Engine) rolloutRecord(ctx context.Context, ref EventRef) (kv store.KeyValue, record rolloutRecord, err error) {
	if err := checkID(ref.AppContextID); err != nil {
		return kv, record, err
	}
	kv, record, err = get[rolloutRecord](ctx, e, rolloutKey(ref.AppContextID, ref.Seq))
	if err == nil && !kv.Exists() {
		err = fmt.Errorf("rollout of event %d of app context %q: %w", ref.Seq, ref.AppContextID, ErrNotFound)
	}
	return kv, record, err
}

// changeRollout changes the record of a rollout, and wakes the engine that owns the context. It
// returns nil if the record has the change already, also after the end of the event: an earlier
// call may have lost its answer.
func (e *Engine) changeRollout(ctx context.Context, ref EventRef, change func(*rolloutRecord) error) error {
	for range conflictLimit {
		kv, record, err := e.rolloutRecord(ctx, ref)
		if err != nil {
			return err
		}
		if err := change(&record); err != nil {
			return err
		}
		text := encode(record)
		if bytes.Equal(text, kv.Value) {
			return nil
		}
		element, err := e.store.Get(ctx, elementKey(ref.AppContextID, ref.Seq))
		if err != nil {
			return err
		}
		var event Element
		if json.Unmarshal(element.Value, &event) == nil && event.Status.Final() {
			return fmt.Errorf("event %d of app context %q is %s: %w", ref.Seq, ref.AppContextID, event.Status,
				ErrInvalidState)
		}
		result, err := e.txn(ctx, []store.Compare{store.Unchanged(kv), store.Unchanged(element)},
			[]store.Op{store.Put(kv.Key, text), putActive(ref.AppContextID)})
		if err != nil || result.Succeeded {
			return err
		}
	}
	return fmt.Errorf("rollout of event %d of app context %q: %w", ref.Seq, ref.AppContextID, ErrConflict)
}

// rolloutOf returns the record for the rollout of a call, which may be nil.
func (e *Engine) rolloutOf(ctx context.Context, id string, element *Element, r *Rollout) (*rolloutRecord, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // none
	}
	if element.Event != Instantiate && element.Event != Update {
		return nil, invalid("%s cannot have a rollout, only Instantiate and Update", element.Event)
	}
	h, err := e.headOf(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := r.validate(h); err != nil {
		return nil, err
	}
	_, back := e.options.Transitions.Of(Update, Instantiated)
	if r.RollbackOnFailure && element.Event == Update && !back {
		return nil, invalidRollout("RollbackOnFailure",
			"Options.Transitions must allow an update to a context that is Instantiated")
	}
	out := &rolloutRecord{Rollout: *r}
	if out.Until == "" {
		out.Until = appcontext.OpStatusReady
	}
	element.Rollout = true
	return out, nil
}

// sameRollout reports whether an event that is already queued has the rollout of a call.
func (e *Engine) sameRollout(ctx context.Context, id string, seq uint64, r *rolloutRecord) (bool, error) {
	kv, err := e.store.Get(ctx, rolloutKey(id, seq))
	if err != nil || r == nil || !kv.Exists() {
		return r == nil && !kv.Exists(), err
	}
	before, err := decode[rolloutRecord](kv)
	if err != nil {
		return false, err
	}
	return bytes.Equal(encode(before.Rollout), encode(r.Rollout)), nil
}

// RolloutStatus returns the progress of the rollout of an event. It returns ErrNotFound for an
// event that is unknown, has no rollout, or is no longer in the history.
func (e *Engine) RolloutStatus(ctx context.Context, ref EventRef) (*RolloutStatus, error) {
	_, record, err := e.rolloutRecord(ctx, ref)
	if err != nil {
		return nil, err
	}
	img, err := e.image(ctx, ref.AppContextID)
	if err != nil {
		return nil, err
	}
	element := img.element(ref.Seq)
	if element == nil {
		return nil, fmt.Errorf("event %d of app context %q: %w", ref.Seq, ref.AppContextID, ErrNotFound)
	}
	out := &RolloutStatus{
		Ref: ref, Rollout: record.Rollout, Status: element.Status, Paused: record.Paused, Aborted: record.Aborted,
		Approved: record.Approved,
	}
	if out.Groups = record.Ended; element.Status.Final() && len(out.Groups) > 0 {
		return out, nil
	}
	o := newOrder(record, img.head.clusters())
	known := img.statusesOf(ref.Seq)
	for _, a := range img.head.Apps {
		for _, c := range a.Clusters {
			o.clusters[c].add(known[taskKey{a.Name, c}])
		}
	}
	out.Groups = o.statuses()
	if !element.Status.Final() {
		v := o.decide(e.now())
		out.Waiting, out.Needs = v.waits, v.needs
	}
	return out, nil
}
