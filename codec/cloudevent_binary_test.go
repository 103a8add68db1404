// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/codec"
)

type pair struct{ Name, Value string }

func pairs(list ...pair) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, p := range list {
			if !yield(p.Name, p.Value) {
				return
			}
		}
	}
}

// TestAttributesAreBounded checks the limits of attributes in both content modes: a peer chooses
// the attributes, and they are kept with its event.
func TestAttributesAreBounded(t *testing.T) {
	event := func(attributes, length int) []pair {
		list := []pair{{"specversion", "1.0"}, {"id", "1"}, {"source", "/s"}, {"type", "t"}}
		for i := range attributes {
			list = append(list, pair{fmt.Sprintf("a%d", i), strings.Repeat("x", length)})
		}
		return list
	}
	for name, c := range map[string]struct {
		attributes, length int
		good               bool
	}{"a few": {3, 65_535, true}, "long": {5, 60_000, false}, "many": {5_000, 1, false}} {
		list := event(c.attributes, c.length)
		_, binary := codec.FromAttributes(pairs(list...), "", nil)
		text := map[string]string{}
		for _, p := range list {
			text[p.Name] = p.Value
		}
		data, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		_, structured := codec.ParseStructured(data)
		for mode, err := range map[string]error{"binary": binary, "structured": structured} {
			if (err == nil) != c.good || !c.good && !strings.Contains(err.Error(), "above 262144 bytes") {
				t.Errorf("%s, %s: %v", name, mode, err)
			}
		}
	}
}

func TestAttributes(t *testing.T) {
	e := newEvent()
	ctx := e.Context.(*ce.EventContextV1)
	ctx.Extensions["bad"] = []string{}
	want := []pair{
		{"specversion", "1.0"}, {"id", "1"}, {"source", "/s"}, {"type", "t"}, {"subject", "a subject"},
		{"dataschema", "http://schema"},
		{"time", "2024-05-06T07:08:09.123456789Z"}, {"bytes", "YWI="}, {"number", "-7"}, {"text", "a \"b\"\u2028\x7f"},
		{"when", "2024-05-06T07:08:09.123456789Z"}, {"yes", "true"},
	}
	var got []pair
	for name, value := range codec.Attributes(e) {
		got = append(got, pair{name, value})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for stop := range want { // a consumer may stop anywhere
		n := 0
		for range codec.Attributes(e) {
			if n++; n > stop {
				break
			}
		}
	}
	for range codec.Attributes(nil) {
		t.Error("nil has attributes")
	}
	for range codec.Attributes(&ce.Event{}) {
		t.Error("an event without context has attributes")
	}
}

func TestBinaryRoundTrip(t *testing.T) {
	for _, tc := range goldenCases() {
		for _, prefix := range []string{"", "ce-", "CE-"} {
			topic, want, err := codec.ManifestWork.Encode(tc.message)
			if err != nil {
				t.Fatal(err)
			}
			var list []pair
			for name, value := range codec.Attributes(want) {
				list = append(list, pair{prefix + name, value})
			}
			got, err := codec.FromAttributes(pairs(list...), want.DataContentType(), want.DataEncoded)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, sameEvent); diff != "" {
				t.Errorf("%s with prefix %q (-want +got):\n%s", tc.name, prefix, diff)
			}
			m, err := codec.ManifestWork.Decode(topic, got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.message, m, sameMessage); diff != "" {
				t.Errorf("%s with prefix %q (-want +got):\n%s", tc.name, prefix, diff)
			}
		}
	}
}

func TestFromAttributes(t *testing.T) {
	required := []pair{{"specversion", "1.0"}, {"id", "1"}, {"source", "/s"}, {"type", "t"}}
	for _, tc := range []struct {
		name, reason string
		more         []pair
		contentType  string
		want         map[string]any
		wantType     string
	}{
		{"transport's own", "names that no attribute can have",
			[]pair{{"x-broker", "1"}, {"a_b", "1"}, {"ce-", "1"}, {"", "1"}, {"data", "1"}}, "", nil, ""},
		{"any case", "camel case of the enhancement", []pair{{"ce-ResourceID", "a"}, {"resourceVersion", "3"}}, "",
			map[string]any{"resourceid": "a", "resourceversion": "3"}, ""},
		{"last of two", "as in structured mode", []pair{{"a", "1"}, {"ce-a", "2"}}, "", map[string]any{"a": "2"}, ""},
		{"content type", "the transport's counts", []pair{{"datacontenttype", "text/xml"}}, "application/json", nil,
			"application/json"},
		{"content type as attribute", "some transports have no place for it", []pair{{"datacontenttype", "text/xml"}}, "",
			nil, "text/xml"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, err := codec.FromAttributes(pairs(append(required, tc.more...)...), tc.contentType, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, e.Extensions()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if e.DataContentType() != tc.wantType {
				t.Errorf("%s: content type %q, want %q", tc.reason, e.DataContentType(), tc.wantType)
			}
		})
	}
	for i, missing := range required {
		list := append(append([]pair{}, required[:i]...), required[i+1:]...)
		_, err := codec.FromAttributes(pairs(list...), "", nil)
		wantError(t, err, codec.CodeAttribute, missing.Name, "required")
	}
	_, err := codec.FromAttributes(pairs(append(required, pair{"time", "x"})...), "", nil)
	wantError(t, err, codec.CodeAttribute, "time", "not RFC 3339")
}
