// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// bundleStatusLocked adds the fields that a status needs in the profile ManifestBundle: a sequence and
// metadata.
func (w *agentWork) bundleStatusLocked(s *codec.Status) {
	if s.SequenceID == 0 { // no status was published before, and the format requires a sequence
		w.advance()
		s.SequenceID = w.Seq
	}
	meta := w.LastMeta
	if w.Object != nil {
		meta = &w.Object.ObjectMeta
	}
	if meta != nil {
		out := *meta
		out.CreationTimestamp = w.Created
		out.Generation -= w.Ahead
		s.Metadata = &out
	}
}

// cleanupOnly returns, of the finalizers in a spec, only the finalizer for the cleanup by an agent.
// The owners of the others are not on the cluster.
func cleanupOnly(finalizers []string) []string {
	if slices.Contains(finalizers, workv1.ManifestWorkFinalizer) {
		return []string{workv1.ManifestWorkFinalizer}
	}
	return nil
}

// onBundleHashes answers a source's request for statuses in the profile ManifestBundle. It sends
// the statuses that the source lacks, and a list. The list makes the source send the works that it
// wrote while either side was away.
//
// The list has only the works in the request. The source deletes unknown works, and right after a
// restart these may be works that its owner is about to create again.
func (a *Agent) onBundleHashes(s *agentSource, m *codec.StatusResync) {
	if len(m.Entries) == 0 {
		for _, w := range s.works {
			if w.State != protocol.Tombstone {
				w.advance()
				a.reply(w, "")
			}
		}
	} else {
		a.compare(s, m)
	}
	named := make(map[string]struct{}, len(m.Entries))
	for i := range m.Entries {
		named[m.Entries[i].ResourceID] = struct{}{}
	}
	a.sendList(engine.LaneBulk, &codec.SpecResync{
		Header: codec.Header{Source: s.name},
		// The name marks the list as an answer: the first list of a connection has no TargetSource.
		TargetSource: s.name,
		Entries: slices.DeleteFunc(s.entries(nil, codec.Part{}), func(e codec.SpecEntry) bool {
			_, ok := named[e.ResourceID]
			return !ok
		}),
	})
}
