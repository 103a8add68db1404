// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
)

// State is the state of an agent that its clientset does not show. Tests check it.
type State struct {
	// Works counts the works of all Sources, tombstones included. Expiring counts the tombstones in
	// the order of their expiry.
	Sources, Works, Expiring int
	// Bytes is the charge for all sources, and NameBytes the part of it for their records.
	Bytes, NameBytes int64
	ResyncID         string // of the last list to all sources
	Session          string
	Records          map[string]Record
}

// Record is the state of a work.
type Record struct {
	Source, Name, UID string
	Version           int64
	Phase             protocol.AgentState
	Charged, Size     int64 // in bytes: the charge, and the current size
}

// State returns the state of the agent.
func (a *Agent) State() State {
	a.cache.Lock()
	defer a.cache.Unlock()
	state := State{
		Sources: len(a.records.sources), Expiring: len(a.records.tombstones),
		Bytes: a.records.budget.Used(), NameBytes: a.records.names.Used(),
		ResyncID: a.answers.resyncID, Session: a.session, Records: map[string]Record{},
	}
	for _, s := range a.records.sources {
		state.Works += len(s.works)
		for _, w := range s.works {
			size := w.sizeLocked()
			state.Records[w.id] = Record{s.name, w.Name, string(w.UID), w.Version, w.State, w.charged, size}
		}
	}
	return state
}

// KeptRecords returns the records that the store must have now, by key: values for encoding/json.
func (a *Agent) KeptRecords() map[string]any {
	a.cache.Lock()
	defer a.cache.Unlock()
	out := map[string]any{journal.KeyMeta: (*agentMeta)(&a.records).Content()}
	for _, s := range a.records.sources {
		for _, w := range s.works {
			out[journal.WorkKey(s.name, w.id)] = w.Content()
		}
	}
	return out
}

// CheckBudget returns an error if the charged bytes are not the sum of the records of the sources.
// No request may be queued.
func (a *Agent) CheckBudget() error {
	a.cache.Lock()
	defer a.cache.Unlock()
	total, refusals := int64(0), 0
	for name, s := range a.records.sources {
		refusals += len(s.refused)
		used, refused := int64(0), 0
		for id := range s.ask {
			used += askSize(id)
		}
		for _, w := range s.works {
			used += w.sizeLocked()
			if w.charged != w.sizeLocked() {
				return fmt.Errorf("work %s of source %s is charged %d bytes and has %d", w.Name, name, w.charged, w.sizeLocked())
			}
			if w.Refused > 0 {
				refused++
			}
		}
		if answer := a.answers.bySource[name]; answer != nil {
			used += answer.charged
		}
		if used != s.account.Used() || refused != len(s.refused) {
			return fmt.Errorf("source %s is charged %d bytes and has %d, and %d of %d refused works are known",
				name, s.account.Used(), used, len(s.refused), refused)
		}
		total += used + peer.SourceSize(name)
	}
	if refusals != a.records.refused {
		return fmt.Errorf("%d refused works are counted, the sources have %d", a.records.refused, refusals)
	}
	if used := a.records.budget.Used(); total != used {
		return fmt.Errorf("%d bytes are counted, and the sources have %d", used, total)
	}
	return nil
}
