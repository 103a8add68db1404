// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import "github.com/spokewire/sdk-go/cloudevents/work/internal/journal"

// ComparesAtOnce is the number of lists in a row that a source compares.
const ComparesAtOnce = comparesAtOnce

// State is the state of a source that its clientset does not show. Tests check it.
type State struct {
	// Works counts the works, tombstones included. Tombstones counts the tombstones at their
	// clusters, and Expiring those in the order of their expiry.
	Works, Tombstones, Expiring int
	// Orphans counts the works of clusters that the source does not have.
	Orphans int
	// Lists counts incomplete lists, RefusedStatuses the statuses that must be requested again.
	Lists, RefusedStatuses int
	Rivals                 int   // other processes with the ID
	Bytes                  int64 // that clusters are charged for
	Records                map[string]Record
}

// Record is the state of a work.
type Record struct {
	UID      string
	Version  int64
	Deleting bool
}

// State returns the state of the source.
func (s *Source) State() State {
	s.cache.Lock()
	defer s.cache.Unlock()
	state := State{
		Works: len(s.works), Expiring: s.tombstones.Len(), Bytes: s.budget.Used(), Records: map[string]Record{},
	}
	if s.presence != nil {
		state.Rivals = s.presence.CountLocked()
	}
	for _, c := range s.clusters {
		state.Tombstones += len(c.tombstones)
		state.Lists += len(c.lists)
		state.RefusedStatuses += len(c.delivery.refused)
	}
	for _, w := range s.works {
		if s.clusters[w.cluster.name] != w.cluster {
			state.Orphans++
		}
		state.Records[w.id] = Record{string(w.uid), w.version, w.phase.IsDeleting()}
	}
	return state
}

// KeptRecords returns the records that the store must have now, by key: values
// for encoding/json.
func (s *Source) KeptRecords() map[string]any {
	s.cache.Lock()
	defer s.cache.Unlock()
	out := map[string]any{journal.KeyMeta: (*sourceMeta)(s).Content()}
	for _, c := range s.clusters {
		if c.Content() != nil {
			out[journal.PrefixCluster+c.name] = c.Content()
		}
		for id, r := range c.reported.byID {
			if r.past {
				out[journal.PastKey(c.name, id)] = pastWork{c, id}.Content()
			}
		}
	}
	for _, f := range s.forgotten.byName {
		out[journal.PrefixCluster+f.name] = f.Content()
	}
	for _, w := range s.works {
		out[journal.WorkKey(w.cluster.name, w.id)] = w.Content()
	}
	return out
}

// SetMaxInbox sets the limit of queued events that a replica keeps for the leader, in bytes.
func (s *Source) SetMaxInbox(n int) {
	s.cache.Lock()
	defer s.cache.Unlock()
	s.replica.most = n
}
