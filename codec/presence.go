// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import "time"

// wirePresence is the last level of the topics of a [Presence], and the end of its event type.
const wirePresence = "presence"

func (d *draft) draftPresence(m *Presence, topic, eventType string) {
	d.topic, d.eventType = topic, eventType
	d.source = m.Agent
	switch {
	case m.Cluster == "":
		d.source = m.Source
		d.names(m.Source, "", true, false)
	case m.Source != "":
		d.fail(CodeMismatch, attrClusterName, "must be empty in the presence of a source", nil)
	default:
		d.names("", m.Cluster, false, true)
	}
	d.header(&m.Header)
	if m.Session == "" {
		d.fail(CodeAttribute, attrSession, "is missing", nil)
	}
	d.id(attrSession, m.Session)
	if m.Started.IsZero() || !isRFC3339(m.Started) {
		d.fail(CodeAttribute, attrStarted, reasonTime, nil)
	}
	d.text(attrStarted, m.Started.UTC().Format(time.RFC3339Nano))
	if m.Leaving {
		d.text(attrLeaving, "true")
	}
}

func (r *reader) presence(h Header) (Message, *Error) {
	m := &Presence{Header: h, Session: r.id(attrSession)}
	if m.Session == "" {
		r.fail(CodeAttribute, attrSession, "is missing")
	}
	started, err := time.Parse(time.RFC3339Nano, r.text(attrStarted))
	if m.Started = started.UTC(); err != nil || m.Started.IsZero() || !isRFC3339(m.Started) {
		r.fail(CodeAttribute, attrStarted, reasonTime)
	}
	switch leaving := r.text(attrLeaving); leaving {
	case "", "false":
	case "true":
		m.Leaving = true
	default:
		r.fail(CodeAttribute, attrLeaving, "is not true or false")
	}
	if r.err != nil {
		return nil, r.err
	}
	return m, nil
}
