// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// TestBlackHole: one of ten clusters answers no calls. The other nine clusters need about the same
// time as without it.
func TestBlackHole(t *testing.T) {
	const contexts, clusters = 40, 10
	run := func(t *testing.T, hole bool) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil, rsync.Options{ClusterConcurrency: 4})
			for c := range clusters {
				s.clusters.Cluster("edge", fmt.Sprint("c", c)).SetDelay(100 * time.Millisecond)
			}
			if hole {
				s.clusters.Cluster("edge", "c0").SetMode(fake.ModeBlackHole)
			}
			for i := range contexts {
				text := ""
				for c := range clusters {
					text += fmt.Sprintf("web@c%d x%d=1;", c, i)
				}
				s.create(fmt.Sprint("id", i), text)
			}
			began := time.Now()
			for i := range contexts {
				s.ref(s.engine.Instantiate(t.Context(), fmt.Sprint("id", i)))
			}
			time.Sleep(time.Minute)
			for c := 1; c < clusters; c++ {
				calls := s.clusters.Cluster("edge", fmt.Sprint("c", c)).Calls()
				if len(calls) != contexts {
					t.Fatalf("cluster %d did %d of %d", c, len(calls), contexts)
				}
				took = max(took, calls[len(calls)-1].Time.Sub(began))
			}
		})
		return took
	}
	healthy, black := run(t, false), run(t, true)
	t.Logf("healthy %s, with a black hole %s", healthy, black)
	if float64(black) > 1.1*float64(healthy) {
		t.Errorf("nine clusters take %s with a black hole and %s without", black, healthy)
	}
}

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

// TestIdle: while an engine waits for a cluster, it only renews its lease. It makes no other calls
// to the store.
func TestIdle(t *testing.T) {
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

// TestDeadCluster: a thousand contexts wait for one cluster. The cluster receives at most one probe
// per second in total. All events end within a second after it recovers.
func TestDeadCluster(t *testing.T) {
	const contexts = 1000
	for _, mode := range []fake.Mode{fake.ModeUnreachable, fake.ModeBlackHole} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil, rsync.Options{})
			c := s.clusters.Cluster("edge", "c1")
			c.SetMode(mode)
			var refs []rsync.EventRef
			for i := range contexts {
				s.create(fmt.Sprint("id", i), fmt.Sprintf("web@c1 x%d=1", i))
				refs = append(refs, s.ref(s.engine.Instantiate(t.Context(), fmt.Sprint("id", i))))
			}
			time.Sleep(10*time.Minute + 123*time.Millisecond)
			probes := c.Probes()
			if len(probes) < 500 {
				t.Errorf("only %d probes", len(probes))
			}
			for i := range probes[1:] {
				if d := probes[i+1].Sub(probes[i]); d < time.Second {
					t.Errorf("probes %d and the next are %s apart", i, d)
				}
			}
			goroutines := runtime.NumGoroutine()
			began := time.Now()
			c.SetMode(fake.ModeWorks)
			for _, ref := range refs {
				s.done(ref, nil)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("they took %s", took)
			}
			t.Logf("%d probes in ten minutes, %d goroutines, all resumed in %s", len(probes), goroutines, time.Since(began))
			if goroutines > 100 {
				t.Errorf("%d goroutines wait", goroutines)
			}
		})
	}
}

// TestUpdatesLeadToTheUpdate: random contexts have moves, renames and changes, and a random walk of
// updates leads through them. After each update the clusters have exactly the objects of the new
// context. No update deletes one of these objects.
func TestUpdatesLeadToTheUpdate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(rt, "contexts")
		texts := make([]string, n)
		wants := make([]map[string]string, n)
		for i := range texts {
			texts[i], wants[i] = drawText(rt)
		}
		walk := rapid.SliceOfN(rapid.IntRange(0, n-1), 1, 5).Draw(rt, "walk")
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil, rsync.Options{})
			for i, text := range texts {
				s.create(fmt.Sprint("id", i), text)
			}
			at := walk[0]
			s.done(s.engine.Instantiate(t.Context(), fmt.Sprint("id", at)))
			for _, next := range walk[1:] {
				if next == at {
					continue
				}
				for c := range 3 {
					s.clusters.Cluster("edge", fmt.Sprint("c", c)).Forget()
				}
				s.done(s.engine.Update(t.Context(), fmt.Sprint("id", at), fmt.Sprint("id", next)))
				at = next
				for c := range 3 {
					cluster := fmt.Sprint("c", c)
					if got := s.objects(cluster); got != wants[at][cluster] {
						t.Errorf("walk %v of %q: %s has %q, want %q", walk, texts, cluster, got, wants[at][cluster])
					}
					for _, call := range s.clusters.Cluster("edge", cluster).Calls() {
						if call.Verb == fake.VerbDelete && strings.Contains(" "+wants[at][cluster], " "+call.Object.Name+"=") {
							t.Errorf("%s was deleted on %s, which the update has", call.Object.Name, cluster)
						}
					}
				}
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// drawText returns a random text of a context, and the objects of that context on each cluster.
func drawText(t *rapid.T) (string, map[string]string) {
	apps := map[string][]string{}
	want := map[string]string{}
	for c := range 3 {
		var list []string
		for _, name := range []string{"u", "v", "w", "x"} {
			if app := rapid.SampledFrom([]string{"", "a1", "a2", "a3"}).Draw(t, "app"); app != "" {
				object := fmt.Sprintf("%s=%d", name, rapid.IntRange(1, 2).Draw(t, "value"))
				key := fmt.Sprintf("%s@c%d", app, c)
				apps[key] = append(apps[key], object)
				list = append(list, object)
			}
		}
		slices.Sort(list)
		want[fmt.Sprint("c", c)] = strings.Join(list, " ")
	}
	text := ""
	for _, key := range slices.Sorted(maps.Keys(apps)) {
		text += key + " " + strings.Join(apps[key], " ") + "; "
	}
	return text, want
}

// TestWatchResumes: a watch that continues after another watch returns each change once.
func TestWatchResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1; web@c2 x=1")
		status, err := s.engine.Status(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.done(s.engine.Terminate(t.Context(), "a"))
		read := func(breakEach bool) (out []string) {
			from := status.Revision + 1
			for done := false; !done; {
				for c, err := range s.engine.Watch(t.Context(), "a", from) {
					if err != nil {
						t.Fatal(err)
					}
					if breakEach && c.Revision >= from {
						from = c.Revision // again, including the changes of the same revision
					}
					switch {
					case c.Element != nil:
						out = append(out, fmt.Sprintf("%d:%s %s", c.Revision, c.Element.Event, c.Element.Status))
					case c.Cluster != nil:
						out = append(out, fmt.Sprintf("%d:%s %s", c.Revision, c.Cluster.Cluster, c.Cluster.Phase))
					case c.State != "":
						out = append(out, fmt.Sprintf("%d:%s", c.Revision, c.State))
					}
					if done = c.State == rsync.Terminated; done {
						break
					}
				}
			}
			return out
		}
		whole := read(false)
		if len(whole) < 8 {
			t.Errorf("only %v", whole)
		}
		if diff := cmp.Diff(whole, read(false)); diff != "" {
			t.Errorf("-first +second:\n%s", diff)
		}
	})
}
