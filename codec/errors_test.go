// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spokewire/sdk-go/codec"
)

// wantError checks that err is an Error with the code and the field; "*" matches any field.
func wantError(t *testing.T, err error, code codec.Code, field, reason string) {
	t.Helper()
	var e *codec.Error
	if !errors.As(err, &e) {
		t.Fatalf("%s: got %v, want an *Error", reason, err)
	}
	if e.Code != code || field != "*" && e.Field != field {
		t.Errorf("%s: got code %q, field %q (%v); want %q, %q", reason, e.Code, e.Field, err, code, field)
	}
	if e.Reason == "" {
		t.Errorf("%s: the error says no reason", reason)
	}
}

func TestErrorText(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		err          *codec.Error
		want         string
	}{
		{"all", "most general first", &codec.Error{Code: codec.CodeData, Topic: "/t", EventID: "7", Field: "data",
			Reason: "is bad", Err: io.EOF},
			`topic "/t": event "7": data: is bad: EOF`},
		{"reason only", "nothing is made up", &codec.Error{Reason: "is bad"}, "is bad"},
	} {
		if got := tc.err.Error(); got != tc.want {
			t.Errorf("%s: %s: got %q, want %q", tc.name, tc.reason, got, tc.want)
		}
	}
	long := strings.Repeat("ü", 40_000)
	if text := (&codec.Error{Topic: long, EventID: long, Field: long, Reason: "is bad",
		Err: errors.New(long)}).Error(); len(text) > 2048 || !utf8.ValidString(text) {
		t.Errorf("what a peer chose makes a text of %d bytes", len(text))
	}
	if err := error(&codec.Error{Err: io.EOF}); !errors.Is(err, io.EOF) {
		t.Error("Unwrap does not return the cause")
	}
}

// TestErrorNamesTopicAndEvent checks that an error names the topic and the event.
func TestErrorNamesTopicAndEvent(t *testing.T) {
	topic, payload := eventWith(t, newSpec(), fields{"clustername": "other"})
	e, err := codec.ParseStructured(payload)
	if err != nil {
		t.Fatal(err)
	}
	_, err = codec.ManifestWork.Decode(topic, e)
	const want = `topic "/sources/mwrs-controller/clusters/cluster1/manifests": event "0b1f": clustername: is not the cluster that the topic names`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
