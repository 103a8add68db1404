// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"

	"github.com/spokewire/sdk-go/rsync/store"
)

// A rollout of a context that had no objects may end before it has begun with all clusters. On a
// cluster with which it has not begun, the context is absent: it holds no objects there, and no
// event deletes objects for it. The status of an app on a cluster records whether the app is absent
// there. It keeps the mark from event to event, until a rollout begins with the cluster. The mark
// counts while Partial is set in the record.

// storedStatus is the stored value of a status.
type storedStatus struct {
	ClusterStatus
	Absent bool `json:"absent,omitempty"`
}

// lacks reports whether an app is absent on a cluster, by the number and the mark of its last
// status there. The current event may have no status there yet.
func (r *record) lacks(seq uint64, absent bool) bool {
	return r.Partial && (absent || r.Fresh && r.Current != 0 && r.Current != seq)
}

// absentOn reads whether an app is absent on a cluster. kv is the status of the app there.
func (e *Engine) absentOn(ctx context.Context, n *neighbor, r *record) (absent bool, kv store.KeyValue, err error) {
	kv, s, err := get[storedStatus](ctx, e, statusKey(n.id, n.app, n.cluster))
	return err == nil && r.lacks(s.Seq, s.Absent), kv, err
}

// absences returns the apps that are absent, by cluster. The image must have their statuses.
func (img *image) absences() map[taskKey]bool {
	out := map[taskKey]bool{}
	if !img.record.Partial {
		return out
	}
	seqs := map[taskKey]uint64{}
	for i := range img.statuses {
		s := &img.statuses[i]
		seqs[taskKey{s.App, s.Cluster}] = s.Seq
	}
	for _, a := range img.head.Apps {
		for _, c := range a.Clusters {
			key := taskKey{a.Name, c}
			if img.record.lacks(seqs[key], img.absent[key]) {
				out[key] = true
			}
		}
	}
	return out
}

// partial returns the value of Partial after the begin of an event.
func (r *record) partial(e *Element) bool {
	if e.Event == Instantiate || e.Event == Update {
		return e.Rollout && (r.Partial || r.State.empty())
	}
	return r.Partial
}
