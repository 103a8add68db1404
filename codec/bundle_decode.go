// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"math"
	"strings"

	ce "github.com/cloudevents/sdk-go/v2/event"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/workdata"
)

// bundleReader reads the attributes of one event of the profile ManifestBundle.
type bundleReader struct{ reader }

func (r *bundleReader) header(a address, ctx *ce.EventContextV1) Header {
	h := r.reader.header(a, ctx)
	h.ResyncID = "" // only chunks have it, so peers cannot return it in answers
	if original := r.text(attrOriginalSource); original != "" && a.source != "" && original != a.source {
		r.fail(CodeMismatch, attrOriginalSource, "is not the source that the topic names")
	}
	return h
}

// ref reads the identity of a work. The name is in the metadata, if there is any. A deletion may have
// no version: OCM's gRPC server deletes works that it does not know.
func (r *bundleReader) ref(meta *metav1.ObjectMeta) WorkRef {
	w := WorkRef{ResourceID: r.id(attrResourceID), Version: r.number(attrResourceVersion)}
	if w.ResourceID == "" {
		r.fail(CodeAttribute, attrResourceID, "is missing")
	}
	switch {
	case r.text(attrResourceVersion) == "" && r.text(attrDeletionTimestamp) == "":
		r.fail(CodeAttribute, attrResourceVersion, "is missing")
	case w.Version > math.MaxInt32:
		r.fail(CodeAttribute, attrResourceVersion, "is not from 0 to 2^31-1")
	}
	w.Name = w.ResourceID
	if meta != nil && meta.Name != "" {
		w.Name = meta.Name
	}
	return w
}

// metadata reads the object's metadata. It returns nil if the event carries none.
func (r *bundleReader) metadata() (*metav1.ObjectMeta, *Error) {
	text := r.text(attrMetadata)
	if text == "" || r.err != nil {
		return nil, nil
	}
	var m *metav1.ObjectMeta
	cause := utiljson.Unmarshal([]byte(text), &m)
	var reason string
	switch {
	case cause != nil:
		reason = "is not that of an object"
	case m == nil:
		return nil, nil
	case !metaTimes(m):
		reason = "has a time that " + reasonTime
	case len(m.Name) > MaxIDLength:
		reason = "has a name that " + reasonLong
	case m.Generation < 0:
		reason = "has a negative generation"
	default:
		m.ManagedFields = nil // they concern only the peer, and may have any size and times
		return m, nil
	}
	return nil, &Error{Code: CodeData, Field: attrMetadata, Reason: reason, Err: cause}
}

// tracing reads the annotations for tracing. It ignores invalid ones: they are for logs only.
func (r *bundleReader) tracing() map[string]string {
	var found map[string]string
	if err := utiljson.Unmarshal([]byte(r.text(attrLogTracing)), &found); err != nil {
		return nil
	}
	return found
}

// spec reads a spec event. It sets the same keys in the metadata as an agent of the OCM SDK.
func (r *bundleReader) spec(h Header, action Action, e *ce.Event, ctx *ce.EventContextV1) (Message, *Error) {
	meta, bad := r.metadata()
	m := &Spec{
		Header: h, WorkRef: r.ref(meta), Action: action,
		DeletionTimestamp: r.timestamp(attrDeletionTimestamp),
	}
	tracing := r.tracing()
	if r.err != nil {
		return nil, r.err
	}
	if bad != nil {
		return m, bad
	}
	data, err := payload(e, ctx)
	if err != nil {
		return m, err
	}
	w := &workv1.ManifestWork{}
	if m.DeletionTimestamp == nil {
		if w, err = readBundle(data); err != nil {
			return m, err
		}
	}
	if meta != nil {
		w.Labels, w.Annotations, w.OwnerReferences = meta.Labels, meta.Annotations, meta.OwnerReferences
		w.Generation, w.CreationTimestamp, w.Finalizers = meta.Generation, meta.CreationTimestamp, meta.Finalizers
		m.StatusSeq, _ = parseNumber(meta.Annotations[AnnotationSequenceID])
	}
	w.Name, w.Namespace = m.Name, m.Cluster
	if m.DeletionTimestamp != nil && (meta == nil || meta.Name == "") {
		w.Name = ""
	}
	if m.Version != 0 {
		w.Generation = m.Version // the version counts the writes of the spec
	}
	noteOrigin(&w.ObjectMeta, m.Source)
	for key, value := range tracing {
		if strings.HasPrefix(key, prefixTracing) {
			w.Annotations[key] = value
		}
	}
	m.Work = w
	return m, nil
}

func readBundle(data []byte) (*workv1.ManifestWork, *Error) {
	if data == nil {
		return nil, &Error{Code: CodeData, Field: "data", Reason: "is missing"}
	}
	w := &workv1.ManifestWork{}
	p := dataParser{Reader: newReader(data)}
	hasManifests := false
	for p.Open('{'); p.Member(); {
		switch string(p.Key) {
		case "manifests":
			hasManifests = true
			p.manifests(&w.Spec.Workload)
		case "deleteOption":
			readJSON(&p, "data.deleteOption", &w.Spec.DeleteOption)
		case "manifestConfigs":
			readJSON(&p, "data.manifestConfigs", &w.Spec.ManifestConfigs)
		case "executer":
			readJSON(&p, "data.executer", &w.Spec.Executor)
		default:
			p.Value()
		}
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	// An empty list would remove everything from the cluster.
	if !hasManifests {
		return nil, &Error{Code: CodeData, Field: "data.manifests", Reason: "is missing"}
	}
	return w, nil
}

func (r *bundleReader) status(h Header, action Action, e *ce.Event, ctx *ce.EventContextV1) (Message, *Error) {
	meta, bad := r.metadata()
	m := &Status{
		Header: h, WorkRef: r.ref(meta), Action: action, Metadata: meta,
		SequenceID: r.number(attrSequenceID), Hash: r.hash(),
	}
	if r.text(attrSequenceID) == "" {
		r.fail(CodeAttribute, attrSequenceID, "is missing")
	}
	if r.err != nil {
		return nil, r.err
	}
	if bad != nil {
		return nil, bad
	}
	data, err := payload(e, ctx)
	if err != nil || data == nil {
		return m, err
	}
	if m.Status, err = checkedStatus(workdata.UnmarshalBundle(data, statusLimits)); err != nil {
		return nil, err
	}
	return m, nil
}

// chunkOf reads the attributes of a chunk, with its resync ID.
func (r *bundleReader) chunkOf(h *Header) Chunk {
	h.ResyncID = r.id(attrResyncID)
	chunk := r.chunk(h)
	if chunk == (Chunk{}) {
		h.ResyncID = ""
	}
	return chunk
}

func (r *bundleReader) specResync(h Header, a address, e *ce.Event, ctx *ce.EventContextV1) (Message, *Error) {
	chunk := r.chunkOf(&h)
	m := &SpecResync{Header: h, Broadcast: a.broadcast, TargetSource: r.text(attrOriginalSource), Chunk: chunk}
	if target := m.TargetSource; target != "" {
		if ValidateName("source", target) != nil {
			r.fail(CodeAttribute, attrOriginalSource, "is not a source ID")
		}
		m.Source = target
	}
	if r.err != nil {
		return nil, r.err
	}
	var err *Error
	if m.Entries, err = readEntries(e, ctx, listVersions, specEntry); err != nil {
		return nil, err
	}
	for i := range m.Entries { // the format has only these two
		m.Entries[i] = SpecEntry{ResourceID: m.Entries[i].ResourceID, Version: m.Entries[i].Version}
	}
	return m, nil
}

func (r *bundleReader) statusResync(h Header, a address, e *ce.Event, ctx *ce.EventContextV1) (Message, *Error) {
	chunk := r.chunkOf(&h)
	m := &StatusResync{Header: h, Broadcast: a.broadcast, Chunk: chunk}
	if r.err != nil {
		return nil, r.err
	}
	var err *Error
	if m.Entries, err = readEntries(e, ctx, listHashes, statusEntry); err != nil {
		return nil, err
	}
	for i := range m.Entries {
		m.Entries[i] = StatusEntry{ResourceID: m.Entries[i].ResourceID, Hash: m.Entries[i].Hash}
	}
	return m, nil
}
