// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	ce "github.com/cloudevents/sdk-go/v2/event"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/workdata"
)

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
	canonical, err := writeStatus(status, workdata.Canonical)
	if err != nil {
		return "", &Error{Code: CodeData, Field: "data", Reason: "cannot be written as JSON", Err: err}
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

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
	data, err := writeStatus(m.Status, workdata.Marshal)
	if err != nil {
		d.fail(CodeData, "data", "cannot be written as JSON", err)
	}
	d.data = data
}

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
	if m.Status, err = checkedStatus(workdata.Unmarshal(data, statusLimits)); err != nil {
		return nil, err
	}
	return m, nil
}

// writeStatus writes a status if its times are valid.
func writeStatus(s *workv1.ManifestWorkStatus, write func(*workv1.ManifestWorkStatus) ([]byte, error)) ([]byte, error) {
	if !statusTimes(s) {
		return nil, errors.New("a condition's time " + reasonTime)
	}
	return write(s)
}
