// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/rsync/store"
)

const forgottenPrefix = "/hub/forgotten/"

// ErrPresent is of a cluster that has a document, so that it cannot be forgotten.
var ErrPresent = errors.New("the cluster has a document: only one that was removed can be forgotten")

// Forget gives up on a cluster that was removed and will not come back: nobody waits any more until its agent has cleaned up. That holds until there is a document of its
// name again. It returns ErrPresent, and [ErrNotFound] for a name of no cluster that anybody waits for.
func (h *Hub) Forget(ctx context.Context, cluster string) error {
	h.change.Lock()
	defer h.change.Unlock()
	if h.Documents().Document(document.ClusterKind, cluster) != nil {
		return ErrPresent
	}
	if awaited, err := h.awaited(ctx, cluster); err != nil {
		return err
	} else if !awaited {
		return fmt.Errorf("a removed cluster %q that is waited for: %w", cluster, ErrNotFound)
	}
	if _, err := h.options.Store.Txn(ctx, nil, []store.Op{store.Put(forgottenPrefix+cluster+"/", []byte("{}"))}); err != nil {
		return err
	}
	h.WorksChanged()
	return nil
}

// awaited reports whether a cluster has works, or is to have some of a revision, or is forgotten already.
func (h *Hub) awaited(ctx context.Context, cluster string) (bool, error) {
	for _, w := range h.options.Health.Works() {
		if w.Namespace == cluster {
			return true, nil
		}
	}
	forgotten, err := h.options.Store.Range(ctx, forgottenPrefix)
	if err != nil {
		return false, err
	}
	for _, kv := range forgotten.KVs {
		if kv.Key == forgottenPrefix+cluster+"/" {
			return true, nil
		}
	}
	applications, err := h.options.Rollouts.Applications(ctx)
	if err != nil {
		return false, err
	}
	for _, name := range applications {
		live, err := h.options.Rollouts.Live(ctx, name)
		if err != nil {
			return false, err
		}
		for _, c := range live {
			for id := range render.Identities(c.Apps) {
				if id.Cluster.Name == cluster {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// WorksChanged says that there is something new about works. It returns at once.
func (h *Hub) WorksChanged() {
	select {
	case h.works <- struct{}{}:
	default: // it is known already
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.news.Wake()
}

// giveUp lets go of the works of clusters that are forgotten, as they come to be deleted. What fails is tried again.
func (h *Hub) giveUp(ctx context.Context) error {
	said := ""
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.works:
		case <-again:
		}
		again = nil
		if err := h.abandon(ctx); err != nil && ctx.Err() == nil {
			if again = time.After(time.Second); err.Error() != said {
				said = err.Error()
				h.options.Say("the works of clusters that are forgotten are not let go, which is tried again: %s", said)
			}
		}
	}
}

// abandon lets go of the works of clusters that are forgotten which are being deleted.
func (h *Hub) abandon(ctx context.Context) error {
	result, err := h.options.Store.Range(ctx, forgottenPrefix)
	if err != nil {
		return err
	}
	for _, kv := range result.KVs {
		cluster := strings.TrimSuffix(strings.TrimPrefix(kv.Key, forgottenPrefix), "/")
		if !h.options.Health.Leaving(cluster) {
			continue
		}
		if err := h.options.Forget(ctx, cluster); err != nil {
			return err
		}
		h.options.Say("the works of %s, which is forgotten, are let go", cluster)
	}
	return nil
}

// remember ends that clusters are forgotten which have documents.
func (h *Hub) remember(ctx context.Context, set *document.Set) error {
	result, err := h.options.Store.Range(ctx, forgottenPrefix)
	if err != nil {
		return err
	}
	var ops []store.Op
	for _, kv := range result.KVs {
		if set.Document(document.ClusterKind, strings.TrimSuffix(strings.TrimPrefix(kv.Key, forgottenPrefix), "/")) != nil {
			ops = append(ops, store.Delete(kv.Key))
		}
	}
	if len(ops) == 0 {
		return nil
	}
	_, err = h.options.Store.Txn(ctx, nil, ops)
	return err
}
