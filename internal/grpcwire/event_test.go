// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpcwire_test

import (
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"

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
