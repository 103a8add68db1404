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

// ErrNotFound is of what there is not: a document, a revision, or a cluster that anybody waits for.
var ErrNotFound = errors.New("there is none")

// ErrNoRevision is of a rollback to nothing: there is no such revision.
var ErrNoRevision = errors.New("there is no such revision to go back to")

// hold keeps an application at a revision.
type hold struct {
	Revision int `json:"revision"`
	// Rejected is the document that it was rolled back from, as a hash: another one ends the hold.
	Rejected string `json:"rejected"`
	// Source is that of the revision, which may be forgotten before the hold ends.
	Source rollout.Source `json:"source"`
}

func hashOf(d *document.Document) string {
	sum := sha256.Sum256(d.JSON)
	return hex.EncodeToString(sum[:])
}

// holdOf returns the hold of an application, or nil. One whose document is another now ends.
func (h *Hub) holdOf(ctx context.Context, d *document.Document) (*hold, error) {
	kv, err := h.options.Store.Get(ctx, holdPrefix+d.Name+"/")
	if err != nil || !kv.Exists() {
		return nil, err
	}
	var found hold
	if err := json.Unmarshal(kv.Value, &found); err != nil {
		return nil, fmt.Errorf("the value of %s is broken: %w", kv.Key, err)
	}
	if found.Rejected != hashOf(d) {
		return nil, nil
	}
	return &found, nil
}

// release ends the hold of an application.
func (h *Hub) release(ctx context.Context, name string) error {
	_, err := h.options.Store.Txn(ctx, nil, []store.Op{store.Delete(holdPrefix + name + "/")})
	return err
}

// Rollback takes an application back to a revision, or with 0 to the one before, and holds it there. It returns the number, and [ErrNotFound]
// for an application that there is not, [ErrNoRevision], or a [*document.Error] where the revision cannot be on the clusters of today.
func (h *Hub) Rollback(ctx context.Context, name string, number int) (int, error) {
	ctx, done, err := h.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	set := h.Documents()
	d := set.Document(document.ApplicationKind, name)
	if d == nil {
		return 0, fmt.Errorf("the application %s: %w", name, ErrNotFound)
	}
	revisions, wanted, err := h.options.Rollouts.Revisions(ctx, name)
	if err != nil {
		return 0, err
	}
	before, err := h.options.Store.Get(ctx, holdPrefix+name+"/")
	if err != nil {
		return 0, err
	}
	found := number
	if number == 0 {
		if held, err := h.holdOf(ctx, d); err != nil {
			return 0, err
		} else if held != nil {
			found = rollout.Before(revisions, held.Revision)
		} else if found = wanted; h.begun(name, revisions, wanted) {
			found = rollout.Before(revisions, wanted)
		}
	}
	if found == 0 {
		return 0, ErrNoRevision
	}
	source, err := h.options.Rollouts.Source(ctx, name, found)
	if errors.Is(err, rsync.ErrNotFound) {
		err = fmt.Errorf("revision %d of the application %s: %w", found, name, ErrNotFound)
	}
	if err != nil {
		return 0, err
	}
	data, err := json.Marshal(hold{Revision: found, Rejected: hashOf(d), Source: *source})
	if err != nil {
		return 0, err
	}
	if _, err := h.options.Store.Txn(ctx, nil, []store.Op{store.Put(before.Key, data)}); err != nil {
		return 0, err
	}
	r := h.alone(set, h.render(ctx, set, d))
	if r.rendering == nil {
		undo := store.Delete(before.Key)
		if before.Exists() {
			undo = store.Put(before.Key, before.Value)
		}
		_, err := h.options.Store.Txn(ctx, nil, []store.Op{undo})
		h.watchAgain(ctx, set, d)
		return 0, errors.Join(r.err, err)
	}
	h.roll(r, fmt.Sprintf("rollback to %d", found))
	return found, nil
}

// begun reports whether the newest that an application is to be is its wanted revision already: what is under way may keep it waiting.
func (h *Hub) begun(name string, revisions []rollout.Revision, wanted int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.applications[name]
	return a == nil || a.newest.Digest == "" || !slices.ContainsFunc(revisions, func(r rollout.Revision) bool {
		return r.Number == wanted && r.Content != a.newest.Content && r.Digest != a.newest.Digest
	})
}

// Resume ends the hold of an application, so that its document counts again. It returns a [*document.Error], and the hold stays, where another application
// has an object of it by now.
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
	r := h.render(ctx, set, d)
	if moved := h.checkMoves(set, []result{r}); moved != nil {
		_, err := h.options.Store.Txn(ctx, nil, []store.Op{store.Put(before.Key, before.Value)})
		h.watchAgain(ctx, set, d)
		return errors.Join(moved, err)
	}
	h.roll(r, "the rollback was ended")
	return nil
}

// endHolds forgets holds that do not count any more, so that they stay ended when a document comes back.
func (h *Hub) endHolds(ctx context.Context, results []result) error {
	all, err := h.options.Store.Range(ctx, holdPrefix)
	if err != nil {
		return err
	}
	counts := map[string]bool{}
	for _, r := range results {
		counts[holdPrefix+r.name+"/"] = r.revision != 0
	}
	var ops []store.Op
	for _, kv := range all.KVs {
		if !counts[kv.Key] {
			ops = append(ops, store.Delete(kv.Key))
		}
	}
	if len(ops) == 0 {
		return nil
	}
	_, err = h.options.Store.Txn(ctx, nil, ops)
	return err
}

// keep stores what differs between two sets, in one transaction.
func (h *Hub) keep(ctx context.Context, before, after *document.Set) error {
	var ops []store.Op
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
	if len(ops) == 0 {
		return nil
	}
	_, err := h.options.Store.Txn(ctx, nil, ops)
	return err
}

func documentKey(d *document.Document) string {
	return documentPrefix + string(d.Kind) + "/" + d.Name + "/"
}
