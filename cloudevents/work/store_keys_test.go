// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/codec"
)

// keyStore is a store that records the longest key.
type keyStore struct {
	work.Store
	mu      sync.Mutex
	longest string
}

func newKeyStore(t *testing.T) *keyStore {
	t.Helper()
	file, err := boltstore.Open(filepath.Join(t.TempDir(), "works.db"), boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return &keyStore{Store: file}
}

func (s *keyStore) Apply(ctx context.Context, changes []work.Change) error {
	s.mu.Lock()
	for _, c := range changes {
		if len(c.Key) > len(s.longest) {
			s.longest = c.Key
		}
	}
	s.mu.Unlock()
	return s.Store.Apply(ctx, changes)
}

func (s *keyStore) check(t *testing.T, want string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.longest) > work.MaxKeyLength || !strings.HasSuffix(s.longest, want) {
		t.Errorf("the longest key has %d bytes: %.100s…", len(s.longest), s.longest)
	}
}

// TestLongIDs: the longest identifiers that the wire format allows fit into a store. An event with
// a longer identifier is refused, and does not block other writes.
func TestLongIDs(t *testing.T) {
	inScene(t, func(s *scene) {
		longest := strings.Repeat("i", codec.MaxIDLength)
		cluster, other := strings.Repeat("c", codec.MaxNameLength), strings.Repeat("s", codec.MaxNameLength)
		atSource, atAgent := newKeyStore(t), newKeyStore(t)
		h, a := s.source(work.SourceOptions{Store: atSource}), s.agent(work.AgentOptions{Store: atAgent})
		s.settleProcesses()
		if err := h.InventoryComplete(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		h.create("cluster1", newWork("before", "1"))
		strict := codec.WorkRef{ResourceID: longest, Version: 7, Name: longest}
		for _, m := range []codec.Message{
			&codec.Status{Header: codec.Header{ID: "1", Source: "hub", Cluster: cluster, Agent: "a"}, WorkRef: strict},
			&codec.Spec{Header: codec.Header{ID: "1", Source: other, Cluster: "cluster1"}, WorkRef: strict, Work: newWork("", "")},
		} {
			topic, e, err := codec.ManifestWork.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			publish(s, cloudevents.Message{Topic: topic, Event: e})
			s.settleProcesses()
			publish(s, cloudevents.Message{Topic: topic, Event: e})
			for _, n := range []int{codec.MaxIDLength + 1, 40_000} {
				long := e.Clone()
				for name := range e.Extensions() {
					if strings.HasSuffix(name, "resourceid") {
						long.SetExtension(name, strings.Repeat("x", n))
					}
				}
				publish(s, cloudevents.Message{Topic: topic, Event: &long})
			}
		}
		s.settle()
		atSource.check(t, "/"+longest)
		atAgent.check(t, "/"+longest)
		h.create("cluster1", newWork("after", "1"))
		s.settle()
		a.report("after", "done")
		s.settle()
		if got := applied(h.get("cluster1", "after")); got != "done" {
			t.Errorf("the source shows %q", got)
		}
		for name, healthy := range map[string]func() error{"source": h.Healthy, "agent": a.Healthy} {
			if err := healthy(); err != nil {
				t.Errorf("the %s: %v", name, err)
			}
		}
	})
}
