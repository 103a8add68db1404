// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"slices"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// strictStatusLocked adds what travels in a strict profile.
func (w *agentWork) strictStatusLocked(s *codec.Status) {
	if s.SequenceID == 0 { // nothing was published before, and the format requires one
		w.advance()
		s.SequenceID = w.seq
	}
	meta := w.lastMeta
	if w.Object != nil {
		meta = &w.Object.ObjectMeta
	}
	if meta != nil {
		out := *meta
		out.CreationTimestamp = w.created
		out.Generation -= w.ahead
		s.Metadata = &out
	}
}

// cleanupOnly leaves, of the finalizers that came with a spec, the one which says that an agent has something to clean
// up. Others are for somebody else to remove, who is not on the cluster.
func cleanupOnly(finalizers []string) []string {
	if slices.Contains(finalizers, workv1.ManifestWorkFinalizer) {
		return []string{workv1.ManifestWorkFinalizer}
	}
	return nil
}

// onStrictHashes answers a source's request for statuses in a strict profile: with the statuses that it lacks, and
// with a list, so that the source sends what it wrote while either was away.
//
// The list has only what the source has just named: it deletes what it does not know, and right after its own restart
// that may be works which its owner is about to create anew.
func (a *Agent) onStrictHashes(s *agentSource, m *codec.StatusResync) {
	if len(m.Entries) == 0 {
		for _, w := range s.works {
			if w.state != protocol.Tombstone {
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
	a.sendList(cloudevents.Bulk, &codec.SpecResync{
		Header: codec.Header{Source: s.name},
		// Named, so that the source knows it for an answer: the list that a connection begins with names none.
		TargetSource: s.name,
		Entries: slices.DeleteFunc(s.entries(nil, codec.Part{}), func(e codec.SpecEntry) bool {
			_, ok := named[e.ResourceID]
			return !ok
		}),
	})
}
