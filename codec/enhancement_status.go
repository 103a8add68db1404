// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"

	ce "github.com/cloudevents/sdk-go/v2/event"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// statusData is the data of a status event: the API's status with the enhancement's names. Outer
// fields hide inner fields of the same name. Fields of a later API are included without a change
// here.
type statusData struct {
	workv1.ManifestWorkStatus
	Conditions     []metav1.Condition `json:"conditions"`
	ResourceStatus resourceStatusData `json:"resourceStatus"`
}

type resourceStatusData struct {
	workv1.ManifestResourceStatus
	ManifestConditions []workv1.ManifestCondition `json:"manifestConditions"`
}

// marshalStatus writes the data of a status event.
func marshalStatus(s *workv1.ManifestWorkStatus) ([]byte, error) {
	if !statusTimes(s) {
		return nil, errors.New("a condition's time " + reasonTime)
	}
	if !writesAll() {
		return marshalLater(s)
	}
	w := statusWriter{data: make([]byte, 0, statusSize(s))}
	w.status(s)
	return w.data, nil
}

// canonicalStatus writes the same data in the form of RFC 8785.
func canonicalStatus(s *workv1.ManifestWorkStatus) ([]byte, error) {
	if !statusTimes(s) {
		return nil, errors.New("a condition's time " + reasonTime)
	}
	if !writesAll() {
		data, err := marshalLater(s)
		if err != nil {
			return nil, err
		}
		c := newReader(data)
		return c.AppendCanonical(nil)
	}
	w := statusWriter{data: make([]byte, 0, statusSize(s)), canonical: true}
	w.status(s)
	return w.data, nil
}

// marshalLater writes a status of a later API that statusWriter does not support.
func marshalLater(s *workv1.ManifestWorkStatus) ([]byte, error) {
	data := statusData{ManifestWorkStatus: *s, Conditions: s.Conditions}
	data.ResourceStatus.ManifestResourceStatus = s.ResourceStatus
	data.ResourceStatus.Manifests = nil
	if data.Conditions == nil {
		data.Conditions = []metav1.Condition{}
	}
	data.ResourceStatus.ManifestConditions = presentConditions(s.ResourceStatus.Manifests)
	return json.Marshal(data)
}

// presentConditions returns the list, and the conditions of each entry, without nil: the API
// requires them, and some stores return an empty list as nil. It does not change list.
func presentConditions(list []workv1.ManifestCondition) []workv1.ManifestCondition {
	out := list
	for i := range list {
		if list[i].Conditions != nil {
			continue
		}
		if &out[0] == &list[0] {
			out = slices.Clone(list)
		}
		out[i].Conditions = []metav1.Condition{}
	}
	if out == nil {
		out = []workv1.ManifestCondition{}
	}
	return out
}

// readStatus reads the data of a status event. It accepts the API's own names as well.
func readStatus(raw []byte) (*workv1.ManifestWorkStatus, *Error) {
	if s, ok := parseStatus(raw); ok {
		return checkedStatus(s, nil)
	}
	return checkedStatus(reflectStatus(raw))
}

// reflectStatus reads data that parseStatus does not support.
func reflectStatus(raw []byte) (*workv1.ManifestWorkStatus, error) {
	var data statusData
	if err := unmarshalObject(raw, &data); err != nil {
		return nil, err
	}
	s := data.ManifestWorkStatus
	s.Conditions = data.Conditions
	s.ResourceStatus = data.ResourceStatus.ManifestResourceStatus
	if data.ResourceStatus.ManifestConditions != nil {
		s.ResourceStatus.Manifests = data.ResourceStatus.ManifestConditions
	}
	return &s, nil
}

// StatusHash returns the hash by which source and agent compare their statuses: the SHA-256, in
// lower-case hex, of the status event's data in RFC 8785 form. A nil status counts as an empty one.
// RFC 8785 has numbers as doubles only: different integers beyond 2^53 have the same hash if they
// are the same double.
//
// It returns an error if the status cannot be written as JSON, such as one with a time after the
// year 9999.
func StatusHash(status *workv1.ManifestWorkStatus) (string, error) {
	if status == nil {
		status = &workv1.ManifestWorkStatus{}
	}
	canonical, err := canonicalStatus(status)
	if err != nil {
		return "", &Error{Code: CodeData, Field: "data", Reason: "cannot be written as JSON", Err: err}
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// status drafts a status event.
func (d *enhancementDraft) status(m *Status) {
	d.names(m.Source, m.Cluster, true, true)
	d.topic = address{kind: kindStatus, source: m.Source, cluster: m.Cluster}.topic()
	d.eventType, d.source = typeStatus, m.Agent
	d.header(&m.Header)
	d.ref(&m.Header, &m.WorkRef, attrSpecResourceID, attrSpecResourceVersion)
	d.number(attrSpecResouceVersion, m.Version)
	d.optionalNumber(attrSequenceID, m.SequenceID)
	d.hash(m.Hash)
	if m.Status == nil || d.err != nil {
		return
	}
	d.statusElements(m.Status)
	data, err := marshalStatus(m.Status)
	if err != nil {
		d.fail(CodeData, "data", "cannot be written as JSON", err)
	}
	d.data = data
}

// status reads a status event.
func (r *enhancementReader) status(h Header, e *ce.Event, ctx *ce.EventContextV1) (Message, *Error) {
	m := &Status{
		Header:     h,
		WorkRef:    r.ref(&h, attrSpecResourceID, attrSpecResourceVersion, attrSpecResouceVersion),
		SequenceID: r.number(attrSequenceID),
		Hash:       r.hash(),
	}
	if r.err != nil {
		return nil, r.err
	}
	data, err := payload(e, ctx)
	if err != nil {
		return nil, err
	}
	if data == nil {
		return m, nil
	}
	if m.Status, err = readStatus(data); err != nil {
		return nil, err
	}
	return m, nil
}
