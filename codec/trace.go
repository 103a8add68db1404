// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"regexp"
	"strings"
)

// MaxTraceState is the longest tracestate in bytes. The W3C recommendation Trace Context requires
// that at least as much is propagated.
const MaxTraceState = 512

var (
	// traceParent has version, trace ID, parent ID and flags.
	traceParent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
	// traceState is a list of up to 32 pairs.
	traceState = regexp.MustCompile(`^` + tracePair + `([ \t]*,[ \t]*` + tracePair + `){0,31}$`)
)

const tracePair = `[a-z0-9][a-z0-9_*/@-]*=[ -+\--<>-~]*[!-+\--<>-~]`

// ValidTrace returns copies of a valid traceparent and tracestate of the W3C recommendation Trace
// Context. An invalid one is empty, and so is the tracestate of an invalid traceparent. The copies do
// not keep longer strings in memory.
func ValidTrace(parent, state string) (validParent, validState string) {
	if parent == "" || !traceParent.MatchString(parent) || strings.HasPrefix(parent, "ff") ||
		strings.Count(parent[3:35], "0") == 32 || strings.Count(parent[36:52], "0") == 16 {
		return "", ""
	}
	if state == "" || len(state) > MaxTraceState || !traceState.MatchString(state) {
		return strings.Clone(parent), ""
	}
	return strings.Clone(parent), strings.Clone(state)
}

// trace reads the trace context. An invalid one does not make the event invalid.
func (r *reader) trace(h *Header) {
	parent, _ := r.ext[attrTraceParent].(string)
	state, _ := r.ext[attrTraceState].(string)
	h.TraceParent, h.TraceState = ValidTrace(parent, state)
}

// trace writes the trace context.
func (d *draft) trace(h *Header) {
	d.text(attrTraceParent, h.TraceParent)
	d.text(attrTraceState, h.TraceState)
}
