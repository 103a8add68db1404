// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/spokewire/sdk-go/internal/workdata"
)

// storedAgentWork is the content of a work's record in the Store.
type storedAgentWork struct {
	agentRecord
	Object *workv1.ManifestWork `json:"object,omitempty"`
	// Shrunk is set in records of builds before the field Unsent: Problem is about the status.
	Shrunk bool `json:"shrunk,omitempty"`
}

// agentRecord is the part of an [agentWork] that the Store keeps.
type agentRecord struct {
	Name string `json:"name,omitempty"`
	// UID is the incarnation: the UID at the source. The object's UID is local.
	UID     types.UID `json:"uid,omitempty"`
	Version int64     `json:"version"`
	// Seq is the sequence of the last status. Inherited is whether it is from the source, not from
	// this process.
	Seq       int64               `json:"sequence,omitempty"`
	Inherited bool                `json:"inherited,omitempty"`
	Time      time.Time           `json:"time,omitzero"`
	State     protocol.AgentState `json:"state"`
	// Next is the spec to create when a deletion has ended, or when the name is free.
	Next *codec.Spec `json:"next,omitempty"`
	// Labels and Annotations are those that the source set last. Other keys belong to the agent.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Ahead is the object's generation minus the source's generation of the same spec.
	Ahead int64 `json:"generationAhead,omitempty"`
	// Reported is whether a nonempty status was published. Then an empty status is published too.
	Reported bool `json:"reported,omitempty"`
	// Problem is the condition for a spec that is not applied. Unsent is the condition for a status
	// that could not be published: it is reported in place of the status until the next one.
	Problem *metav1.Condition `json:"problem,omitempty"`
	Unsent  *metav1.Condition `json:"unsent,omitempty"`
	// Relearned is whether an earlier process may have applied the work: it first arrived in an
	// answer, and the agent's user has not written to it yet.
	Relearned bool `json:"relearned,omitempty"`
	// Refused is the size of the record with a spec that was refused for lack of room, in bytes.
	Refused int64     `json:"refused,omitempty"`
	Removed time.Time `json:"buried,omitzero"`
	// LastMeta is the metadata of a removed object, for profiles that send it. Created is the
	// creation time of the source's object; the agent's object has the time of its first
	// incarnation.
	LastMeta *metav1.ObjectMeta `json:"lastMetadata,omitempty"`
	Created  metav1.Time        `json:"created,omitzero"`
	// Trace is the trace of the last step of this version: that of the spec at first. Traced is whether
	// the next status needs a span.
	Trace  peer.Trace `json:"trace,omitempty"`
	Traced bool       `json:"traced,omitempty"`
}

var agentWorkMembers = workdata.Object[storedAgentWork]{
	{Name: "name", At: func(w *storedAgentWork) any { return &w.Name }},
	{Name: "uid", At: func(w *storedAgentWork) any { return &w.UID }},
	{Name: "version", At: func(w *storedAgentWork) any { return &w.Version }},
	{Name: "sequence", At: func(w *storedAgentWork) any { return &w.Seq }},
	{Name: "inherited", At: func(w *storedAgentWork) any { return &w.Inherited }},
	{Name: "time", At: func(w *storedAgentWork) any { return &w.Time }},
	{Name: "state", At: func(w *storedAgentWork) any { return (*int)(&w.State) }},
	{Name: "next", At: func(w *storedAgentWork) any { return &w.Next }},
	{Name: "labels", At: func(w *storedAgentWork) any { return &w.Labels }},
	{Name: "annotations", At: func(w *storedAgentWork) any { return &w.Annotations }},
	{Name: "generationAhead", At: func(w *storedAgentWork) any { return &w.Ahead }},
	{Name: "reported", At: func(w *storedAgentWork) any { return &w.Reported }},
	{Name: "problem", At: func(w *storedAgentWork) any { return &w.Problem }},
	{Name: "unsent", At: func(w *storedAgentWork) any { return &w.Unsent }},
	{Name: "relearned", At: func(w *storedAgentWork) any { return &w.Relearned }},
	{Name: "refused", At: func(w *storedAgentWork) any { return &w.Refused }},
	{Name: "buried", At: func(w *storedAgentWork) any { return &w.Removed }},
	{Name: "lastMetadata", At: func(w *storedAgentWork) any { return &w.LastMeta }},
	{Name: "created", At: func(w *storedAgentWork) any { return &w.Created }},
	{Name: "trace", At: func(w *storedAgentWork) any { return &w.Trace }},
	{Name: "traced", At: func(w *storedAgentWork) any { return &w.Traced }},
	{Name: "object", At: func(w *storedAgentWork) any { return &w.Object }},
	{Name: "shrunk", At: func(w *storedAgentWork) any { return &w.Shrunk }},
}

var (
	_ journal.Record = &agentWork{}
	_ journal.Record = &agentMeta{}
)

// keepLocked notes that the record has changed.
func (w *agentWork) keepLocked() {
	if j := w.source.records.journal; j != nil {
		w.saving.Change()
		j.MarkLocked(journal.WorkKey(w.source.name, w.id), w)
	}
}

func (r *records) keepMetaLocked() { r.journal.MarkLocked(journal.KeyMeta, (*agentMeta)(r)) }

// sendLocked puts the work into the outbox once its record is durable.
func (w *agentWork) sendLocked() {
	if w.saving.Send() {
		w.source.records.engine.Enqueue(engine.LaneLive, w)
	}
}

func (w *agentWork) Content() any {
	if !w.isRecordedLocked() {
		return nil
	}
	return &storedAgentWork{agentRecord: w.agentRecord, Object: w.Object}
}

// Saved puts the work into the outbox if it waited for its record to be durable.
func (w *agentWork) Saved() {
	if w.saving.Save() {
		w.source.records.engine.Enqueue(engine.LaneLive, w)
	}
}

// agentMeta is the record of the agent's state besides works.
type agentMeta records

func (m *agentMeta) Content() any {
	out := (*records)(m).ownMeta()
	out.ResourceVersion = m.cache.LastVersion()
	if m.cache.Held() {
		out.Synced, out.Sources = len(m.covered) > 0, m.covered
	} else {
		out.Synced, out.Sources = true, m.options.Sources
	}
	return &out
}

func (m *agentMeta) Saved() {}

func (r *records) ownMeta() journal.Meta {
	return journal.Meta{
		Format: journal.Format, Kind: "agent", Name: r.options.ClusterName, Profile: r.options.Profile.Name(),
	}
}

// load restores the records that an earlier process has left in the store.
func (r *records) load(ctx context.Context) error {
	r.cache.Lock()
	defer r.cache.Unlock()
	if err := journal.Load(ctx, r.options.Store, r.loadRecordLocked); err != nil {
		return err
	}
	slices.SortFunc(r.tombstones, func(a, b tombstone) int { return a.removed.Compare(b.removed) })
	for _, waiting := range r.waiting {
		slices.SortFunc(waiting, func(a, b *agentWork) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	return nil
}

func (r *records) loadRecordLocked(key string, value []byte) error {
	if key == journal.KeyMeta {
		return r.loadMetaLocked(value)
	}
	source, id, ok := journal.ParseKey(journal.PrefixWork, key)
	if !ok {
		return journal.ErrUnknownRecord
	}
	var stored storedAgentWork
	if err := workdata.Decode(value, &stored, agentWorkMembers); err != nil {
		return err
	}
	if stored.Shrunk {
		stored.Problem, stored.Unsent = nil, stored.Problem
	}
	r.restoreLocked(r.sourceLocked(source), id, &stored)
	return nil
}

func (r *records) loadMetaLocked(value []byte) error {
	var m journal.Meta
	if err := json.Unmarshal(value, &m); err != nil {
		return err
	}
	if err := m.Check(r.ownMeta()); err != nil {
		return err
	}
	r.cache.Begin(m.ResourceVersion)
	r.covered = m.Sources
	isNew := func(source string) bool { return !slices.Contains(m.Sources, source) }
	if m.Synced && !slices.ContainsFunc(r.options.Sources, isNew) {
		r.endSyncLocked()
	}
	return nil
}

// restoreLocked makes a work from its record.
func (r *records) restoreLocked(s *agentSource, id string, stored *storedAgentWork) {
	w := &agentWork{agentRecord: stored.agentRecord, source: s, id: id}
	s.works[id], s.used = w, true
	if w.UID != "" { // so it receives digests before its first event
		s.dialect = peer.DialectExtended
	}
	if stored.Refused > 0 {
		s.setRefusedLocked(w, stored.Refused)
	}
	defer w.accountLocked()
	switch {
	case stored.Object != nil:
		r.cache.Restore(w, stored.Object)
	case w.State == protocol.Tombstone:
		r.addTombstoneLocked(w)
	case w.Next != nil:
		r.waiting[w.Name] = append(r.waiting[w.Name], w)
	}
}
