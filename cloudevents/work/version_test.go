// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/metertest"
)

// soon returns a version or sequence that a peer may send: its clock is an hour ahead.
func soon() int64 { return time.Now().Add(time.Hour).UnixMilli() << 20 }

// late returns a version or sequence that a peer must not send: its clock is two days ahead.
func late() int64 { return time.Now().Add(48*time.Hour).UnixMilli() << 20 }

// sends publishes a message as a peer would.
func (s *scene) sends(profile codec.Profile, m codec.Message) {
	s.t.Helper()
	topic, event, err := profile.Encode(m)
	if err != nil {
		s.t.Fatal(err)
	}
	publish(s, cloudevents.Message{Topic: topic, Event: event})
}

// TestNumbersOutOfRangeAreRefused: a version or sequence that is more than a day ahead changes
// nothing.
func TestNumbersOutOfRangeAreRefused(t *testing.T) {
	inScene(t, func(s *scene) {
		onHub, onSpoke := prometheus.NewPedanticRegistry(), prometheus.NewPedanticRegistry()
		h, a := s.source(work.SourceOptions{MetricsRegisterer: onHub}), s.agent(work.AgentOptions{MetricsRegisterer: onSpoke})
		h.complete()
		uid := h.create("cluster1", newWork("app", "1")).UID
		s.settle()
		a.report("app", "honest")
		s.settle()
		sources, agents := work.SourceRecords(h.Source), work.AgentRecords(a.Agent)
		version := sources[codec.ResourceID("hub", "cluster1", "app")].Version
		head := codec.Header{ID: "x", Source: "hub", Cluster: "cluster1", Agent: "evil", Time: time.Now().UTC()}
		for _, id := range []string{codec.ResourceID("hub", "cluster1", "app"),
			codec.ResourceID("hub", "cluster1", "ghost")} {
			ref := codec.WorkRef{ResourceID: id, Version: version, UID: uid, Name: "app"}
			if id != codec.ResourceID("hub", "cluster1", "app") {
				ref.Name = "ghost"
			}
			far := ref
			far.Version = late()
			for _, seq := range []int64{late(), math.MaxInt64} {
				s.sends(codec.ManifestWork, &codec.Status{Header: head, WorkRef: ref, SequenceID: seq,
					Status: appliedStatus("evil")})
				s.sends(codec.ManifestWork,
					&codec.Spec{Header: head, WorkRef: ref, StatusSeq: seq, Work: newWork(ref.Name, "evil")})
			}
			s.sends(codec.ManifestWork, &codec.Status{Header: head, WorkRef: far, SequenceID: soon(),
				Status: appliedStatus("evil")})
			s.sends(codec.ManifestWork, &codec.Spec{Header: head, WorkRef: far, Work: newWork(ref.Name, "evil")})
			s.sends(codec.ManifestWork, &codec.SpecResync{
				Header: head, Scope: codec.ScopeListed, TargetSource: "hub", AgentSession: "evil",
				Entries: []codec.SpecEntry{
					{ResourceID: id, Version: far.Version, UID: uid, Source: "hub"},
					{ResourceID: id, Version: version, UID: uid, Source: "hub", SequenceID: math.MaxInt64},
				},
			})
		}
		s.sends(codec.ManifestWork, &codec.StatusResync{Header: head, Scope: codec.ScopeListed, Entries: []codec.StatusEntry{
			{ResourceID: codec.ResourceID("hub", "cluster1", "app"), Hash: "x", UID: uid, StatusSeq: late()}}})
		s.settle()
		metertest.Expect(t, onHub, map[string]float64{"events_refused_total reason=version_out_of_range": 10})
		metertest.Expect(t, onSpoke, map[string]float64{"events_refused_total reason=version_out_of_range": 7})
		if diff := cmp.Diff(sources, work.SourceRecords(h.Source)); diff != "" {
			t.Errorf("the source's records changed:\n%s", diff)
		}
		if diff := cmp.Diff(agents, work.AgentRecords(a.Agent)); diff != "" {
			t.Errorf("the agent's records changed:\n%s", diff)
		}
		a.report("app", "later")
		h.setValue("cluster1", "app", "2")
		s.settle()
		if got := applied(h.get("cluster1", "app")); got != "later" {
			t.Errorf("the hub sees %q, want what the agent reported last", got)
		}
		if got := valueOf(t, a.get("app")); got != "2" {
			t.Errorf("the agent has value %q, want 2", got)
		}
	})
}

// poison sets members of all records of a store with a prefix, to values that an earlier release
// may have stored.
func poison(t *testing.T, store work.Store, prefix string, numbers map[string]any) {
	t.Helper()
	var changes []work.Change
	err := store.Load(t.Context(), func(key string, value []byte) error {
		if !strings.HasPrefix(key, prefix) {
			return nil
		}
		var record map[string]json.RawMessage
		if err := json.Unmarshal(value, &record); err != nil {
			return err
		}
		for member, n := range numbers {
			raw, err := json.Marshal(n)
			if err != nil {
				return err
			}
			record[member] = raw
		}
		out, err := json.Marshal(record)
		changes = append(changes, work.Change{Key: key, Value: out})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(changes) == 0 {
		t.Fatalf("no record %s in the store", prefix)
	}
	if err := store.Apply(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
}

// TestStoredNumbersOutOfRangeAreReplaced: out-of-range numbers that an earlier release stored, for
// the source or the agent, do not block statuses, updates or deletions after an honest peer
// connects.
func TestStoredNumbersOutOfRangeAreReplaced(t *testing.T) {
	stores := map[string]func(*testing.T) work.Store{
		"memory": func(*testing.T) work.Store { return work.NewMemoryStore() },
		"bolt": func(t *testing.T) work.Store {
			store, err := boltstore.Open(filepath.Join(t.TempDir(), "store"), boltstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			return store
		},
	}
	type side struct{ source, agent bool }
	for name, open := range stores {
		for sides, at := range map[string]side{"source": {true, false}, "agent": {false, true}, "both": {true, true}} {
			t.Run(name+" of "+sides, func(t *testing.T) {
				inScene(t, func(s *scene) {
					ofSource, ofAgent := open(t), open(t)
					h := s.source(work.SourceOptions{Store: ofSource})
					a := s.agent(work.AgentOptions{Store: ofAgent})
					for _, name := range []string{"app", "leaving", "lost"} {
						h.create("cluster1", newWork(name, "1"))
					}
					s.settle()
					a.report("app", "first")
					s.settle()
					h.kill()
					a.kill()
					if at.source {
						poison(t, ofSource, "work/", map[string]any{
							"version": int64(1 << 62), "createVersion": int64(1 << 62), "sequence": int64(math.MaxInt64),
						})
						poison(t, ofSource, "cluster/", map[string]any{"highest": int64(1 << 62)})
					}
					if at.agent {
						poison(t, ofAgent, "work/", map[string]any{"version": int64(1 << 62), "sequence": int64(1 << 62)})
					}
					h, a = s.source(work.SourceOptions{Store: ofSource}), s.agent(work.AgentOptions{Store: ofAgent})
					s.settle()
					a.report("app", "second")
					a.report("lost", "second")
					s.settle()
					for _, name := range []string{"app", "lost"} {
						if got := applied(h.get("cluster1", name)); got != "second" {
							t.Errorf("the hub sees %q of %s", got, name)
						}
					}
					h.setValue("cluster1", "app", "2")
					h.delete("cluster1", "leaving")
					s.settle()
					if got := valueOf(t, a.get("app")); got != "2" {
						t.Errorf("the agent has value %q after an update", got)
					}
					a.setFinalizers("leaving")
					s.settle()
					if names := a.names(); len(names) != 2 {
						t.Errorf("the agent has %v", names)
					}
					if items := h.list("cluster1").Items; len(items) != 2 {
						t.Errorf("the hub has %d works, want 2", len(items))
					}
				})
			})
		}
	}
}

// TestNumbersOfClockAheadAreReplaced: numbers that a source or an agent gave while its clock was
// two days ahead are replaced when the clock is right.
func TestNumbersOfClockAheadAreReplaced(t *testing.T) {
	for _, at := range []string{"source", "agent"} {
		t.Run(at, func(t *testing.T) {
			inScene(t, func(s *scene) {
				ahead := (&steppedClock{}).set(48 * time.Hour)
				source, agent := work.SourceOptions{}, work.AgentOptions{}
				if at == "source" {
					source.Clock = ahead
				} else {
					agent.Clock = ahead
				}
				h, a := s.source(source), s.agent(agent)
				h.create("cluster1", newWork("app", "1"))
				s.settle()
				if at == "agent" {
					a.report("app", "early")
					s.settle()
				}
				ahead.set(0)
				s.reconnect()
				a.report("app", "right")
				s.settle()
				if got := applied(h.get("cluster1", "app")); got != "right" {
					t.Errorf("the hub sees %q", got)
				}
				h.setValue("cluster1", "app", "2")
				s.settle()
				if got := valueOf(t, a.get("app")); got != "2" {
					t.Errorf("the agent has value %q", got)
				}
			})
		})
	}
}

// TestBundleNumbersOutOfRange: an agent of another SDK cannot exhaust the versions of a work or
// hide its statuses.
func TestBundleNumbersOutOfRange(t *testing.T) {
	inScene(t, func(s *scene) {
		registry := prometheus.NewPedanticRegistry()
		options := bundleSource
		options.MetricsRegisterer = registry
		h, a := s.source(options), s.agent(bundleAgent)
		created := h.create("cluster1", newWork("app", "1"))
		s.settle()
		report := func(version, seq int64, at time.Time) {
			s.sends(codec.ManifestBundle, &codec.Status{
				Header: codec.Header{ID: "x", Source: "hub", Cluster: "cluster1", Agent: "evil", Time: at.UTC()},
				WorkRef: codec.WorkRef{
					ResourceID: codec.ManifestBundle.ResourceID("hub", "cluster1", "app"), Version: version, Name: "app",
				},
				SequenceID: seq, Metadata: &created.ObjectMeta, Status: appliedStatus("evil"),
			})
		}
		report(math.MaxInt32-1, 1<<40, time.Now())
		report(1, math.MaxInt64, time.Now())
		report(1, 1<<40, time.Now().Add(48*time.Hour))
		s.settle()
		metertest.Expect(t, registry, map[string]float64{"events_refused_total reason=version_out_of_range": 3})
		a.report("app", "honest")
		h.setValue("cluster1", "app", "2")
		s.settle()
		if got := h.get("cluster1", "app"); applied(got) != "honest" || got.Generation != 2 {
			t.Errorf("the hub sees %q, generation %d", applied(got), got.Generation)
		}
		if got := valueOf(t, a.get("app")); got != "2" {
			t.Errorf("the agent has value %q", got)
		}
	})
}

// TestBundleStoredVersionsOutOfRangeAreReplaced: versions that agents could exhaust in an earlier
// release are counted again.
func TestBundleStoredVersionsOutOfRangeAreReplaced(t *testing.T) {
	inScene(t, func(s *scene) {
		options, store := bundleSource, work.NewMemoryStore()
		options.Store = store
		h, a := s.source(options), s.agent(bundleAgent)
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		h.kill()
		poison(t, store, "work/", map[string]any{
			"version": math.MaxInt32 - 1, "sequence": int64(math.MaxInt64), "strict": map[string]any{"floor": math.MaxInt32 - 1},
		})
		h = s.source(options)
		s.settle()
		a.report("app", "honest")
		h.setValue("cluster1", "app", "2")
		s.settle()
		if got := h.get("cluster1", "app"); applied(got) != "honest" {
			t.Errorf("the hub sees %q", applied(got))
		}
		if got := valueOf(t, a.get("app")); got != "2" {
			t.Errorf("the agent has value %q", got)
		}
	})
}

// TestGoneOlderThanDeletion: a gone of an earlier deletion of the same work does not end the
// current deletion.
func TestGoneOlderThanDeletion(t *testing.T) {
	inScene(t, func(s *scene) {
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{})
		created := h.create("cluster1", newWork("app", "1"))
		s.settle()
		a.setFinalizers("app", workv1.ManifestWorkFinalizer)
		before := work.SourceRecords(h.Source)[codec.ResourceID("hub", "cluster1", "app")].Version
		h.delete("cluster1", "app")
		s.settle()
		gone := appliedStatus("gone")
		gone.Conditions[0].Type = codec.ConditionDeleted
		s.sends(codec.ManifestWork, &codec.Status{
			Header: codec.Header{ID: "x", Source: "hub", Cluster: "cluster1", Agent: "late", Time: time.Now().UTC()},
			WorkRef: codec.WorkRef{
				ResourceID: codec.ResourceID("hub", "cluster1", "app"), Version: before, UID: created.UID, Name: "app",
			},
			SequenceID: soon(), Status: gone,
		})
		s.settle()
		if n := len(h.list("cluster1").Items); n != 1 {
			t.Fatalf("the hub has %d works while the agent still cleans up", n)
		}
		a.setFinalizers("app")
		s.settle()
		if n := len(h.list("cluster1").Items); n != 0 {
			t.Errorf("the hub has %d works after the agent's clean-up", n)
		}
	})
}
