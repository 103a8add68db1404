// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/rollout"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/store"
)

const (
	holdPrefix     = "/hub/hold/"
	documentPrefix = "/hub/document/"
)

// ErrNotFound is returned when a document, a revision or an awaited cluster does not exist.
var ErrNotFound = errors.New("not found")

// ErrNoRevision is returned when there is no revision to roll back to.
var ErrNoRevision = errors.New("no such revision to roll back to")

// hold keeps an application at a revision.
type hold struct {
	Revision int `json:"revision"`
	// Rejected is the hash of the document that was rolled back. A changed document ends the hold.
	Rejected string `json:"rejected"`
	// Source is the source of the revision, which may be deleted before the hold ends.
	Source rollout.Source `json:"source"`
}

func hashOf(d *document.Document) string {
	sum := sha256.Sum256(d.JSON)
	return hex.EncodeToString(sum[:])
}

// holdOf decodes the hold of an application, or returns nil. A hold ends when the document has
// changed.
func holdOf(kv store.KeyValue, d *document.Document) (*hold, error) {
	if !kv.Exists() {
		return nil, nil
	}
	var found hold
	if err := json.Unmarshal(kv.Value, &found); err != nil {
		return nil, fmt.Errorf("the value of %s is damaged: %w", kv.Key, err)
	}
	if found.Rejected != hashOf(d) {
		return nil, nil
	}
	return &found, nil
}

// release ends the hold of an application.
func (h *Hub) release(ctx context.Context, name string) error {
	return h.write(ctx, store.Delete(holdPrefix+name+"/"))
}

// write stores operations in one transaction, if there are any.
func (h *Hub) write(ctx context.Context, ops ...store.Op) error {
	if len(ops) == 0 {
		return nil
	}
	_, err := h.options.Store.Txn(ctx, nil, ops)
	return err
}

// RolledBack is the result of a rollback.
type RolledBack struct {
	Revision int `json:"revision"`
	// Note is a remark for the user, or empty.
	Note string `json:"note,omitempty"`
}

// Rollback rolls an application back to a revision, or with 0 to the previous one, and holds it
// there. It returns that revision. The error is [ErrNotFound] for a missing application or
// revision, [ErrNoRevision], or a [*document.Error] if the revision is not valid on the current
// clusters.
func (h *Hub) Rollback(ctx context.Context, name string, number int) (out RolledBack, err error) {
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
	revisions, wanted, err := h.options.Rollouts.Revisions(ctx, name)
	if err != nil {
		return out, err
	}
	before, err := h.options.Store.Get(ctx, holdPrefix+name+"/")
	if err != nil {
		return out, err
	}
	found := number
	if number == 0 {
		if found, err = h.before(before, d, revisions, wanted); err != nil {
			return out, err
		}
	}
	source, err := h.options.Rollouts.Source(ctx, name, found)
	if errors.Is(err, rsync.ErrNotFound) {
		err = fmt.Errorf("revision %d of the application %s: %w", found, name, ErrNotFound)
	}
	if err != nil {
		return out, err
	}
	data, err := json.Marshal(hold{Revision: found, Rejected: hashOf(d), Source: *source})
	if err != nil {
		return out, err
	}
	if err := h.write(ctx, store.Put(before.Key, data)); err != nil {
		return out, err
	}
	r := h.alone(set, h.renderAll(ctx, set, []*document.Document{d})[0])
	if r.Rendering == nil {
		undo := store.Delete(before.Key)
		if before.Exists() {
			undo = store.Put(before.Key, before.Value)
		}
		err := h.write(ctx, undo)
		h.watchAgain(ctx, set, d)
		return out, errors.Join(r.err, err)
	}
	out.Revision = found
	if h.is(name, source) {
		out.Note = fmt.Sprintf("revision %d differs from the target of the application at most in its clusters, "+
			"which follow the placements: nothing changes, but the application is held at this revision", found)
	}
	h.roll(ctx, r, fmt.Sprintf("rollback to %d", found))
	return out, nil
}

// before returns the revision to which an application is rolled back, given its hold or its wanted
// revision.
func (h *Hub) before(
	stored store.KeyValue, d *document.Document, revisions []rollout.Revision, wanted int,
) (int, error) {
	held, err := holdOf(stored, d)
	if err != nil {
		return 0, err
	}
	from := wanted
	switch {
	case held != nil:
		from = held.Revision
	case !h.begun(d.Name, revisions, wanted):
		return wanted, nil
	}
	if found := rollout.Before(revisions, from); found != 0 {
		return found, nil
	}
	if slices.ContainsFunc(revisions, func(r rollout.Revision) bool { return r.Number < from }) {
		return 0, fmt.Errorf("the revisions before %d differ from it only in their clusters, which follow the "+
			"placements: %w", from, ErrNoRevision)
	}
	return 0, ErrNoRevision
}

// is reports whether the current target of an application has the same source.
func (h *Hub) is(name string, source *rollout.Source) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.applications[name]
	return a != nil && a.rendering != nil && rollout.SourceOf(a.rendering).Digest() == source.Digest()
}

// begun reports whether the newest target of an application is its wanted revision already. An
// event in progress may delay it.
func (h *Hub) begun(name string, revisions []rollout.Revision, wanted int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.applications[name]
	return a == nil || a.rendering == nil || !slices.ContainsFunc(revisions, func(r rollout.Revision) bool {
		return r.Number == wanted && r.Content != rollout.SourceOf(a.rendering).Digest() &&
			r.Digest != a.rendering.Digest()
	})
}

// Resume ends the hold of an application, so that its document is used again. If another
// application has one of its objects now, it returns a [*document.Error] and the hold stays.
func (h *Hub) Resume(ctx context.Context, name string) error {
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
	before, err := h.options.Store.Get(ctx, holdPrefix+name+"/")
	if err != nil {
		return err
	}
	if err := h.release(ctx, name); err != nil {
		return err
	}
	r := h.renderAll(ctx, set, []*document.Document{d})[0]
	if moved := h.checkMoves(set, []result{r}); moved != nil {
		err := h.write(ctx, store.Put(before.Key, before.Value))
		h.watchAgain(ctx, set, d)
		return errors.Join(moved, err)
	}
	h.roll(ctx, r, "the rollback was ended")
	return nil
}

// endHolds deletes holds that have ended, so that they stay ended when the same document is put
// again.
func (h *Hub) endHolds(ctx context.Context, results []result) error {
	all, err := h.options.Store.Range(ctx, holdPrefix)
	if err != nil {
		return err
	}
	counts := map[string]bool{}
	for _, r := range results {
		counts[holdPrefix+r.name+"/"] = r.Revision != 0
	}
	var ops []store.Op
	for _, kv := range all.KVs {
		if !counts[kv.Key] {
			ops = append(ops, store.Delete(kv.Key))
		}
	}
	return h.write(ctx, ops...)
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
