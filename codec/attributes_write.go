// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"strconv"

	ce "github.com/cloudevents/sdk-go/v2/event"
	cetypes "github.com/cloudevents/sdk-go/v2/types"
)

// draft has the parts of an event. It keeps the first error.
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
	d.trace(h)
}

// identity checks the attributes that every CloudEvent has; event writes them.
func (d *draft) identity(h *Header) {
	d.required("id", h.ID)
	if !isRFC3339(h.Time) {
		d.fail(CodeAttribute, "time", reasonTime, nil)
	}
	d.required("source", d.source)
}

func (d *draft) required(name, value string) {
	if value == "" {
		d.fail(CodeAttribute, name, "is missing", nil)
	} else if reason := checkText(value); reason != "" {
		d.fail(CodeAttribute, name, reason, nil)
	}
}

// names checks the parts of the topic. An empty name is valid only if the topic does not have it.
func (d *draft) names(source, cluster string, needSource, needCluster bool) {
	for _, n := range [...]struct {
		kind, name string
		need       bool
	}{{"source", source, needSource}, {"cluster", cluster, needCluster}} {
		if d.err == nil && (n.name != "" || n.need) {
			d.err = checkName(n.kind, n.name)
		}
	}
}

// text writes an attribute, unless it is empty.
func (d *draft) text(name, value string) {
	if value == "" {
		return
	}
	if reason := checkText(value); reason != "" {
		d.fail(CodeAttribute, name, reason, nil)
		return
	}
	d.ext[name] = value
}

// hash writes a status hash, unless it is empty.
func (d *draft) hash(value string) {
	if len(value) > MaxHashLength {
		d.fail(CodeAttribute, attrStatusHash, reasonLongHash, nil)
		return
	}
	d.text(attrStatusHash, value)
}

// id writes an attribute that identifies something, unless it is empty.
func (d *draft) id(name, value string) {
	if len(value) > MaxIDLength {
		d.fail(CodeAttribute, name, reasonLong, nil)
		return
	}
	d.text(name, value)
}

// number writes an attribute as a decimal string: 64 bits do not fit a CloudEvents Integer.
func (d *draft) number(name string, value int64) {
	if value < 0 {
		d.fail(CodeAttribute, name, "must not be negative", nil)
		return
	}
	d.ext[name] = strconv.FormatInt(value, 10)
}

// optionalNumber writes an attribute, unless it is 0.
func (d *draft) optionalNumber(name string, value int64) {
	if value != 0 {
		d.number(name, value)
	}
}

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
