// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/codec"
)

// TestInvalidTraceContextIsDropped: a peer's event is valid whatever its trace context is.
func TestInvalidTraceContextIsDropped(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	full := "a=" + strings.Repeat("x", codec.MaxTraceState-2)
	tests := []struct {
		reason                string
		parent, state         any
		wantParent, wantState string
	}{
		{"both are valid", parent, "rojo=00f0, a@b=t6 k", parent, "rojo=00f0, a@b=t6 k"},
		{"a later version", "01" + parent[2:], nil, "01" + parent[2:], ""},
		{"the largest state", parent, full, parent, full},
		{"a huge state", parent, full + "x", parent, ""},
		{"too many pairs", parent, strings.Repeat("a=1,", 32) + "a=1", parent, ""},
		{"a state that is no list", parent, "x", parent, ""},
		{"a control character in the state", parent, "a=\x01", parent, ""},
		{"a number as state", parent, int32(7), parent, ""},
		{"a state without parent", nil, "a=1", "", ""},
		{"a parent that is no traceparent", "x", "a=1", "", ""},
		{"a huge parent", strings.Repeat(parent, 1000), "a=1", "", ""},
		{"a control character in the parent", parent + "\n", nil, "", ""},
		{"a parent that is not UTF-8", "\xff", nil, "", ""},
		{"a number as parent", int32(7), nil, "", ""},
		{"version ff", "ff" + parent[2:], nil, "", ""},
		{"no trace ID", "00-" + strings.Repeat("0", 32) + parent[35:], nil, "", ""},
		{"no parent ID", parent[:36] + strings.Repeat("0", 16) + "-01", nil, "", ""},
	}
	for _, profile := range []codec.Profile{codec.ManifestWork, codec.ManifestBundle} {
		for _, tt := range tests {
			t.Run(profile.Name()+"/"+tt.reason, func(t *testing.T) {
				spec := newSpec()
				spec.Version, spec.StatusSeq = 1, 1
				topic, e, err := profile.Encode(spec)
				if err != nil {
					t.Fatal(err)
				}
				ctx := e.Context.AsV1()
				if ctx.Extensions == nil {
					ctx.Extensions = map[string]any{}
				}
				for name, value := range map[string]any{"traceparent": tt.parent, "tracestate": tt.state} {
					if value != nil {
						ctx.Extensions[name] = value
					}
				}
				e.Context = ctx
				m, err := profile.Decode(topic, e)
				if err != nil {
					t.Fatal(err)
				}
				if h := m.Head(); h.TraceParent != tt.wantParent || h.TraceState != tt.wantState {
					t.Errorf("got %q, %q", h.TraceParent, h.TraceState)
				}
			})
		}
	}
}
