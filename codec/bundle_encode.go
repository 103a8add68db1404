// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/internal/workdata"
)

// bundleDraft has the parts of an event of the profile ManifestBundle.
type bundleDraft struct {
	draft
	profile *manifestBundle
}

var _ drafter = &bundleDraft{}

// begin writes the attributes that all messages share. Two are present even if they are empty.
func (d *bundleDraft) begin(h *Header, originalSource string) {
	d.identity(h)
	for name, value := range map[string]string{attrClusterName: h.Cluster, attrOriginalSource: originalSource} {
		d.ext[name] = ""
		d.text(name, value)
	}
	d.trace(h)
}

// ref writes the identity of a work. Its version is a CloudEvents Integer of 32 bits.
func (d *bundleDraft) ref(w *WorkRef) {
	if w.ResourceID == "" {
		d.fail(CodeAttribute, attrResourceID, "is missing", nil)
	}
	d.id(attrResourceID, w.ResourceID)
	if len(w.Name) > MaxIDLength {
		d.fail(CodeAttribute, attrMetadata, "has a name that "+reasonLong, nil)
	}
	if w.Version < 0 || w.Version > math.MaxInt32 {
		d.fail(CodeAttribute, attrResourceVersion, "is not from 0 to 2^31-1", nil)
		return
	}
	d.ext[attrResourceVersion] = int32(w.Version)
}

// eventTypeOf sets the event type; an unknown action is an error.
func (d *bundleDraft) eventTypeOf(part string, action Action) {
	wire, ok := wireActions[action]
	if !ok {
		d.fail(CodeType, "type", "has an unknown action", nil)
	}
	d.eventType = bundleType + "." + part + "." + wire
}

func (d *bundleDraft) spec(m *Spec) {
	d.names(m.Source, m.Cluster, true, true)
	d.topic = d.profile.topic(address{kind: kindSpec, source: m.Source, cluster: m.Cluster})
	d.source = m.Source
	usual := ActionUpdate
	if m.DeletionTimestamp != nil {
		usual = ActionDelete
	}
	d.eventTypeOf("spec", cmp.Or(m.Action, usual))
	d.begin(&m.Header, "")
	d.ref(&m.WorkRef)
	if m.StatusSeq < 0 {
		d.fail(CodeAttribute, attrSequenceID, "must not be negative", nil)
	}
	if deletion := m.DeletionTimestamp; deletion != nil {
		if deletion.IsZero() || !isRFC3339(deletion.Time) {
			d.fail(CodeAttribute, attrDeletionTimestamp, reasonTime, nil)
		}
		d.ext[attrDeletionTimestamp] = deletion.UTC().Format(time.RFC3339)
	} else if m.Work == nil {
		d.fail(CodeData, "data", "is missing: only a deletion can do without a work", nil)
	}
	if d.err != nil {
		return
	}
	d.metadata(specMeta(m))
	if m.DeletionTimestamp == nil { // a deletion has no data
		d.bundle(&m.Work.Spec)
	}
}

func (d *bundleDraft) bundle(s *workv1.ManifestWorkSpec) {
	d.data = append(d.data, '{')
	d.manifests(s.Workload.Manifests)
	if s.DeleteOption != nil {
		d.json("deleteOption", s.DeleteOption)
	}
	if len(s.ManifestConfigs) > 0 {
		d.json("manifestConfigs", s.ManifestConfigs)
	}
	if s.Executor != nil {
		d.json("executer", s.Executor) // the spelling of the OCM SDK
	}
	d.data = append(d.data, '}')
}

// metadata writes the object's metadata, and the annotations for tracing again.
func (d *bundleDraft) metadata(m *metav1.ObjectMeta) {
	if !metaTimes(m) {
		d.fail(CodeAttribute, attrMetadata, "has a time that "+reasonTime, nil)
		return
	}
	d.jsonText(attrMetadata, m)
	d.jsonText(attrLogTracing, tracingOf(m))
}

// jsonText writes an attribute with JSON text as its value.
func (d *bundleDraft) jsonText(name string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		d.fail(CodeAttribute, name, "cannot be written as JSON", err)
		return
	}
	if checkText(string(text)) != "" { // JSON strings may have characters that attributes must not
		text = jsontext.AppendASCII(nil, text)
	}
	d.text(name, string(text))
}

func (d *bundleDraft) status(m *Status) {
	d.names(m.Source, m.Cluster, true, true)
	d.topic = d.profile.topic(address{kind: kindStatus, source: m.Source, cluster: m.Cluster})
	d.source = m.Agent
	d.eventTypeOf("status", cmp.Or(m.Action, ActionUpdate))
	d.begin(&m.Header, m.Source)
	d.ref(&m.WorkRef)
	if m.SequenceID <= 0 {
		d.fail(CodeAttribute, attrSequenceID, "is missing: peers require it", nil)
	}
	d.ext[attrSequenceID] = strconv.FormatInt(m.SequenceID, 10)
	status := m.Status
	if status == nil { // the format has no event that only acknowledges
		status = &workv1.ManifestWorkStatus{}
	}
	d.statusElements(status)
	if !statusTimes(status) {
		d.fail(CodeData, "data", "a condition's time "+reasonTime, nil)
	}
	if d.err != nil {
		return
	}
	hash := m.Hash
	if hash == "" {
		var err error
		if hash, err = bundleStatusHash(status); err != nil {
			d.fail(CodeData, "data", "cannot be hashed", err)
			return
		}
	}
	d.hash(hash)
	d.metadata(statusMeta(m))
	data, err := workdata.MarshalBundle(status)
	if err != nil {
		d.fail(CodeData, "data", "cannot be written as JSON", err)
	}
	d.data = data
}

func (d *bundleDraft) specResync(m *SpecResync) {
	broadcast := m.Broadcast || m.Source == ""
	d.names(m.Source, m.Cluster, !broadcast, true)
	d.topic = d.profile.topic(address{kind: kindSpecResync, source: m.Source, cluster: m.Cluster, broadcast: broadcast})
	d.eventType, d.source = bundleType+".spec."+wireResyncRequest, m.Agent
	if m.TargetSource != "" && (broadcast || m.TargetSource != m.Source) {
		d.fail(CodeMismatch, attrOriginalSource, "is not the source that the topic names", nil)
	}
	d.begin(&m.Header, m.TargetSource)
	// A source answers with all works that are not in the list.
	if m.Scope != ScopeAll {
		d.fail(CodeAttribute, attrResyncScope, "cannot be expressed: a list stands for all works", nil)
	}
	d.whole(&m.Header, m.Part, m.Chunk)
	d.list(listVersions, len(m.Entries), 64+128*len(m.Entries), func(i int) (string, string) {
		e := &m.Entries[i]
		d.data = jsontext.AppendString(append(d.data, `{"resourceID":`...), e.ResourceID)
		d.data = strconv.AppendInt(append(d.data, `,"resourceVersion":`...), e.Version, 10)
		d.data = append(d.data, '}')
		return checkEntry(e, specEntry)
	})
}

func (d *bundleDraft) statusResync(m *StatusResync) {
	broadcast := m.Broadcast || m.Cluster == ""
	d.names(m.Source, m.Cluster, true, !broadcast)
	d.topic = d.profile.topic(address{kind: kindStatusResync, source: m.Source, cluster: m.Cluster, broadcast: broadcast})
	d.eventType, d.source = bundleType+".status."+wireResyncRequest, m.Source
	d.begin(&m.Header, "")
	// An agent answers for the works in the list, or for all works if it is empty. So ScopeListed
	// needs at least one entry.
	if m.Scope == ScopeLists || m.Scope == ScopeDigest || m.Scope != ScopeAll && len(m.Entries) == 0 {
		d.fail(CodeAttribute, attrResyncScope, "cannot be expressed: an empty list stands for all works", nil)
	}
	d.whole(&m.Header, m.Part, m.Chunk)
	d.list(listHashes, len(m.Entries), 64+128*len(m.Entries), func(i int) (string, string) {
		e := &m.Entries[i]
		d.data = jsontext.AppendString(append(d.data, `{"resourceID":`...), e.ResourceID)
		d.data = jsontext.AppendString(append(d.data, `,"statusHash":`...), e.Hash)
		d.data = append(d.data, '}')
		return checkEntry(e, statusEntry)
	})
}

// digest returns an error: no reader of the format knows digests.
func (d *bundleDraft) digest(*Digest) {
	d.fail(CodeType, "type", "cannot be expressed: the profile has no digests", nil)
}

func (d *bundleDraft) presence(m *Presence) {
	d.draftPresence(m, d.profile.PresenceFilter(m.Source, m.Cluster), bundleType+"."+wirePresence)
}

// whole writes the attributes of a chunk, which the OCM SDK ignores: it treats each chunk as a list
// of its own. A request about a part of the works is refused.
func (d *bundleDraft) whole(h *Header, p Part, c Chunk) {
	if c != (Chunk{}) {
		d.id(attrResyncID, h.ResyncID)
		d.chunk(h, c)
	}
	if !p.IsZero() {
		d.fail(CodeAttribute, attrBuckets, "cannot be expressed: a list stands for all works", nil)
	}
}
