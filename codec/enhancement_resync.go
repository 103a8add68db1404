// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"math"

	ce "github.com/cloudevents/sdk-go/v2/event"
)

func (d *enhancementDraft) specResync(m *SpecResync) {
	// Only the topic of all sources has no source.
	broadcast := m.Broadcast || m.Source == ""
	d.names(m.Source, m.Cluster, !broadcast, true)
	d.topic = address{kind: kindSpecResync, source: m.Source, cluster: m.Cluster, broadcast: broadcast}.topic()
	d.eventType, d.source = typeSpecResync, m.Agent
	d.header(&m.Header)
	d.id(attrAgentSession, m.AgentSession)
	target := m.TargetSource
	switch {
	case target == "" && broadcast:
		target = m.Source // the topic does not have it
	case target != "" && m.Source != "" && target != m.Source:
		d.fail(CodeMismatch, attrTargetSource, "is not the source that the message is for", nil)
	case target != "":
		if ValidateName("source", target) != nil {
			d.fail(CodeAttribute, attrTargetSource, "is not a source ID", nil)
		}
	}
	d.text(attrTargetSource, target)
	if m.Scope == ScopeLists || m.Scope == ScopeDigest {
		d.fail(CodeAttribute, attrResyncScope, "is for status resyncs only", nil)
	}
	d.request(&m.Header, m.Scope, m.Chunk)
	d.part(m.Part)
	// Without entries there is no data: in the enhancement an empty payload requests everything.
	if d.err == nil && len(m.Entries) > 0 {
		draftEntries(&d.draft, listVersions, m.Entries, specEntry)
	}
}

func (d *enhancementDraft) statusResync(m *StatusResync) {
	// On the topic of all agents, clustername identifies the agent of the hashes, if they are for
	// one agent.
	broadcast := m.Broadcast || m.Cluster == ""
	d.names(m.Source, m.Cluster, true, !broadcast)
	d.topic = address{kind: kindStatusResync, source: m.Source, cluster: m.Cluster, broadcast: broadcast}.topic()
	d.eventType, d.source = typeStatusResync, m.Source
	d.header(&m.Header)
	d.request(&m.Header, m.Scope, m.Chunk)
	if m.Scope == ScopeDigest && (broadcast || m.Part.Buckets == 0) {
		d.fail(CodeAttribute, attrResyncScope, "needs one cluster and a number of buckets", nil)
	}
	d.part(m.Part)
	if d.err == nil && len(m.Entries) > 0 {
		draftEntries(&d.draft, listHashes, m.Entries, statusEntry)
	}
}

// request writes the attributes of both kinds of request.
func (d *enhancementDraft) request(h *Header, scope Scope, chunk Chunk) {
	if !scope.known() {
		d.fail(CodeAttribute, attrResyncScope, "is unknown", nil)
	}
	d.text(attrResyncScope, string(scope))
	d.chunk(h, chunk)
}

// chunk writes the attributes of a chunk, except its resync ID.
func (d *draft) chunk(h *Header, chunk Chunk) {
	switch {
	case chunk == Chunk{}:
		return
	case chunk.Count < 0 || chunk.Count > math.MaxInt32:
		d.fail(CodeAttribute, attrChunkCount, "is not from 0 to 2^31-1", nil)
	case chunk.Index < 0 || chunk.Index >= chunk.Count:
		d.fail(CodeAttribute, attrChunkIndex, "is not below chunkcount", nil)
	case h.ResyncID == "": // only the ID links the chunks
		d.fail(CodeAttribute, attrResyncID, "is missing: a chunk needs it", nil)
	}
	d.number(attrChunkIndex, int64(chunk.Index))
	d.number(attrChunkCount, int64(chunk.Count))
}

func (r *enhancementReader) specResync(h Header, a address, e *ce.Event, ctx *ce.EventContextV1) (Message, *Error) {
	m := &SpecResync{
		Header:       h,
		AgentSession: r.id(attrAgentSession),
		TargetSource: r.text(attrTargetSource),
		Broadcast:    a.broadcast,
	}
	switch {
	case m.TargetSource == "":
	case !a.broadcast && m.TargetSource != a.source:
		r.fail(CodeMismatch, attrTargetSource, "is not the source that the topic names")
	case ValidateName("source", m.TargetSource) != nil:
		r.fail(CodeAttribute, attrTargetSource, "is not a source ID")
	default:
		m.Source = m.TargetSource
	}
	m.Scope, m.Chunk = r.request(&h)
	m.Part = r.part()
	if m.Scope == ScopeLists || m.Scope == ScopeDigest {
		r.fail(CodeAttribute, attrResyncScope, "is for status resyncs only")
	}
	if r.err != nil {
		return nil, r.err
	}
	var err *Error
	if m.Entries, err = readEntries(e, ctx, listVersions, specEntry); err != nil {
		return nil, err
	}
	return m, nil
}

func (r *enhancementReader) statusResync(h Header, a address, e *ce.Event, ctx *ce.EventContextV1) (Message, *Error) {
	m := &StatusResync{Header: h, Broadcast: a.broadcast}
	m.Scope, m.Chunk = r.request(&h)
	m.Part = r.part()
	if m.Scope == ScopeDigest && (a.broadcast || m.Part.Buckets == 0) {
		r.fail(CodeAttribute, attrResyncScope, "needs one cluster and a number of buckets")
	}
	if r.err != nil {
		return nil, r.err
	}
	var err *Error
	if m.Entries, err = readEntries(e, ctx, listHashes, statusEntry); err != nil {
		return nil, err
	}
	return m, nil
}

// request reads the attributes of both kinds of request. An unknown scope is an error: with
// ScopeAll, works without an entry would count as missing.
func (r *enhancementReader) request(h *Header) (Scope, Chunk) {
	scope := Scope(r.text(attrResyncScope))
	if !scope.known() {
		r.fail(CodeAttribute, attrResyncScope, "is unknown")
	}
	return scope, r.chunk(h)
}

// chunk reads the attributes of a chunk.
func (r *reader) chunk(h *Header) Chunk {
	// Readers may allocate a table of this size.
	index, count := r.number(attrChunkIndex), r.number(attrChunkCount)
	switch {
	case index == 0 && count == 0:
	case count > math.MaxInt32:
		r.fail(CodeAttribute, attrChunkCount, "is not from 0 to 2^31-1")
	case index >= count:
		r.fail(CodeAttribute, attrChunkIndex, "is not below chunkcount")
	case h.ResyncID == "":
		r.fail(CodeAttribute, attrResyncID, "is missing: a chunk needs it")
	}
	return Chunk{Index: int(index), Count: int(count)}
}
