// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"regexp"
	"strings"
)

// traceParent is what the W3C recommendation Trace Context calls so: version, trace ID, parent ID and flags.
var traceParent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceOf returns the traceparent of the context that a write was called with, as the user's hook tells it.
func traceOf(ctx context.Context, hook func(context.Context) string) string {
	if hook == nil {
		return ""
	}
	return validTrace(hook(ctx))
}

// validTrace returns a traceparent without what it may be a part of, and nothing for what is none.
func validTrace(s string) string {
	if s == "" || !traceParent.MatchString(s) {
		return ""
	}
	return strings.Clone(s)
}

// TraceParent returns the W3C traceparent of the status that was taken last for a work, which is
// that of the agent's write, see [AgentOptions].TraceParent, or else that of the spec it is about.
// It is empty where there is none. It is not kept over a restart.
func (s *Source) TraceParent(cluster, name string) string {
	s.store.Lock()
	defer s.store.Unlock()
	if w := s.store.Get(cluster, name); w != nil {
		return w.heard
	}
	return ""
}

// TraceParent returns the W3C traceparent of the write at the source that a work shows; see
// [SourceOptions].TraceParent. A controller that reconciles the work can continue that trace. It is
// empty where there is none, and not kept over a restart.
func (a *Agent) TraceParent(name string) string {
	a.store.Lock()
	defer a.store.Unlock()
	if w := a.store.Get(a.options.ClusterName, name); w != nil {
		return w.trace.heard
	}
	return ""
}

// traces are the traceparents of a work at its agent.
type traces struct {
	heard string // of the spec
	said  string // of the last write of a status, where that has one
}

// reported is the traceparent of a status.
func (t *traces) reported() string {
	if t.said != "" {
		return t.said
	}
	return t.heard
}

// follow takes that of a new spec.
func (t *traces) follow(traceParent string) {
	*t = traces{heard: validTrace(traceParent)}
}
