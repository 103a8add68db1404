// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/codec"
)

func (s *suite) unchanged(t *testing.T) {
	topic := root(t)
	structured, binary := false, true
	receivers := []*client{
		s.connectWith(t, clientOptions{binary: &structured}, topic),
		s.connectWith(t, clientOptions{binary: &binary}, topic),
	}
	count := 0
	for _, mode := range []*bool{&structured, &binary} {
		publisher := s.connectWith(t, clientOptions{binary: mode})
		for _, row := range samples() {
			publisher.publish(topic, row.event)
			count++
			for _, receiver := range receivers {
				received := receiver.awaitCount(count)
				got := received[len(received)-1]
				if got.Topic != topic {
					t.Fatalf("%s, binary %v: topic %q, want %q", row.name, *mode, got.Topic, topic)
				}
				if diff := cmp.Diff(describe(row.event), describe(got.Event)); diff != "" {
					t.Errorf("%s, binary %v: the event changed (-sent +received):\n%s", row.name, *mode, diff)
				}
				if !bytes.Equal(row.event.Data(), got.Event.Data()) {
					t.Errorf("%s, binary %v: the data changed: sent %d bytes, received %d",
						row.name, *mode, len(row.event.Data()), len(got.Event.Data()))
				}
			}
		}
	}
}

// description contains the parts of an event that must arrive unchanged. Extensions are compared as
// strings, because binary mode has no types. Times are compared as instants.
type description struct {
	Attributes  map[string]string
	ContentType string
	HasData     bool
}

func describe(e *ce.Event) description {
	attributes := maps.Collect(codec.Attributes(e))
	if !e.Time().IsZero() {
		attributes["time"] = e.Time().UTC().Format(time.RFC3339Nano)
	}
	return description{Attributes: attributes, ContentType: e.DataContentType(), HasData: len(e.Data()) > 0}
}

type sample struct {
	name  string
	event *ce.Event
}

func samples() []sample {
	withData := func(contentType string, data []byte) *ce.Event {
		e := event("data")
		e.SetDataContentType(contentType)
		e.DataEncoded = data
		return e
	}
	full := event("full")
	full.SetSubject("a subject")
	full.SetDataSchema("https://example.com/schema")
	full.SetTime(time.Date(2026, 2, 3, 4, 5, 6, 789012345, time.UTC))
	full.SetExtension("resourceid", "2c5a1f1e-6f0a-5a5e-8b0e-000000000001")
	full.SetExtension("resourceversion", "9223372036854775807") // more than the maximum of a CloudEvents Integer
	full.SetExtension("count", int32(7))
	full.SetExtension("flag", true)
	full.SetExtension("looksnumeric", "0042")
	full.SetExtension("looksboolean", "true")
	full.SetExtension("looksnull", "null")
	full.SetExtension("quoted", `"a \ b"`)
	full.SetExtension("json", `{"a":[1,2,{"b":null}]}`)
	full.SetExtension("spaces", "  around  ")
	full.SetExtension("cedash", "ce-value")

	unicode := withData("text/plain; charset=utf-8", []byte("päylöad 日本語 🚀"))
	unicode.SetID("ünïcode-日本語-🚀")
	unicode.SetSubject("Ω≈ç√∫˜µ≤≥÷")
	unicode.SetExtension("text", "äöü 漢字 👩‍👩‍👧")

	large := withData("application/json", fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("0123456789abcdef", 32<<10)))
	large.SetID("large")

	long := event("long")
	long.SetExtension("long", strings.Repeat("x", 60_000)) // MQTT's limit for one attribute is 65,535

	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	return []sample{
		{"data absent", event("bare")},
		{"every attribute", full},
		{"Unicode", unicode},
		{"JSON object", withData("application/json",
			[]byte(`{"manifests":[{"apiVersion":"v1","n":1.50,"big":12345678901234567890}]}`))},
		{"JSON with its white space", withData("application/json", []byte("{ \"a\" :\t1,\n \"b\": \"\\u00e4\" }"))},
		{"JSON string", withData("application/json", []byte(`"text"`))},
		{"JSON number", withData("application/json", []byte(`12`))},
		{"every byte", withData("application/octet-stream", every)},
		{"512 KiB", large},
		{"a long attribute", long},
	}
}
