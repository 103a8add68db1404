// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
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
func (h *Hub) WorksChanged() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.news.Wake()
}

// nextWorks returns a channel that is closed when works have changed.
func (h *Hub) nextWorks() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.news.Next()
}

// giveUp abandons the works of forgotten clusters when they are being deleted. Failures are
// retried.
func (h *Hub) giveUp(ctx context.Context) error {
	logged := ""
	for {
		changed := h.nextWorks()
		var again <-chan time.Time
		if err := h.abandon(ctx); err != nil && ctx.Err() == nil {
			if again = time.After(time.Second); err.Error() != logged {
				logged = err.Error()
				h.options.Log("failed to forget the works of removed clusters, retrying: %s", logged)
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
	for _, cluster := range clusters {
		if !h.options.Health.Leaving(cluster) {
			continue
		}
		if err := h.options.Forget(ctx, cluster); err != nil {
			return err
		}
		h.options.Log("forgot the works of %s", cluster)
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
