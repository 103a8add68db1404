// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/revisions"
	"github.com/spokewire/sdk-go/rsync/store"
)

const documentPrefix = "/hub/document/"

// ErrNotFound is returned when a document, a revision or an awaited cluster does not exist.
var ErrNotFound = errors.New("not found")

// ErrNoRevision is returned when there is no revision to roll back to.
var ErrNoRevision = errors.New("no earlier revision to roll back to")

func hashOf(d *document.Document) string {
	sum := sha256.Sum256(d.JSON)
	return hex.EncodeToString(sum[:])
}

// holdOf returns the hold of an application, or nil. A hold ends when the document has changed.
func holdOf(holds map[string]revisions.Hold, d *document.Document) *revisions.Hold {
	if held, ok := holds[d.Name]; ok && held.Rejected == hashOf(d) {
		return &held
	}
	return nil
}

// write stores operations in one transaction, if there are any.
func (h *Hub) write(ctx context.Context, ops ...store.Op) error {
	if len(ops) == 0 {
		return nil
	}
	_, err := h.options.Store.Txn(ctx, nil, ops)
	return err
}

// Control makes a change that a person requests for an application. The result is that of a rollback.
// The error is that of [revisions.Manager.Control]; of a rollback [ErrNotFound] for a missing
// application or revision, [ErrNoRevision], or a [*document.Error] if the revision is not valid on the
// current clusters; of the end of a hold a [*document.Error] if another application has one of its
// objects now, and the hold stays.
func (h *Hub) Control(ctx context.Context, name string, c status.Control) (out status.RolledBack, err error) {
	var method func(*rsync.Engine, context.Context, rsync.EventRef) error
	switch c.Verb {
	case status.Approve:
		method = func(e *rsync.Engine, ctx context.Context, ref rsync.EventRef) error {
			return e.Approve(ctx, ref, c.Approval)
		}
	case status.Pause:
		method = (*rsync.Engine).Pause
	case status.Abort:
		method = (*rsync.Engine).Abort
	case status.Resume:
		return out, h.options.Rollouts.Resume(ctx, name)
	case status.Rollback:
		return h.rollback(ctx, name, c.Revision)
	case status.Release:
		return out, h.endHold(ctx, name)
	default:
		return out, fmt.Errorf("the verb %q: %w", c.Verb, ErrNotFound)
	}
	return out, h.options.Rollouts.Control(ctx, name, method)
}

// rollback rolls an application back to a revision, or with 0 to the previous one, and holds it
// there. It returns that revision.
func (h *Hub) rollback(ctx context.Context, name string, number int) (out status.RolledBack, err error) {
	ctx, done, err := h.begin(ctx)
	if err != nil {
		return out, err
	}
	defer done()
	set := h.Documents()
	d := set.Document(document.ApplicationKind, name)
	if d == nil {
		return out, fmt.Errorf("the application %s: %w", name, ErrNotFound)
	}
	stored, wanted, err := h.options.Rollouts.Revisions(ctx, name)
	if err != nil {
		return out, err
	}
	if number == 0 {
		if number, err = h.before(ctx, d, stored, wanted); err != nil {
			return out, err
		}
	}
	held := revisions.Hold{Revision: number, Rejected: hashOf(d)}
	if held.Source, err = h.source(ctx, name, number); err != nil {
		return out, err
	}
	r := h.alone(set, h.render(ctx, set, d, &held))
	if err = r.err; r.rendering != nil {
		err = h.options.Rollouts.Hold(ctx, name, held)
	}
	if err != nil {
		h.watchAgain(ctx, set, d)
		return out, err
	}
	out.Revision = number
	same := func(r revisions.Revision) bool { return r.Number == number && h.is(name, r.Source) }
	if slices.ContainsFunc(stored, same) {
		out.Note = fmt.Sprintf("revision %d differs from the target of the application at most in its clusters, "+
			"which follow the placements: nothing changes, but the application is held at this revision", number)
	}
	h.roll(ctx, r, fmt.Sprintf("rollback to %d", number))
	return out, nil
}

// before returns the revision to which an application is rolled back, given its hold or its wanted
// revision.
func (h *Hub) before(
	ctx context.Context, d *document.Document, stored []revisions.Revision, wanted int,
) (int, error) {
	holds, err := h.options.Rollouts.Holds(ctx)
	if err != nil {
		return 0, err
	}
	from := wanted
	switch held := holdOf(holds, d); {
	case held != nil:
		from = held.Revision
	case !h.begun(d.Name, stored, wanted):
		return wanted, nil
	}
	if found := revisions.Before(stored, from); found != 0 {
		return found, nil
	}
	if slices.ContainsFunc(stored, func(r revisions.Revision) bool { return r.Number < from }) {
		return 0, fmt.Errorf("the revisions before %d differ from it only in their clusters, which follow the "+
			"placements: %w", from, ErrNoRevision)
	}
	return 0, ErrNoRevision
}

// is reports whether the current target of an application has a source with a digest.
func (h *Hub) is(name, source string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.applications[name]
	return a != nil && a.rendering != nil && a.rendering.SourceDigest() == source
}

// begun reports whether the newest target of an application is its wanted revision already. An
// event in progress may delay it.
func (h *Hub) begun(name string, stored []revisions.Revision, wanted int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.applications[name]
	return a == nil || a.rendering == nil || !slices.ContainsFunc(stored, func(r revisions.Revision) bool {
		return r.Number == wanted && r.Source != a.rendering.SourceDigest() &&
			r.Digest != a.rendering.Digest()
	})
}

// endHold ends the hold of an application, so that its document is used again.
func (h *Hub) endHold(ctx context.Context, name string) error {
	ctx, done, err := h.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	set := h.Documents()
	d := set.Document(document.ApplicationKind, name)
	if d == nil {
		return fmt.Errorf("the application %s: %w", name, ErrNotFound)
	}
	r := h.render(ctx, set, d, nil)
	if err := h.checkMoves(set, []result{r}); err != nil {
		h.watchAgain(ctx, set, d)
		return err
	}
	if err := h.options.Rollouts.Release(ctx, name); err != nil {
		return err
	}
	h.roll(ctx, r, "the rollback was ended")
	return nil
}

// endHolds deletes holds that have ended, so that they stay ended when the same document is put
// again.
func (h *Hub) endHolds(ctx context.Context, results []result) error {
	ended, err := h.options.Rollouts.Holds(ctx)
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.Revision != 0 {
			delete(ended, r.name)
		}
	}
	return h.options.Rollouts.Release(ctx, slices.Collect(maps.Keys(ended))...)
}

// keep stores the differences between two sets, and the origin, in one transaction. At the start
// the store already has the documents. Documents of a folder are not stored.
func (h *Hub) keep(ctx context.Context, before, after *document.Set, now origin, first bool) error {
	h.mu.Lock()
	same := !first && slices.Equal(h.origin.Left, now.Left) // changed documents affect only Left
	h.mu.Unlock()
	var ops []store.Op
	if !same {
		op, err := now.note()
		if err != nil {
			return err
		}
		ops = append(ops, op)
	}
	switch {
	case now.Folder && first:
		ops = append(ops, store.DeletePrefix(documentPrefix))
	case !now.Folder && !first:
		ops = append(ops, changes(before, after)...)
	}
	return h.write(ctx, ops...)
}

// changes returns the operations that store the difference between two sets.
func changes(before, after *document.Set) (ops []store.Op) {
	for _, kind := range document.Kinds() {
		for _, d := range before.Documents(kind) {
			if after.Document(kind, d.Name) == nil {
				ops = append(ops, store.Delete(documentKey(d)))
			}
		}
		for _, d := range after.Documents(kind) {
			if was := before.Document(kind, d.Name); was == nil || string(was.JSON) != string(d.JSON) {
				ops = append(ops, store.Put(documentKey(d), d.JSON))
			}
		}
	}
	return ops
}

func documentKey(d *document.Document) string {
	return documentPrefix + string(d.Kind) + "/" + d.Name + "/"
}
