// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// TestStopLatency: in 99 % of the runs, Stop and Terminate end a waiting event within 50 ms.
func TestStopLatency(t *testing.T) {
	for name, act := range map[string]func(s *scene, id string){
		"stop": func(s *scene, id string) {
			if err := s.engine.Stop(s.t.Context(), id); err != nil {
				s.t.Error(err)
			}
		},
		"terminate": func(s *scene, id string) { s.ref(s.engine.Terminate(s.t.Context(), id)) },
	} {
		for _, mode := range []fake.Mode{fake.ModeUnreachable, fake.ModeFailing, fake.ModeBlackHole} {
			t.Run(fmt.Sprint(name, mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t, nil, rsync.Options{})
					s.clusters.Cluster("edge", "c1").SetMode(mode)
					var took []time.Duration
					for i := range 100 {
						id := fmt.Sprint("id", i)
						s.create(id, fmt.Sprintf("web@c1 x%d=1; web@c2 x%d=1", i, i))
						ref := s.ref(s.engine.Instantiate(t.Context(), id))
						time.Sleep(5*time.Second + time.Duration(i)*13*time.Millisecond)
						began := time.Now()
						act(s, id)
						if _, err := s.wait(ref, nil); err == nil {
							t.Fatal("it is done")
						}
						took = append(took, time.Since(began))
					}
					slices.Sort(took)
					t.Logf("p50 %s, p99 %s", took[50], took[98])
					if took[98] > 50*time.Millisecond {
						t.Errorf("p99 is %s", took[98])
					}
				})
			})
		}
	}
}

// TestIdleEngineOnlyRenewsLease: while an engine waits for a cluster, it only renews its lease. It
// makes no other calls to the store.
func TestIdleEngineOnlyRenewsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1")
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeUnreachable)
		s.ref(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(time.Minute)
		before := s.memory.Counts()
		time.Sleep(time.Hour)
		after := s.memory.Counts()
		if after.KeepAlives == before.KeepAlives {
			t.Error("the lease was not renewed")
		}
		after.KeepAlives = before.KeepAlives
		if after != before {
			t.Errorf("in an idle hour the store was asked %+v, before it %+v", after, before)
		}
	})
}

// TestTransactionsPerEvent: the number of transactions does not grow with resources or retries. The
// number of all calls to the store does not grow with resources. Calls by waiting users are not
// counted.
func TestTransactionsPerEvent(t *testing.T) {
	count := func(t *testing.T, resources, clusters int, trouble bool) (txns, calls int) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil, rsync.Options{})
			text := ""
			for c := range clusters {
				text += fmt.Sprintf("web@c%d", c)
				for i := range resources {
					text += fmt.Sprintf(" x%d=1", i)
				}
				text += ";"
				if trouble {
					s.clusters.Cluster("edge", fmt.Sprint("c", c)).SetMode(fake.ModeFailing)
				}
			}
			s.create("a", text)
			time.Sleep(time.Second)
			before := s.memory.Counts()
			ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
			if trouble {
				time.Sleep(time.Hour)
				for c := range clusters {
					s.clusters.Cluster("edge", fmt.Sprint("c", c)).SetMode(fake.ModeWorks)
				}
			}
			time.Sleep(time.Minute)
			after := s.memory.Counts()
			txns = after.Txns - before.Txns
			calls = txns + after.Gets - before.Gets + after.Ranges - before.Ranges
			s.done(ref, nil)
			if more := s.memory.Counts().Txns - after.Txns; more != 0 {
				t.Errorf("after a minute the event was not done: %d more transactions", more)
			}
		})
		return txns, calls
	}
	one, oneCalls := count(t, 1, 1, false)
	hundred, hundredCalls := count(t, 100, 1, false)
	if one != hundred || one > 4 {
		t.Errorf("with one resource there are %d transactions, with a hundred %d", one, hundred)
	}
	if oneCalls != hundredCalls || oneCalls > 8 {
		t.Errorf("with one resource there are %d calls, with a hundred %d", oneCalls, hundredCalls)
	}
	ten, _ := count(t, 100, 10, false)
	if ten > 3+10 {
		t.Errorf("on ten clusters there are %d transactions", ten)
	}
	thousand, _ := count(t, 1, 1000, false)
	if thousand > 3+1000 {
		t.Errorf("on a thousand clusters there are %d transactions", thousand)
	}
	hour, _ := count(t, 100, 10, true)
	if hour > 3+2*10 {
		t.Errorf("after an hour of trouble there are %d transactions", hour)
	}
	t.Logf("calls of the store: 1 resource %d, 100 resources %d", oneCalls, hundredCalls)
	t.Logf("transactions: 1 resource %d, 100 resources %d, on 10 clusters %d, on 1000 %d, on 10 with an hour of retries %d", one, hundred, ten, thousand, hour)
}
