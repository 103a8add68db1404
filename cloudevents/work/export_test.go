// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"maps"
	"slices"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/agent"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/source"
)

// ComparesAtOnce is the number of lists in a row that a source compares.
const ComparesAtOnce = source.ComparesAtOnce

// StateOf returns the state of a source that its clientset does not show.
func StateOf(s *Source) source.State { return s.source.State() }

// StateOfAgent returns the state of an agent that its clientset does not show.
func StateOfAgent(a *Agent) agent.State { return a.agent.State() }

// Record is the state of a work that the clientset does not show.
type Record struct {
	UID     string // the incarnation
	Version int64
	// Leaving is whether the work is deleted. For an agent, it is whether the work is being deleted
	// or is a tombstone.
	Leaving, Tombstone bool
}

// SourceRecords returns a source's records by resource ID.
func SourceRecords(s *Source) map[string]Record {
	out := map[string]Record{}
	for id, r := range StateOf(s).Records {
		out[id] = Record{UID: r.UID, Version: r.Version, Leaving: r.Deleting}
	}
	return out
}

// AgentRecords returns an agent's records by resource ID.
func AgentRecords(a *Agent) map[string]Record {
	out := map[string]Record{}
	for id, r := range StateOfAgent(a).Records {
		out[id] = Record{UID: r.UID, Version: r.Version, Leaving: r.Phase != protocol.Held,
			Tombstone: r.Phase == protocol.Tombstone}
	}
	return out
}

// CheckBudget returns an error if the bytes that an agent counts are not the sum of the records of
// its sources. No request may be queued.
func CheckBudget(a *Agent) error { return a.agent.CheckBudget() }

// SetMaxInbox sets the limit of queued events that a replica keeps for the leader, in bytes.
func SetMaxInbox(s *Source, n int) { s.source.SetMaxInbox(n) }

// Contents returns the values that the journal of an agent would encode now.
func Contents(a *Agent) []any { return slices.Collect(maps.Values(a.agent.KeptRecords())) }
