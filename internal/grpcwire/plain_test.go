// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpcwire_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// TestPublishRequestKeepsOnlyItsEvent checks that an event does not keep the memory of unknown
// fields, because queues count only the event.
func TestPublishRequestKeepsOnlyItsEvent(t *testing.T) {
	want := []byte("event")
	plain := (&grpcwire.PublishRequest{Event: want}).Encode().Materialize()
	padding := protowire.AppendBytes(protowire.AppendTag(nil, 9, protowire.BytesType), make([]byte, 1<<20))
	for name, request := range map[string][]byte{
		"plain": plain, "before": append(bytes.Clone(padding), plain...), "after": append(bytes.Clone(plain), padding...),
	} {
		var r grpcwire.PublishRequest
		if err := r.Decode(request); err != nil || !bytes.Equal(r.Event, want) {
			t.Errorf("%s: event %q, %v", name, r.Event, err)
		}
		clear(request)
		if copied := bytes.Equal(r.Event, want); copied != (name != "plain") {
			t.Errorf("%s: the event is a copy: %v", name, copied)
		}
	}
}

func TestPublishRequestWithoutEvent(t *testing.T) {
	for name, c := range map[string]struct {
		request []byte
		missing bool
	}{"nothing": {nil, true}, "an empty event": {[]byte{0x0a, 0}, false}} {
		var r grpcwire.PublishRequest
		if err := r.Decode(c.request); err != nil || (r.Event == nil) != c.missing {
			t.Errorf("%s: event %v, %v", name, r.Event, err)
		}
	}
}
