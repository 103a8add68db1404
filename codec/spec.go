// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
)

// spec drafts a spec event.
func (d *draft) spec(m *Spec) {
	d.names(m.Source, m.Cluster, true, true)
	d.topic = address{kind: kindSpec, source: m.Source, cluster: m.Cluster}.topic()
	d.eventType, d.source = typeSpecCreated, m.Source
	d.header(&m.Header)
	d.ref(&m.Header, &m.WorkRef, attrResourceID, attrResourceVersion)
	d.id(attrAgentSession, m.AgentSession)
	d.optionalNumber(attrStatusSeq, m.StatusSeq)
	if m.DeletionTimestamp == nil && m.nameless() {
		d.fail(CodeMismatch, attrResourceID, reasonForeign, nil)
	}
	if m.DeletionTimestamp != nil {
		// A zero time would be a deletion here, but not for metav1.Time.IsZero.
		if m.DeletionTimestamp.IsZero() || !isRFC3339(m.DeletionTimestamp.Time) {
			d.fail(CodeAttribute, attrDeletionTimestamp, reasonTime, nil)
		}
		d.ext[attrDeletionTimestamp] = m.DeletionTimestamp.UTC().Format(time.RFC3339)
	}
	if d.err != nil {
		return // the manifests are not encoded
	}
	switch {
	case m.Work != nil:
		d.work(m.Work, m.DeletionTimestamp != nil)
	case m.DeletionTimestamp == nil:
		d.fail(CodeData, "data", "is missing: only a deletion can do without a work", nil)
	}
}

// spec reads a spec event.
func (r *reader) spec(h Header, e *ce.Event, ctx *ce.EventContextV1) (Message, *Error) {
	m := &Spec{
		Header:            h,
		WorkRef:           r.ref(&h, attrResourceID, attrResourceVersion),
		DeletionTimestamp: r.timestamp(attrDeletionTimestamp),
		AgentSession:      r.id(attrAgentSession),
		StatusSeq:         r.number(attrStatusSeq),
	}
	if m.DeletionTimestamp == nil && m.nameless() {
		r.fail(CodeMismatch, attrResourceID, reasonForeign)
	}
	if r.err != nil {
		return nil, r.err
	}
	// The attributes are valid: the event is from this source and about this work. If the data is
	// invalid, the caller receives the message in addition to the error, to report it to the
	// source.
	data, err := payload(e, ctx)
	if err != nil {
		return m, err
	}
	if m.Work, err = readWork(data, m.DeletionTimestamp != nil); err != nil {
		return m, err
	}
	m.Work.Name, m.Work.Namespace = m.Name, m.Cluster
	return m, nil
}

const reasonTime = "is zero or not within the years 0 to 9999 of UTC"

// isRFC3339 reports whether RFC 3339 can express the time's year in UTC.
func isRFC3339(t time.Time) bool {
	year := t.UTC().Year()
	return 0 <= year && year <= 9999
}

// payload returns the event's data without surrounding space, or nil if it is empty or null.
func payload(e *ce.Event, ctx *ce.EventContextV1) ([]byte, *Error) {
	data := bytes.Trim(e.DataEncoded, " \t\r\n")
	switch {
	case len(data) == 0 || isNull(data):
		return nil, nil
	case ctx.DataContentType != nil && !isJSONType(*ctx.DataContentType):
		return nil, &Error{Code: CodeData, Field: "datacontenttype", Reason: "must be " + contentTypeJSON}
	}
	return data, nil
}
