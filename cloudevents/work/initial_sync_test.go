// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// TestInitialSync: an agent's informer does not sync before its sources have answered in full. With
// named sources it then syncs immediately, otherwise after the quiet time. If a named source is
// silent or may lack works, the informer does not sync, unless PartialSyncTimeout is set.
func TestInitialSync(t *testing.T) {
	const never = -1
	tests := []struct {
		name    string
		options work.AgentOptions
		works   int
		partial bool
		want    time.Duration
	}{
		{"all sources answer", work.AgentOptions{Sources: []string{"hub"}}, 50, false, 0},
		{"one source is silent", work.AgentOptions{Sources: []string{"hub", "absent"}, PartialSyncTimeout: 5 * time.Second},
			50, false, 5 * time.Second},
		{"one source may lack works", work.AgentOptions{Sources: []string{"hub"}, PartialSyncTimeout: 5 * time.Second}, 50,
			true, 5 * time.Second},
		{"one source may lack works, without PartialSyncTimeout", work.AgentOptions{Sources: []string{"hub"}}, 50, true,
			never},
		{"one source has no works", work.AgentOptions{Sources: []string{"hub"}, InitialSyncTimeout: 5 * time.Second}, 0,
			false, 0},
		{"one source has no works and may lack some",
			work.AgentOptions{Sources: []string{"hub"}, PartialSyncTimeout: 5 * time.Second}, 0, true, 5 * time.Second},
		{"one source is silent, without PartialSyncTimeout", work.AgentOptions{Sources: []string{"hub", "absent"}}, 50, false,
			never},
		{"one source has no works and may lack some, without PartialSyncTimeout", work.AgentOptions{Sources: []string{"hub"}},
			0, true, never},
		{"any source", work.AgentOptions{}, 50, false, work.DefaultInitialSyncTimeout},
		// requested twice
		{"any source, which may lack works", work.AgentOptions{}, 50, true, 3 * work.DefaultInitialSyncTimeout},
		{"InitialSyncTimeout is negative", work.AgentOptions{InitialSyncTimeout: -1}, 50, false, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				for i := range tc.works {
					h.create("cluster1", newWork(fmt.Sprintf("w%d", i), "1"))
				}
				if !tc.partial {
					h.complete()
				}
				s.settle()
				a := s.agent(tc.options)
				began := time.Now()
				informer := s.informer(workinformers.NewSharedInformerFactory(a.Clientset(), 0))
				for !informer.HasSynced() && time.Since(began) < time.Hour {
					time.Sleep(10 * time.Millisecond)
				}
				if tc.want == never && !informer.HasSynced() {
					return
				}
				if took := time.Since(began); took < tc.want || took > tc.want+300*time.Millisecond {
					t.Errorf("synced after %s, want %s", took, tc.want)
				}
				if n := len(informer.GetStore().List()); n != tc.works && tc.options.InitialSyncTimeout >= 0 {
					t.Errorf("synced with %d works of %d", n, tc.works)
				}
			})
		})
	}
}

// TestInitialSyncAfterBothRestart: a source and an agent restart together, without stores. The
// first list of the agent waits for the works that its source is about to create, and not longer,
// so these works do not look deleted. This holds even if the source already has some works.
func TestInitialSyncAfterBothRestart(t *testing.T) {
	for name, had := range map[string]int{"source has no works": 0, "source has some works": 5} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				for i := range had {
					h.create("cluster1", newWork(fmt.Sprintf("w%d", i), "1"))
				}
				s.settle()
				a := s.agent(work.AgentOptions{Sources: []string{"hub"}, InitialSyncTimeout: time.Minute})
				began := time.Now()
				go func() {
					for i := had; i < 50; i++ {
						time.Sleep(60 * time.Millisecond)
						h.create("cluster1", newWork(fmt.Sprintf("w%d", i), "1"))
					}
					h.complete()
				}()
				if names, took := a.names(), time.Since(began); len(names) != 50 || took > 4*time.Second {
					t.Errorf("the first list has %d works of 50, after %s", len(names), took)
				}
			})
		})
	}
}

// TestInitialSyncWithStore: a source that continues from its store has all its works, so the agent
// syncs immediately.
func TestInitialSyncWithStore(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		first := s.source(work.SourceOptions{Store: store})
		first.create("cluster1", newWork("app", "1"))
		first.kill()
		s.source(work.SourceOptions{Store: store})
		s.settle()
		began := time.Now()
		a := s.agent(work.AgentOptions{Sources: []string{"hub"}, InitialSyncTimeout: time.Minute})
		if names, took := a.names(), time.Since(began); len(names) != 1 || took > 0 {
			t.Errorf("the first list has %v after %s", names, took)
		}
	})
}

// TestInitialSyncWithNewlyNamedSource: the Store of an agent counts as the answer of the sources
// that it was used with, and of no other source.
func TestInitialSyncWithNewlyNamedSource(t *testing.T) {
	for _, restarts := range []int{0, 1} {
		t.Run(fmt.Sprint("restarts: ", restarts), func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				h.create("cluster1", newWork("app", "1"))
				h.complete()
				options := work.AgentOptions{Sources: []string{"hub"}, Store: work.NewMemoryStore()}
				a := s.agent(options)
				s.settle()
				a.kill()
				h.kill()

				options.Sources = []string{"hub", "hub2"}
				a = s.agent(options)
				for range restarts {
					s.settle()
					a.kill()
					a = s.agent(options)
				}
				informer := s.informer(workinformers.NewSharedInformerFactory(a.Clientset(), 0))
				time.Sleep(time.Minute)
				if informer.HasSynced() {
					s.t.Error("synced before the new source has answered")
				}
				expectProbes(s.t, "waiting", a, "", "", "waiting for the works of the sources hub2, ")
				s.source(work.SourceOptions{SourceID: "hub2"}).complete()
				time.Sleep(time.Minute)
				if n := len(informer.GetStore().List()); !informer.HasSynced() || n != 1 {
					s.t.Errorf("synced %t with %d works", informer.HasSynced(), n)
				}
			})
		})
	}
}

// TestInitialSyncFromStore: an agent shows the works of its Store without a broker, unless Sources
// names a source that the Store was not used with.
func TestInitialSyncFromStore(t *testing.T) {
	for _, tc := range []struct {
		name        string
		before, now []string
		synced      bool
	}{
		{"the same sources", []string{"hub"}, []string{"hub"}, true},
		{"fewer sources", []string{"hub", "hub2"}, []string{"hub"}, true},
		{"no source is named after the restart", []string{"hub"}, nil, true},
		{"no source is named", nil, nil, true},
		{"the first source is named", nil, []string{"hub"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				for _, id := range []string{"hub", "hub2"} {
					s.source(work.SourceOptions{SourceID: id}).complete()
				}
				options := work.AgentOptions{Sources: tc.before, Store: work.NewMemoryStore(), InitialSyncTimeout: time.Hour}
				a := s.agent(options)
				a.names()
				s.settle()
				a.kill()
				s.bus.Disconnect()
				options.Sources = tc.now
				a = s.agent(options)
				informer := s.informer(workinformers.NewSharedInformerFactory(a.Clientset(), 0))
				time.Sleep(time.Minute)
				if informer.HasSynced() != tc.synced {
					s.t.Errorf("synced %t, want %t", !tc.synced, tc.synced)
				}
				s.bus.Reconnect()
				time.Sleep(time.Minute)
				if !informer.HasSynced() {
					s.t.Error("not synced with its sources")
				}
			})
		})
	}
}

// TestInitialSyncWithLateSource: an agent that started before its source syncs as soon as the
// source has answered and its inventory is complete.
func TestInitialSyncWithLateSource(t *testing.T) {
	for _, complete := range []bool{false, true} {
		t.Run(fmt.Sprintf("inventory complete: %t", complete), func(t *testing.T) {
			inScene(t, func(s *scene) {
				a := s.agent(work.AgentOptions{Sources: []string{"hub"}, InitialSyncTimeout: time.Hour})
				informer := s.informer(workinformers.NewSharedInformerFactory(a.Clientset(), 0))
				s.settle()
				if informer.HasSynced() {
					t.Error("synced before the source was there")
				}
				s.bus.Disconnect()
				h := s.source(work.SourceOptions{})
				if complete {
					h.complete()
				}
				h.create("cluster2", newWork("elsewhere", "1"))
				if complete {
					h.create("cluster1", newWork("app", "1"))
				}
				s.bus.Reconnect()
				for range 3 {
					s.settle()
				}
				if !complete {
					if informer.HasSynced() {
						t.Error("synced before the source has its works")
					}
					h.create("cluster1", newWork("app", "1"))
					h.complete()
					s.settle()
				}
				if n := len(informer.GetStore().List()); !informer.HasSynced() || n != 1 {
					t.Errorf("synced %t with %d works", informer.HasSynced(), n)
				}
			})
		})
	}
}

// TestInitialSyncWaitsForCountedEvents: an informer syncs when all events that the end marker of
// its source's answer counts have arrived, in any order. The agent requests missing events again.
func TestInitialSyncWaitsForCountedEvents(t *testing.T) {
	const late, timeout = time.Second, 5 * time.Second
	type deliver func(cloudevents.Message)
	later := func(m cloudevents.Message, deliver deliver) {
		go func() {
			time.Sleep(late)
			deliver(m)
		}()
	}
	tests := []struct {
		name string
		// event is called with each event of the answer, counted from 0. marker is called with the
		// end marker of the answer.
		event  func(i int, m cloudevents.Message, deliver deliver)
		marker func(m cloudevents.Message, deliver deliver)
		want   time.Duration
		works  int
	}{{
		name:  "the marker arrives first",
		event: func(_ int, m cloudevents.Message, deliver deliver) { later(m, deliver) },
		want:  late, works: 3,
	}, {
		name:   "the marker arrives late",
		marker: later,
		want:   late, works: 3,
	}, {
		name: "one event arrives twice, another late",
		event: func(i int, m cloudevents.Message, deliver deliver) {
			switch i {
			case 0:
				deliver(m)
				deliver(m)
			case 1:
				later(m, deliver)
			default:
				deliver(m)
			}
		},
		want: late, works: 3,
	}, {
		name: "one event is lost",
		event: func(i int, m cloudevents.Message, deliver deliver) {
			if i > 0 {
				deliver(m)
			}
		},
		want: timeout, works: 3,
	}, {
		name: "the marker is lost",
		marker: func() func(cloudevents.Message, deliver) {
			lost := false
			return func(m cloudevents.Message, deliver deliver) {
				if lost {
					deliver(m)
				}
				lost = true
			}
		}(),
		want: timeout, works: 3,
	}}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				for i := range 3 {
					h.create("cluster1", newWork(fmt.Sprintf("w%d", i), "1"))
				}
				h.complete()
				s.settle()
				events := 0
				s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
					switch {
					case m.Topic == "/sources/hub/clusters/cluster1/manifests" && tc.event != nil:
						tc.event(events, m, deliver)
						events++
					case m.Topic == "/sources/hub/clusters/cluster1/statusresync" && tc.marker != nil:
						tc.marker(m, deliver)
					default:
						deliver(m)
					}
				})
				began := time.Now()
				a := s.agent(work.AgentOptions{Sources: []string{"hub"}, InitialSyncTimeout: timeout})
				ctx, cancel := context.WithTimeout(s.t.Context(), time.Hour)
				defer cancel()
				list, err := a.works().List(ctx, metav1.ListOptions{})
				if err != nil {
					s.t.Fatal(err)
				}
				if took := time.Since(began); took != tc.want || len(list.Items) != tc.works {
					time.Sleep(late) // for late events
					s.t.Errorf("%d works after %s, want %d after %s", len(list.Items), took, tc.works, tc.want)
				}
			})
		})
	}
}

// TestGetBeforeInitialSync: a missing work may still arrive, so Get and Patch wait for the answers
// of the sources. They return immediately for an existing work.
func TestGetBeforeInitialSync(t *testing.T) {
	inScene(t, func(s *scene) {
		a := s.agent(work.AgentOptions{Sources: []string{"hub", "absent"}, PartialSyncTimeout: time.Minute})
		waiting := map[string]func(context.Context, string) error{
			"get": func(ctx context.Context, name string) error {
				_, err := a.works().Get(ctx, name, metav1.GetOptions{})
				return err
			},
			"patch": func(ctx context.Context, name string) error {
				_, err := a.works().Patch(ctx, name, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
				return err
			},
		}
		began := time.Now()
		for verb, call := range waiting {
			ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
			if err := call(ctx, "app"); !apierrors.IsTimeout(err) || !strings.Contains(err.Error(), "sources absent, hub") {
				t.Errorf("%s of a work that has not arrived: %v", verb, err)
			}
			cancel()
		}
		s.source(work.SourceOptions{}).create("cluster1", newWork("app", "1"))
		s.settle()
		arrived := time.Now()
		for verb, call := range waiting {
			if err := call(s.t.Context(), "app"); err != nil {
				t.Errorf("%s of a work that is there: %v", verb, err)
			}
		}
		if took := time.Since(arrived); took > 0 {
			t.Errorf("a work that is there took %s", took)
		}
		for verb, call := range waiting {
			if err := call(s.t.Context(), "none"); !apierrors.IsNotFound(err) {
				t.Errorf("%s of a work that is not there: %v", verb, err)
			}
		}
		if took := time.Since(began); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("it was certain after %s that a work is not there, not after a minute", took)
		}
	})
}

// TestListBeforeStart: a list waits for an agent that is about to start. It fails after the default
// InitialSyncTimeout if the agent has not started.
func TestListBeforeStart(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Second, time.Hour} {
		t.Run(delay.String(), func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				h.create("cluster1", newWork("app", "1"))
				h.complete()
				s.settle()
				agent, err := work.NewAgent(s.bus.Transport(), work.AgentOptions{ClusterName: "cluster1", Sources: []string{"hub"}})
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					time.Sleep(delay)
					s.run(agent)
				}()
				began := time.Now()
				list, err := agent.Clientset().WorkV1().ManifestWorks("cluster1").List(s.t.Context(), metav1.ListOptions{})
				took := time.Since(began)
				switch {
				case delay < work.DefaultInitialSyncTimeout:
					if err != nil || len(list.Items) != 1 {
						t.Errorf("got %v, want the work", err)
					}
				case !apierrors.IsServiceUnavailable(err) || took != work.DefaultInitialSyncTimeout:
					t.Errorf("got %v after %s", err, took)
				}
				time.Sleep(delay)
				synctest.Wait()
			})
		})
	}
}

// TestInitialSyncEndsWithIncompleteAnswer: the initial sync ends even if the answer differs from
// the announced answer or is slow.
func TestInitialSyncEndsWithIncompleteAnswer(t *testing.T) {
	tests := []struct {
		name    string
		options work.AgentOptions
		prepare func(*scene)
		works   int
		want    time.Duration
	}{{
		name:    "a work over the broker's limit",
		options: work.AgentOptions{},
		prepare: func(s *scene) {
			s.bus.SetMaxPacketSize(4000)
			s.bus.Disconnect() // the limit is not known yet
			h := s.source(work.SourceOptions{})
			h.create("cluster1", newWork("large", strings.Repeat("x", 4000)))
			h.create("cluster1", newWork("small", "1"))
			h.complete()
			s.bus.Reconnect()
			s.settle()
		},
		works: 1,
	}, {
		name:    "resyncs faster than the answer",
		options: work.AgentOptions{ResyncInterval: 3 * time.Second},
		prepare: func(s *scene) {
			h := s.source(work.SourceOptions{QPS: 20, Burst: 1})
			for i := range 100 {
				h.create("cluster1", newWork(fmt.Sprintf("w%d", i), "1"))
			}
			h.complete()
			time.Sleep(time.Minute)
		},
		works: 100,
		want:  10 * time.Second, // 100 works at 20 a second take 5 s
	}}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				tc.prepare(s)
				tc.options.Sources, tc.options.InitialSyncTimeout = []string{"hub"}, time.Hour
				began := time.Now()
				list, err := s.agent(tc.options).works().List(s.t.Context(), metav1.ListOptions{})
				if took := time.Since(began); err != nil || took > tc.want {
					t.Errorf("the first list took %s, want at most %s: %v", took, tc.want, err)
				}
				if err == nil && len(list.Items) != tc.works {
					t.Errorf("the first list has %d works, want %d", len(list.Items), tc.works)
				}
			})
		})
	}
}
