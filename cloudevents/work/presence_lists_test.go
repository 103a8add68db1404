// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestOutrankedSourceDropsLists: a source that has detected a newer process drops incomplete lists
// and their charges.
func TestOutrankedSourceDropsLists(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		s.settle()
		send := func(m codec.Message) {
			topic, event, err := codec.ManifestWork.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			publish(s, cloudevents.Message{Topic: topic, Event: event})
			s.settle()
		}
		list := func(resyncID string, entries int) *codec.SpecResync {
			m := &codec.SpecResync{
				Header:       codec.Header{ID: "x", Source: "hub", Cluster: "cluster1", Agent: "a", ResyncID: resyncID},
				AgentSession: "s", TargetSource: "hub", Chunk: codec.Chunk{Index: 0, Count: 2},
			}
			for i := range entries {
				m.Entries = append(m.Entries, codec.SpecEntry{ResourceID: fmt.Sprint("id", i), Version: 1, UID: "u", Source: "hub"})
			}
			return m
		}
		send(list("first", 0))
		before := work.StateOf(h.Source).Bytes
		send(list("second", 100))
		if work.StateOf(h.Source).Bytes <= before {
			t.Fatal("the list is not charged")
		}
		send(&codec.Presence{Header: codec.Header{ID: "p", Source: "hub"}, Session: "newer", Started: time.Now().Add(time.Hour)})
		expectProbes(t, "outranked", h, isOlder, "", isOlder)
		if lists := work.StateOf(h.Source).Lists; lists != 0 {
			t.Errorf("the source has %d lists", lists)
		}
		if used := work.StateOf(h.Source).Bytes; used >= before {
			t.Errorf("without lists %d bytes are charged, with the first one %d were", used, before)
		}
	})
}
