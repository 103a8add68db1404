// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
)

// The attributes that only a [Presence] has.
const (
	attrSession = "session"
	attrStarted = "started"
	attrLeaving = "leaving"

	wirePresence = "presence"
	typePresence = "io.open-cluster-management.v1.manifestwork." + wirePresence
)

// isPresence reports whether the event type of any profile is that of a [Presence].
func isPresence(eventType string) bool {
	return eventType == typePresence || eventType == bundleType+"."+wirePresence
}

// IsPresence reports whether an event of any profile is a [Presence], by its type alone.
func IsPresence(e *ce.Event) bool { return e != nil && isPresence(e.Type()) }

func (manifestWork) PresenceFilter(source, cluster string) string {
	return presenceTopic(source, cluster)
}

func presenceTopic(source, cluster string) string {
	if source != "" {
		return "/sources/" + source + "/" + wirePresence
	}
	return "/clusters/" + cluster + "/" + wirePresence
}

func (p *manifestBundle) PresenceFilter(source, cluster string) string {
	if source != "" {
		return p.sources + "/" + source + "/" + wirePresence
	}
	return p.clusters + "/" + cluster + "/" + wirePresence
}

func (d *draft) presence(m *Presence) {
	d.draftPresence(m, presenceTopic(m.Source, m.Cluster), typePresence)
}

func (d *bundleDraft) presence(m *Presence) {
	d.draftPresence(m, d.profile.PresenceFilter(m.Source, m.Cluster), bundleType+"."+wirePresence)
}

// draftPresence drafts the message of a process about itself.
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

// presence reads the message of a process about itself.
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
