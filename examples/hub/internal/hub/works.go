// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/interpreter/workhealth"
	"github.com/spokewire/sdk-go/rsync/store"
)

const forgottenPrefix = "/hub/forgotten/"

// ErrPresent is returned when a cluster that has a document cannot be forgotten.
var ErrPresent = errors.New("the cluster has a document: only one that was removed can be forgotten")

// Forget stops waiting for a removed cluster that will not return: the hub no longer waits for its
// agent to clean up. This ends when a document with its name exists again. It returns ErrPresent
// for a cluster with a document, and [ErrNotFound] for a cluster that is not awaited.
func (h *Hub) Forget(ctx context.Context, cluster string) error {
	h.change.Lock()
	defer h.change.Unlock()
	if h.Documents().Document(document.ClusterKind, cluster) != nil {
		return ErrPresent
	}
	if awaited, err := h.awaited(ctx, cluster); err != nil {
		return err
	} else if !awaited {
		return fmt.Errorf("no removed cluster %q is awaited: %w", cluster, ErrNotFound)
	}
	if err := h.write(ctx, store.Put(forgottenPrefix+cluster+"/", []byte("{}"))); err != nil {
		return err
	}
	h.WorksChanged()
	return nil
}

// awaited reports whether a cluster has works, has objects of an application, or is already forgotten.
func (h *Hub) awaited(ctx context.Context, cluster string) (bool, error) {
	for _, w := range h.options.Health.Works() {
		if w.Namespace == cluster {
			return true, nil
		}
	}
	if forgotten, err := h.forgotten(ctx); err != nil || slices.Contains(forgotten, cluster) {
		return err == nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, owner := range h.owners {
		if id.Cluster.Name == cluster && !h.letGo(owner, id) {
			return true, nil
		}
	}
	return false, nil
}

// WorksChanged reports that works have changed. It returns at once.
func (h *Hub) WorksChanged() { h.news.Wake() }

// giveUp abandons the works of forgotten clusters when they are being deleted. Failures are
// retried.
func (h *Hub) giveUp(ctx context.Context) error {
	logged := ""
	for {
		changed := h.news.Next()
		var again <-chan time.Time
		if err := h.abandon(ctx); err != nil && ctx.Err() == nil {
			if again = time.After(time.Second); err.Error() != logged {
				logged = err.Error()
				h.options.Log.Error(err, "Failed to forget the works of removed clusters, retrying")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-again:
		}
	}
}

// forgotten returns the forgotten clusters.
func (h *Hub) forgotten(ctx context.Context) (clusters []string, err error) {
	result, err := h.options.Store.Range(ctx, forgottenPrefix)
	for _, kv := range result.KVs {
		clusters = append(clusters, strings.TrimSuffix(strings.TrimPrefix(kv.Key, forgottenPrefix), "/"))
	}
	return clusters, err
}

// abandon forgets the works of forgotten clusters that are being deleted.
func (h *Hub) abandon(ctx context.Context) error {
	clusters, err := h.forgotten(ctx)
	if err != nil {
		return err
	}
	works := h.options.Health.Works()
	for _, cluster := range clusters {
		if !slices.ContainsFunc(works, func(w workhealth.Work) bool {
			return w.Namespace == cluster && w.DeletionTimestamp != nil
		}) {
			continue
		}
		if err := h.options.Forget(ctx, cluster); err != nil {
			return err
		}
		h.options.Log.Info("Forgot the works of a cluster", "cluster", cluster)
	}
	return nil
}

// remember removes clusters with documents from the forgotten ones.
func (h *Hub) remember(ctx context.Context, set *document.Set) error {
	clusters, err := h.forgotten(ctx)
	if err != nil {
		return err
	}
	var ops []store.Op
	for _, cluster := range clusters {
		if set.Document(document.ClusterKind, cluster) != nil {
			ops = append(ops, store.Delete(forgottenPrefix+cluster+"/"))
		}
	}
	return h.write(ctx, ops...)
}

// The works and the state of the hub are in two files. If the state was lost or is outdated, works
// have objects of no revision, which no application removes. They may be all that runs, so the hub
// reports them and leaves them unchanged.

// whatToDo is the advice for works that no application has.
const whatToDo = "state.db was lost or is outdated; the objects stay unchanged. Restore state.db, or put the " +
	"documents of their applications again: " +
	"an application adopts the existing objects, and later deletes those that leave its document"

// unclaimed returns the works with objects that belong to no live revision and no target of any
// application.
func (h *Hub) unclaimed(works []workhealth.Work) []status.Unclaimed {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := []status.Unclaimed{}
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
			out = append(out, status.Unclaimed{
				Cluster: w.Namespace, Work: w.Name, Application: application, Objects: objects,
			})
		}
	}
	slices.SortFunc(out, func(a, b status.Unclaimed) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Work, b.Work))
	})
	return out
}

// notice returns a message with the unclaimed works, and the advice.
func notice(unclaimed []status.Unclaimed) string {
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
		h.options.Log.Info("Detected works without an application", "works", text)
	}
	return nil
}
