// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// storedAgentWork is the record of a work or a tombstone.
type storedAgentWork struct {
	Name        string               `json:"name,omitempty"`
	UID         types.UID            `json:"uid,omitempty"`
	Version     int64                `json:"version"`
	Seq         int64                `json:"sequence,omitempty"`
	Inherited   bool                 `json:"inherited,omitempty"`
	Time        time.Time            `json:"time,omitzero"`
	State       protocol.AgentState  `json:"state"`
	Next        *codec.Spec          `json:"next,omitempty"`
	Labels      map[string]string    `json:"labels,omitempty"`
	Annotations map[string]string    `json:"annotations,omitempty"`
	Ahead       int64                `json:"generationAhead,omitempty"`
	Problem     *metav1.Condition    `json:"problem,omitempty"`
	Reported    bool                 `json:"reported,omitempty"`
	Shrunk      bool                 `json:"shrunk,omitempty"`
	Relearned   bool                 `json:"relearned,omitempty"`
	Refused     int64                `json:"refused,omitempty"`
	Removed     time.Time            `json:"buried,omitzero"`
	LastMeta    *metav1.ObjectMeta   `json:"lastMetadata,omitempty"`
	Created     *metav1.Time         `json:"created,omitempty"`
	Object      *workv1.ManifestWork `json:"object,omitempty"`
}

var (
	_ journal.Record = &agentWork{}
	_ journal.Record = &agentMeta{}
)

// keepLocked notes that the record of a work has changed.
func (a *Agent) keepLocked(w *agentWork) {
	if a.journal == nil {
		return
	}
	w.saving.Change()
	a.journal.MarkLocked(journal.WorkKey(w.source.name, w.id), w)
}

func (a *Agent) keepMeta() {
	if a.journal != nil {
		a.journal.MarkLocked(journal.KeyMeta, (*agentMeta)(a))
	}
}

// put replaces the object of a work.
func (a *Agent) put(w *agentWork, obj *workv1.ManifestWork) {
	a.cache.Put(w, obj)
	a.keepLocked(w)
}

// send puts a work into the outbox once its record is durable.
func (a *Agent) send(w *agentWork) {
	if w.saving.Send() {
		a.engine.Enqueue(engine.LaneLive, w)
	}
}

func (w *agentWork) Content() any {
	if w.source.works[w.id] != w {
		return nil
	}
	out := &storedAgentWork{
		Name: w.name, UID: w.uid, Version: w.version, Seq: w.seq, Inherited: w.inherited, Time: w.time, State: w.state,
		Next: w.next, Labels: w.labels, Annotations: w.annotations, Ahead: w.ahead, Problem: w.problem, Reported: w.reported,
		Shrunk: w.shrunk, Relearned: w.relearned, Refused: w.refused, Removed: w.removed, LastMeta: w.lastMeta,
		Object: w.Object,
	}
	if !w.created.IsZero() {
		created := w.created
		out.Created = &created
	}
	return out
}

// Saved puts the work into the outbox if it waited for its record to be durable.
func (w *agentWork) Saved() {
	if w.saving.Save() {
		w.agent.engine.Enqueue(engine.LaneLive, w)
	}
}

// agentMeta is the record of the agent's state besides works.
type agentMeta Agent

func (m *agentMeta) Content() any {
	out := (*Agent)(m).ownMeta()
	out.ResourceVersion = m.cache.LastVersion()
	if m.cache.Held() {
		out.Synced, out.Sources = len(m.covered) > 0, m.covered
	} else {
		out.Synced, out.Sources = true, m.options.Sources
	}
	return &out
}

func (m *agentMeta) Saved() {}

func (a *Agent) ownMeta() journal.Meta {
	return journal.Meta{
		Format: journal.Format, Kind: "agent", Name: a.options.ClusterName, Profile: a.options.Profile.Name(),
	}
}

// load restores the records that an earlier process has left in the store.
func (a *Agent) load(ctx context.Context) error {
	a.cache.Lock()
	defer a.cache.Unlock()
	err := a.options.Store.Load(ctx, func(key string, value []byte) error {
		if err := a.loadRecord(key, value); err != nil {
			return fmt.Errorf("record %q: %w", key, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(a.tombstones, func(a, b tombstone) int { return a.removed.Compare(b.removed) })
	for _, waiting := range a.waiting {
		slices.SortFunc(waiting, func(a, b *agentWork) int { return cmp.Compare(a.seq, b.seq) })
	}
	return nil
}

func (a *Agent) loadRecord(key string, value []byte) error {
	if key == journal.KeyMeta {
		var m journal.Meta
		if err := json.Unmarshal(value, &m); err != nil {
			return err
		}
		if err := m.Check(a.ownMeta()); err != nil {
			return err
		}
		a.cache.Begin(m.ResourceVersion)
		a.covered = m.Sources
		added := slices.ContainsFunc(a.options.Sources,
			func(source string) bool { return !slices.Contains(m.Sources, source) })
		if m.Synced && !added {
			a.endSyncLocked()
		}
		return nil
	}
	source, id, ok := journal.ParseKey(journal.PrefixWork, key)
	if !ok {
		return journal.ErrUnknownRecord
	}
	var stored storedAgentWork
	if err := json.Unmarshal(value, &stored); err != nil {
		return err
	}
	a.restore(a.sourceLocked(source), id, &stored)
	return nil
}

// restore makes a work from its record.
func (a *Agent) restore(s *agentSource, id string, stored *storedAgentWork) {
	w := &agentWork{
		agent: a, source: s, id: id, name: stored.Name,
		uid: stored.UID, version: stored.Version, seq: stored.Seq, inherited: stored.Inherited, time: stored.Time,
		state: stored.State, next: stored.Next, labels: stored.Labels, annotations: stored.Annotations,
		ahead:   stored.Ahead,
		problem: stored.Problem, reported: stored.Reported, shrunk: stored.Shrunk, relearned: stored.Relearned,
		removed: stored.Removed, lastMeta: stored.LastMeta,
	}
	if stored.Created != nil {
		w.created = *stored.Created
	}
	s.works[id], s.used = w, true
	if w.uid != "" { // so it receives digests before its first event
		s.dialect = peer.DialectExtended
	}
	if stored.Refused > 0 {
		w.setRefused(stored.Refused)
	}
	defer w.accountLocked()
	switch {
	case stored.Object != nil:
		a.cache.Restore(w, stored.Object)
	case w.state == protocol.Tombstone:
		a.addTombstoneLocked(w)
	case w.next != nil:
		a.waiting[w.name] = append(a.waiting[w.name], w)
	}
}
