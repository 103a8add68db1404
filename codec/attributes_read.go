// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	cetypes "github.com/cloudevents/sdk-go/v2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reader reads the attributes of one event. It keeps the first error.
type reader struct {
	ext map[string]any
	err *Error
}

func (r *reader) fail(code Code, field, reason string) {
	if r.err == nil {
		r.err = &Error{Code: code, Field: field, Reason: reason}
	}
}

// lowerNames returns the extensions with names in lower case. Other transports may pass names in
// their original case. Of two names that differ only in case, the lower-case name counts.
func lowerNames(ext map[string]any) map[string]any {
	for name := range ext {
		if name == strings.ToLower(name) {
			continue
		}
		lower := make(map[string]any, len(ext))
		// Upper case sorts before lower case, so lower case is written last.
		for _, name := range slices.Sorted(maps.Keys(ext)) {
			lower[strings.ToLower(name)] = ext[name]
		}
		return lower
	}
	return ext
}

// text returns an attribute, or "" if the event does not have it.
func (r *reader) text(name string) string {
	v, ok := r.ext[name]
	if !ok {
		return ""
	}
	s, ok := v.(string)
	if !ok {
		if s, ok = formatAttribute(v); !ok {
			r.fail(CodeAttribute, name, "has a type that CloudEvents does not know")
			return ""
		}
	}
	if reason := checkText(s); reason != "" {
		r.fail(CodeAttribute, name, reason)
		return ""
	}
	return s
}

// id returns an identifier, or "" if the event does not have it.
func (r *reader) id(name string) string {
	s := r.text(name)
	if len(s) > MaxIDLength {
		r.fail(CodeAttribute, name, reasonLong)
		return ""
	}
	return s
}

// hash returns the status hash, or "" if the event does not have it.
func (r *reader) hash() string {
	s := r.text(attrStatusHash)
	if len(s) > MaxHashLength {
		r.fail(CodeAttribute, attrStatusHash, reasonLongHash)
		return ""
	}
	return s
}

// formatAttribute is cetypes.Format with exact numbers: cetypes.Format refuses numbers above 32
// bits and truncates fractions.
func formatAttribute(v any) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "", true
	case int64:
		return strconv.FormatInt(v, 10), true
	case int:
		return strconv.Itoa(v), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	case float64:
		if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
			return "", false
		}
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	s, err := cetypes.Format(v)
	return s, err == nil
}

// number returns a decimal number, or 0 if the event does not have it.
func (r *reader) number(name string) int64 {
	s := r.text(name)
	if s == "" {
		return 0
	}
	n, ok := parseNumber(s)
	if !ok {
		r.fail(CodeAttribute, name, "is not a decimal number from 0 to 2^63-1")
	}
	return n
}

// timestamp returns an RFC 3339 timestamp in whole seconds, or nil if the event does not have it.
func (r *reader) timestamp(name string) *metav1.Time {
	s := r.text(name)
	if s == "" {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		r.fail(CodeAttribute, name, "is not an RFC 3339 timestamp")
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	if t.IsZero() || !isRFC3339(t) {
		r.fail(CodeAttribute, name, reasonTime)
	}
	return &metav1.Time{Time: t}
}

// header reads the attributes that all events share and checks them against the topic.
func (r *reader) header(a address, ctx *ce.EventContextV1) Header {
	h := Header{ID: ctx.ID, Source: a.source, Cluster: a.cluster}
	if reason := checkText(ctx.ID); reason != "" {
		r.fail(CodeAttribute, "id", reason)
	}
	if ctx.Time != nil {
		h.Time = ctx.Time.UTC()
		if !isRFC3339(h.Time) {
			r.fail(CodeAttribute, "time", reasonTime)
		}
	}
	publisher := sourceID(ctx.Source.URL)
	if reason := checkText(publisher); reason != "" {
		r.fail(CodeAttribute, "source", reason)
	}
	switch {
	case a.kind == kindStatus, a.kind == kindSpecResync, a.kind == kindPresence && !a.ofSource:
		// Any ID is valid: the topic identifies the cluster, and agents that know only the
		// enhancement put the source's ID into their resyncs, as in its example.
		h.Agent = publisher
	case publisher != a.source:
		r.fail(CodeMismatch, "source", "is not the source that the topic names")
	}
	switch cluster := r.text(attrClusterName); {
	case cluster == "":
	case a.cluster == "": // a broadcast for one cluster
		if ValidateName("cluster", cluster) != nil {
			r.fail(CodeAttribute, attrClusterName, "is not a cluster name")
		}
		h.Cluster = cluster
	case cluster != a.cluster:
		r.fail(CodeMismatch, attrClusterName, "is not the cluster that the topic names")
	}
	h.ResyncID = r.id(attrResyncID)
	r.trace(&h)
	return h
}
