// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"errors"
	"math"

	ce "github.com/cloudevents/sdk-go/v2/event"
	cetypes "github.com/cloudevents/sdk-go/v2/types"
	workv1 "open-cluster-management.io/api/work/v1"
)

// ManifestWork is the profile of the event based ManifestWork enhancement, and the default. It has
// topics with a leading slash, one event type per kind of event, and attributes in lower case. It
// is compatible with peers that know only the enhancement, in both directions.
var ManifestWork Profile = manifestWork{}

// Event types of the profile. A spec event is always sent as created, also for updates and
// deletions. The other two are read from peers that distinguish them.
const (
	typeSpecCreated  = "io.open-cluster-management.v1.manifestwork.spec.created"
	typeSpecUpdated  = "io.open-cluster-management.v1.manifestwork.spec.updated"
	typeSpecDeleted  = "io.open-cluster-management.v1.manifestwork.spec.deleted"
	typeStatus       = "io.open-cluster-management.v1.manifestwork.status.created"
	typeSpecResync   = "io.open-cluster-management.v1.manifestwork.spec" + resyncRequested
	typeStatusResync = "io.open-cluster-management.v1.manifestwork.status" + resyncRequested
	typeDigest       = "io.open-cluster-management.v1.manifestwork.digest"

	resyncRequested = "resync.requested"
)

type manifestWork struct{}

func (manifestWork) Name() string { return "ManifestWork" }

func (manifestWork) sealed() {}

func (manifestWork) Traits() Traits { return Traits{MaxVersion: math.MaxInt64} }

func (manifestWork) ResourceID(source, cluster, name string) string {
	return ResourceID(source, cluster, name)
}

func (manifestWork) StatusHash(status *workv1.ManifestWorkStatus) (string, error) {
	return StatusHash(status)
}

func (manifestWork) Encode(m Message) (string, *ce.Event, error) {
	d := &draft{ext: make(map[string]any, extensions(m))}
	return d.encode(m, d)
}

// extensions returns the largest number of extensions of a message. A map for eight is half as
// large as a map for nine.
func extensions(m Message) int {
	switch m := m.(type) {
	case *Spec:
		if m != nil && m.ResyncID == "" && m.TraceParent == "" {
			return 8
		}
	case *Status:
		if m != nil && m.ResyncID == "" && m.TraceParent == "" {
			return 8
		}
	}
	return 12
}

// drafter writes each kind of message of a profile to a draft.
type drafter interface {
	spec(*Spec)
	status(*Status)
	specResync(*SpecResync)
	statusResync(*StatusResync)
	digest(*Digest)
	presence(*Presence)
}

// encode writes m to the draft with as, and returns the topic and the event.
func (d *draft) encode(m Message, as drafter) (string, *ce.Event, error) {
	var h *Header
	switch m := m.(type) {
	case *Spec:
		if m != nil {
			h = &m.Header
			as.spec(m)
		}
	case *Status:
		if m != nil {
			h = &m.Header
			as.status(m)
		}
	case *SpecResync:
		if m != nil {
			h = &m.Header
			as.specResync(m)
		}
	case *StatusResync:
		if m != nil {
			h = &m.Header
			as.statusResync(m)
		}
	case *Digest:
		if m != nil {
			h = &m.Header
			as.digest(m)
		}
	case *Presence:
		if m != nil {
			h = &m.Header
			as.presence(m)
		}
	}
	if h == nil {
		return "", nil, &Error{Code: CodeType, Reason: "the message is nil"}
	}
	if d.err != nil {
		d.err.EventID = h.ID
		return "", nil, d.err
	}
	return d.topic, d.event(h), nil
}

// draft has the parts of an event. It keeps the first error; later parts are then ignored.
type draft struct {
	topic     string
	eventType string
	// source is the CloudEvents source: the ID of the publisher.
	source string
	ext    map[string]any
	data   []byte
	// counted is the number of elements of the data.
	counted int
	err     *Error
}

func (d *draft) fail(code Code, field, reason string, cause error) {
	if d.err == nil {
		d.err = &Error{Code: code, Field: field, Reason: reason, Err: cause}
	}
}

// header checks and writes the attributes that all messages share.
func (d *draft) header(h *Header) {
	d.identity(h)
	d.text(attrClusterName, h.Cluster)
	d.id(attrResyncID, h.ResyncID)
	d.text(attrTraceParent, h.TraceParent)
}

// identity checks the attributes that every CloudEvent has; event writes them.
func (d *draft) identity(h *Header) {
	if h.ID == "" {
		d.fail(CodeAttribute, "id", "is missing", nil)
	} else if reason := checkText(h.ID); reason != "" {
		d.fail(CodeAttribute, "id", reason, nil)
	}
	if !isRFC3339(h.Time) {
		d.fail(CodeAttribute, "time", reasonTime, nil)
	}
	if d.source == "" {
		d.fail(CodeAttribute, "source", "is missing", nil)
	} else if reason := checkText(d.source); reason != "" {
		d.fail(CodeAttribute, "source", reason, nil)
	}
}

// names checks the parts of the topic. An empty name is valid only if the topic does not have it.
func (d *draft) names(source, cluster string, needSource, needCluster bool) {
	for _, n := range [...]struct {
		kind, name string
		need       bool
	}{{"source", source, needSource}, {"cluster", cluster, needCluster}} {
		if n.name == "" && !n.need {
			continue
		}
		var e *Error
		if err := ValidateName(n.kind, n.name); errors.As(err, &e) && d.err == nil {
			d.err = e
		}
	}
}

// event returns the event of the parts.
func (d *draft) event(h *Header) *ce.Event {
	ctx := &ce.EventContextV1{
		ID:     h.ID,
		Source: cetypes.URIRef{URL: sourceURI(d.source)},
		Type:   d.eventType,
	}
	if len(d.ext) > 0 {
		ctx.Extensions = d.ext
	}
	if !h.Time.IsZero() {
		ctx.Time = &cetypes.Timestamp{Time: h.Time.UTC()}
	}
	if d.data != nil {
		contentType := contentTypeJSON
		ctx.DataContentType = &contentType
	}
	return &ce.Event{Context: ctx, DataEncoded: d.data}
}

func (manifestWork) Decode(topic string, e *ce.Event) (Message, error) {
	m, err := decode(topic, e)
	return located(m, err, topic, e)
}

// located adds the topic and the ID of the event to an error.
func located(m Message, err *Error, topic string, e *ce.Event) (Message, error) {
	if err == nil {
		return m, nil
	}
	err.Topic = topic
	if e != nil && e.Context != nil {
		err.EventID = e.Context.GetID()
	}
	return m, err
}

func decode(topic string, e *ce.Event) (Message, *Error) {
	addr, err := parseTopic(topic)
	if err != nil {
		return nil, err
	}
	ctx, cause := contextV1(e)
	if cause != nil {
		errors.As(cause, &err)
		return nil, err
	}
	if !addr.carries(ctx.Type) {
		return nil, &Error{Code: CodeType, Field: "type", Reason: "is not one that belongs on this topic"}
	}
	r := &reader{ext: lowerNames(ctx.Extensions)}
	h := r.header(addr, ctx)
	switch addr.kind {
	case kindSpec:
		return r.spec(h, e, ctx)
	case kindStatus:
		return r.status(h, e, ctx)
	case kindSpecResync:
		if ctx.Type == typeDigest {
			return r.digest(h)
		}
		return r.specResync(h, addr, e, ctx)
	case kindPresence:
		return r.presence(h)
	default:
		return r.statusResync(h, addr, e, ctx)
	}
}
