// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/codec"
)

// FuzzManifestBundle decodes arbitrary bytes from arbitrary topics. If a decoded message can be
// encoded, further round trips do not change it.
func FuzzManifestBundle(f *testing.F) {
	for _, m := range append(capturedMessages(), bundleSpec(), bundleStatus()) {
		m.Head().ID, m.Head().Time = "1", eventTime
		topic, e, err := codec.ManifestBundle.Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		payload, err := codec.AppendStructured(nil, e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(topic, payload)
	}
	// write encodes m. It returns false if Encode refuses the message, because a peer wrote more
	// than Encode writes.
	write := func(t *testing.T, m codec.Message) (topic string, payload []byte, ok bool) {
		topic, e, err := codec.ManifestBundle.Encode(m)
		if err != nil {
			return "", nil, false
		}
		if payload, err = codec.AppendStructured(nil, e); err != nil {
			t.Fatal(err)
		}
		return topic, payload, true
	}
	read := func(t *testing.T, topic string, payload []byte) codec.Message {
		e, err := codec.ParseStructured(payload)
		if err != nil {
			t.Fatal(err)
		}
		m, err := codec.ManifestBundle.Decode(topic, e)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	f.Fuzz(func(t *testing.T, topic string, payload []byte) {
		before := slices.Clone(payload)
		e, err := codec.ParseStructured(payload)
		if err != nil {
			return
		}
		m, err := codec.ManifestBundle.Decode(topic, e)
		if !slices.Equal(before, payload) {
			t.Fatal("the payload was changed")
		}
		if err != nil {
			return
		}
		topic2, payload2, ok := write(t, m)
		if !ok {
			return
		}
		m2 := read(t, topic2, payload2)
		topic3, payload3, ok := write(t, m2)
		if !ok {
			t.Fatal("what was encoded once is refused")
		}
		if diff := cmp.Diff(m2, read(t, topic3, payload3), sameMessage); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
		if string(payload2) != string(payload3) {
			t.Fatalf("the encoding is not stable:\n%s\n%s", payload2, payload3)
		}
	})
}
