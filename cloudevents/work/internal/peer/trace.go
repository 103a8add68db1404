// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"regexp"
	"strings"
)

// traceParent matches the traceparent of the W3C recommendation Trace Context: version, trace ID,
// parent ID and flags.
var traceParent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// TraceOf returns the traceparent of the context of a write, as the user's hook returns it.
func TraceOf(ctx context.Context, hook func(context.Context) string) string {
	if hook == nil {
		return ""
	}
	return ValidTrace(hook(ctx))
}

// ValidTrace returns a copy of a valid traceparent, and an empty string otherwise. The copy does
// not keep a longer string in memory.
func ValidTrace(s string) string {
	if s == "" || !traceParent.MatchString(s) {
		return ""
	}
	return strings.Clone(s)
}
