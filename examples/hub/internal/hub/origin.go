// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/revisions"
	"github.com/spokewire/sdk-go/rsync/store"
)

const originKey = "/hub/origin/"

// ErrNoDocument is returned by [Hub.Complete] when the hub has no documents.
var ErrNoDocument = errors.New("no documents: first put the documents of all applications that must stay")

// origin is the stored record of how documents reach the hub.
type origin struct {
	// Folder is whether documents come from a folder.
	Folder bool `json:"folder"`
	// Incomplete is whether there may be works of unknown applications, because the hub started
	// without documents: see [Hub.Complete].
	Incomplete bool `json:"incomplete,omitempty"`
	// Left are applications of a folder that was left, without a document or a placement yet. They
	// stay unchanged.
	Left []string `json:"left,omitempty"`
}

// arrive returns the previous origin, or nil, and the current one, for a hub that had these
// applications before. The caller holds change.
func (h *Hub) arrive(ctx context.Context, names []string) (was *origin, now origin, err error) {
	now.Folder = h.options.Dir != ""
	kv, err := h.options.Store.Get(ctx, originKey)
	if err != nil {
		return nil, now, err
	}
	if kv.Exists() {
		was = &origin{}
		if err := json.Unmarshal(kv.Value, was); err != nil {
			return nil, now, fmt.Errorf("the value of %s is damaged: %w", originKey, err)
		}
	}
	switch {
	case now.Folder: // the folder has all documents
	case was == nil:
		now.Incomplete = true
	case was.Folder:
		now.Incomplete, now.Left = true, names
	default:
		now = *was
	}
	return was, now, nil
}

// checkOrigin refuses a change of the origin that would remove applications: an option may be
// missing, or set by mistake.
func (h *Hub) checkOrigin(ctx context.Context, was *origin, set *document.Set, results []result) error {
	folder := h.options.Dir != ""
	if was == nil || was.Folder == folder || !folder && h.options.LeaveDir {
		return nil
	}
	gone, err := h.gone(ctx, set, results)
	if err != nil || len(gone) == 0 {
		return err
	}
	if folder {
		return &document.Error{Where: h.options.Dir, Problem: fmt.Sprintf(
			"would remove %s: until now documents came through the HTTP API. Start without --dir, or put their "+
				"documents in %[2]s too (GET /api/v1/applications etc. return them), and remove documents when the "+
				"hub runs", list(gone), h.options.Dir)}
	}
	return fmt.Errorf("without --dir the hub would remove %s: until now documents came from a folder. Start with "+
		"--dir again, or with --leave-dir to keep the applications while their documents are put through the "+
		"HTTP API", list(gone))
}

// gone returns the applications that would be removed from clusters: "shop on c1, c2".
func (h *Hub) gone(ctx context.Context, set *document.Set, results []result) ([]string, error) {
	stored, err := h.options.Rollouts.Applications(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		clusters, err := h.placed(ctx, name)
		if err != nil {
			return nil, err
		}
		if set.Document(document.ApplicationKind, name) != nil {
			r := results[slices.IndexFunc(results, func(r result) bool { return r.name == name })]
			if r.rendering == nil {
				continue // it stays unchanged
			}
			maps.DeleteFunc(clusters, func(cluster string, _ bool) bool { return r.rendering.On[cluster] })
		}
		if len(clusters) > 0 {
			out = append(out, name+" on "+strings.Join(slices.Sorted(maps.Keys(clusters)), ", "))
		}
	}
	return out, nil
}

// placed returns the clusters of the wanted revision of an application, if that revision is live.
func (h *Hub) placed(ctx context.Context, name string) (map[string]bool, error) {
	out := map[string]bool{}
	_, wanted, err := h.options.Rollouts.Revisions(ctx, name)
	if err != nil {
		return nil, err
	}
	live, err := h.options.Rollouts.Live(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, c := range live {
		if c.ID != revisions.ContextID(name, wanted) {
			continue
		}
		for id := range appcontext.Resources(c.Apps) {
			out[id.Cluster.Name] = true
		}
	}
	return out, nil
}

// note returns the operation that stores an origin.
func (o *origin) note() (store.Op, error) {
	data, err := json.Marshal(o)
	return store.Put(originKey, data), err
}

// Restored returns the value of a key for a store that is restored from a backup. Works on clusters may
// be newer than the backup, so [Hub.Complete] must be called, unless documents come from a folder.
func Restored(key string, value []byte) ([]byte, error) {
	if key != originKey {
		return value, nil
	}
	var o origin
	if err := json.Unmarshal(value, &o); err != nil || o.Folder {
		return value, err
	}
	o.Incomplete = true
	return json.Marshal(o)
}

// without returns an origin in which applications with a document and a placement are not left. The
// document is put before the placement.
func (o *origin) without(set *document.Set) origin {
	out := *o
	out.Left = slices.DeleteFunc(slices.Clone(o.Left), func(name string) bool {
		return set.Document(document.ApplicationKind, name) != nil && len(set.On(name)) > 0
	})
	return out
}

// Complete declares that the documents of all applications exist. The hub then removes the
// applications of a folder that was left, and unknown works. A hub that starts without documents in
// its store waits for this call without a limit: the store may be new, or lost. It returns
// [ErrNoDocument] if there is no document.
func (h *Hub) Complete(ctx context.Context) error {
	ctx, done, err := h.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	set := h.Documents()
	if set.Len() == 0 {
		return ErrNoDocument
	}
	now := origin{Folder: h.options.Dir != ""}
	op, err := now.note()
	if err != nil {
		return err
	}
	if err := h.write(ctx, op); err != nil {
		return err
	}
	left := h.setOrigin(now).Left
	documents := slices.DeleteFunc(set.Documents(document.ApplicationKind),
		func(d *document.Document) bool { return !slices.Contains(left, d.Name) })
	h.rerender(ctx, set, "no placement selects it", documents...)
	err = h.removeOthers(ctx, set)
	if err == nil {
		select {
		case h.completed <- struct{}{}:
		default:
		}
	}
	return err
}

// setOrigin sets an origin that is stored, and returns the previous one.
func (h *Hub) setOrigin(now origin) (before origin) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, h.origin = h.origin, now
	h.news.Wake()
	return before
}

// awaitComplete waits until the documents are complete, and reports whether it had to wait.
func (h *Hub) awaitComplete(ctx context.Context) (waited bool) {
	for {
		changed := h.news.Next()
		h.mu.Lock()
		now := h.origin
		h.mu.Unlock()
		if !now.Incomplete {
			return waited
		}
		if !waited {
			waited = true
			h.options.Log.Info("Unknown works on clusters stay because the store may have been lost or restored: " +
				"declare that the documents of all applications exist with hub complete")
			if len(now.Left) > 0 {
				h.options.Log.Info("Kept applications unchanged until they have documents and placements", "applications",
					list(now.Left))
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return waited
		}
	}
}
