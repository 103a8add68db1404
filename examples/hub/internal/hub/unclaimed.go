// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spokewire/sdk-go/examples/hub/internal/health"
	"github.com/spokewire/sdk-go/examples/hub/internal/page"
)

// The works and the state of the hub are in two files. If the state was lost or is outdated, works
// have objects of no revision, which no application removes. They may be all that runs, so the hub
// reports them and leaves them unchanged.

// whatToDo is the advice for works that no application has.
const whatToDo = "state.db was lost or is outdated; the objects stay unchanged. Restore state.db, or put the " +
	"documents of their applications again: " +
	"an application adopts the existing objects, and later deletes those that leave its document"

// unclaimed returns the works with objects that belong to no live revision and no target of any
// application.
func (h *Hub) unclaimed(works []health.Work) []page.Unclaimed {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := []page.Unclaimed{}
	if h.taken.IsZero() {
		return out // the targets are not known yet
	}
	for i := range works {
		w := &works[i]
		application := applicationOf(w.ManifestWork)
		if a := h.applications[application]; w.DeletionTimestamp != nil || w.Behind || a != nil && a.problem != "" &&
			a.rendering == nil {
			continue // deleted, about to change, or of an application that has not rendered
		}
		var objects []string
		for j := range w.Objects {
			o := w.Objects[j].Object
			// CRDs of a crd-install hook stay when their application is removed.
			if h.owners[identityOf(*w, o)] == "" && o.Kind != "CustomResourceDefinition" {
				objects = append(objects, o.String())
			}
		}
		if len(objects) > 0 {
			slices.Sort(objects)
			out = append(out, page.Unclaimed{
				Cluster: w.Namespace, Work: w.Name, Application: application, Objects: objects,
			})
		}
	}
	slices.SortFunc(out, func(a, b page.Unclaimed) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Work, b.Work))
	})
	return out
}

// notice returns a message with the unclaimed works, and the advice.
func notice(unclaimed []page.Unclaimed) string {
	if len(unclaimed) == 0 {
		return ""
	}
	var names []string
	for _, u := range unclaimed {
		names = append(names, fmt.Sprintf("%s/%s (%s: %s)", u.Cluster, u.Work, cmp.Or(u.Application, "no application"),
			list(u.Objects)))
	}
	return fmt.Sprintf("No application has the objects of %s: %s: %s", countWorks(len(unclaimed)), list(names),
		whatToDo)
}

// logUnclaimed logs the unclaimed works once.
func (h *Hub) logUnclaimed(ctx context.Context) error {
	select {
	case <-h.loaded:
	case <-ctx.Done():
		return nil
	}
	if !h.options.Health.Synced(ctx) {
		return nil // ctx has ended
	}
	if text := notice(h.unclaimed(h.options.Health.Works())); text != "" {
		h.options.Log("%s", text)
	}
	return nil
}
