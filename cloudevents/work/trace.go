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
