// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpcwire_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spokewire/sdk-go/internal/grpcwire"
)

func event() *ce.Event {
	e := ce.New()
	e.SetID("1")
	e.SetSource("s")
	e.SetType("t")
	e.SetTime(time.Unix(1700000000, 5).UTC())
	e.SetExtension("resourceversion", -7)
	e.SetExtension("clustername", "c1")
	e.SetDataContentType("application/json")
	e.DataEncoded = []byte(`{"a":1}`)
	return &e
}

// TestEventIsUnchanged checks that an event arrives as it was sent, numbers in their text form.
func TestEventIsUnchanged(t *testing.T) {
	want := event()
	b, err := grpcwire.AppendEvent(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := grpcwire.ParseEvent(b)
	if err != nil {
		t.Fatal(err)
	}
	want.SetExtension("resourceversion", "-7")
	if got.String() != want.String() || !got.Time().Equal(want.Time()) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestCutEventIsNoPanic checks that every prefix of an event is an event or an error.
func TestCutEventIsNoPanic(t *testing.T) {
	b, err := grpcwire.AppendEvent(nil, event())
	if err != nil {
		t.Fatal(err)
	}
	for n := range b {
		if e, err := grpcwire.ParseEvent(b[:n]); err == nil && e.Validate() != nil {
			t.Errorf("the first %d bytes are an invalid event without an error", n)
		}
	}
}

// TestAttributesAreUTF8 checks that an event that protobuf's readers would refuse is not written.
func TestAttributesAreUTF8(t *testing.T) {
	bad := event()
	bad.SetExtension("clustername", "\xff")
	if _, err := grpcwire.AppendEvent(nil, bad); err == nil {
		t.Error("AppendEvent accepted an attribute that is not UTF-8")
	}
}

// field encodes a field of a string, bytes or a message.
func field(number protowire.Number, parts ...string) string {
	tag := protowire.AppendTag(nil, number, protowire.BytesType)
	return string(protowire.AppendString(tag, strings.Join(parts, "")))
}

// varint encodes a field of a number.
func varint(number protowire.Number, n uint64) string {
	return string(protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), n))
}

func attribute(name, value string) string { return field(5, field(1, name), field(2, field(3, value))) }

// TestAmbiguousEventsAreRefused checks events that OCM's SDK reads with other attributes than a reader
// that sees the fields in their order. Each begins with the attribute clustername.
func TestAmbiguousEventsAreRefused(t *testing.T) {
	fields := field(1, "1") + field(2, "s") + field(3, "1.0") + field(4, "t")
	structured := field(6, `{"specversion":"1.0","id":"1","source":"s","type":"t","clustername":"c2"}`)
	many := ""
	for i := range 128 {
		many += attribute(fmt.Sprint("ce-a", i), "")
	}
	hidden := field(1, "ce-other") + field(2, field(3, "c2"))
	for _, c := range []struct{ reason, more, want string }{
		{"a name twice", attribute("ce-clustername", "c2"), "twice"},
		{"a name in another case", attribute("ce-CLUSTERNAME", "c2"), `"ce-CLUSTERNAME": must not be present twice`},
		{"a type as an attribute", attribute("ce-type", "t2"), "must be a field"},
		{"a source as an attribute", attribute("ce-SOURCE", "s2"), "must be a field"},
		{"an ID as an attribute", attribute("ce-id", "2"), "must be a field"},
		{"a version as an attribute", attribute("ce-specversion", "1.0"), "must be a field"},
		{"a type twice", field(4, "t2"), "field 4"},
		{"a type as a number", varint(4, 0), "wire type"},
		{"a name with another wire type", field(5, hidden, varint(1, 0)), "wire type"},
		{"two names of an attribute", field(5, hidden, field(1, "ce-other2")), "twice"},
		{"two values of an attribute", field(5, hidden, field(2, field(3, "c3"))), "twice"},
		{"a value of two types", field(5, field(1, "ce-other"), field(2, field(3, "a"), varint(2, 1))), "alternative"},
		{"no value", field(5, field(1, "ce-other")), `"ce-other": has no value`},
		{"an empty value", field(5, field(1, "ce-other"), field(2)), "no value"},
		{"a time with two seconds", field(5, field(1, "ce-time"), field(2, field(7, varint(1, 1), varint(1, 2)))), "twice"},
		{"an invalid name", attribute("ce-cluster-name", "c2"), "letters and digits"},
		{"a name with a letter that is k in lower case", attribute("ce-\u212a", "c2"), "letters and digits"},
		{"structured mode", attribute("contenttype", "application/cloudevents+json") + structured, "contenttype"},
		{"structured mode in another case", attribute("contenttype", "Application/cloudevents+json") + structured,
			"contenttype"},
		{"structured mode as an attribute", attribute("ce-datacontenttype", "application/cloudevents+json") + structured,
			"contenttype"},
		{"two content types", attribute("contenttype", "a/b") + attribute("ce-datacontenttype", "a/c"), "twice"},
		{"data twice", field(6, "a") + field(7, "b"), "alternative"},
		{"a name that is not UTF-8", attribute("ce-other", "\xff"), "UTF-8"},
		{"many attributes", many, "128 attributes"},
		{"a long name", attribute("ce-"+strings.Repeat("!", 1<<20), ""), "letters and digits"},
	} {
		b := []byte(fields + attribute("ce-clustername", "c1") + c.more)
		e, err := grpcwire.ParseEvent(b)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 512 {
			t.Errorf("%s: event %v, error %.600v; want an error with %q", c.reason, e, err, c.want)
		}
	}
}

// TestSpaceAroundNames checks that names with space at an end, which OCM's SDK removes, are refused.
func TestSpaceAroundNames(t *testing.T) {
	for _, parts := range [][3]string{{"1", " s", "t"}, {"1 ", "s", "t"}, {"1", "s", "t\n"}} {
		b := []byte(field(1, parts[0]) + field(2, parts[1]) + field(3, "1.0") + field(4, parts[2]))
		if e, err := grpcwire.ParseEvent(b); err == nil || !strings.Contains(err.Error(), "space") {
			t.Errorf("%q: event %v, error %v", parts, e, err)
		}
	}
	e := event()
	e.Context.(*ce.EventContextV1).ID = "1 "
	if _, err := grpcwire.AppendEvent(nil, e); err == nil || !strings.Contains(err.Error(), "id: must not") {
		t.Errorf("AppendEvent returned %v", err)
	}
}

// TestUnknownPartsAreIgnored checks that fields of later versions do not matter.
func TestUnknownPartsAreIgnored(t *testing.T) {
	b, err := grpcwire.AppendEvent(nil, event())
	if err != nil {
		t.Fatal(err)
	}
	more := string(b) + varint(9, 1) + field(2000, "x") + attribute("other", "x") + attribute("CE-id", "x") +
		field(5, field(1, "ce-other"), field(2, field(3, "x"), field(8, "y")), varint(3, 1))
	e, err := grpcwire.ParseEvent([]byte(more))
	if err != nil {
		t.Fatal(err)
	}
	want := event()
	want.SetExtension("other", "x")
	want.SetExtension("resourceversion", "-7")
	if e.String() != want.String() {
		t.Errorf("got\n%s\nwant\n%s", e, want)
	}
	canonical, err := grpcwire.AppendEvent(nil, e)
	if err != nil {
		t.Fatal(err)
	}
	again, err := grpcwire.ParseEvent(canonical)
	if err != nil || again.String() != e.String() || bytes.Contains(canonical, []byte("CE-id")) {
		t.Errorf("the canonical form is\n%s\nerror %v, want\n%s", again, err, e)
	}
}

// TestStructuredModeIsNotWritten checks an event that its readers would read from the data.
func TestStructuredModeIsNotWritten(t *testing.T) {
	e := event()
	e.SetDataContentType("application/cloudevents+json")
	if _, err := grpcwire.AppendEvent(nil, e); err == nil || !strings.Contains(err.Error(), "contenttype") {
		t.Errorf("AppendEvent returned %v", err)
	}
}
