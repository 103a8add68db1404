// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

// consolidateEarly consolidates from four objects, so tests can easily have more.
var consolidateEarly = dynamicwatcher.Options{Consolidate: &dynamicwatcher.ConsolidateOptions{MinObjects: 4,
	MaxRatio: 5}}

func secret(i int) dynamicwatcher.ObjectIdentifier { return id(fakeapi.Secret, "ns", strconv.Itoa(i)) }

// watchSecrets makes watchers 0, 1, … watch one secret each, and waits until they are idle. Every
// fourth secret does not exist.
func (x *fixture) watchSecrets(n int) {
	x.t.Helper()
	for i := range n {
		if i%4 != 3 {
			x.put(secret(i))
		}
	}
	for i := range n {
		x.must(x.AddWatcher(policy(strconv.Itoa(i)), secret(i)))
	}
	x.after(30 * time.Second)
	x.r.take()
}

// shared checks the number of objects that share a watch, and the number of all streams.
func (x *fixture) shared(reason string, objects, streams int) {
	x.t.Helper()
	got := 0
	for _, s := range x.Status() {
		if s.Consolidated {
			got++
		}
	}
	if c := x.api.Counts(); got != objects || c.Streams != streams {
		x.t.Fatalf("%s: %d objects share a watch, and there are %d streams: want %d and %d", reason, got, c.Streams, objects,
			streams)
	}
}

// exact creates, updates and deletes one object, and checks that only its watcher is notified.
func (x *fixture) exact(i int) {
	x.t.Helper()
	o, watcher := secret(i), policy(strconv.Itoa(i))
	if x.api.Get(fakeapi.Secret, "ns", o.Name) == nil {
		x.put(o)
		x.expect("it was created", watcher)
	}
	version := x.put(o, "changed", "yes")
	want := dynamicwatcher.Trigger{Watched: o, Type: dynamicwatcher.TriggerModified, Namespace: "ns", Name: o.Name,
		ResourceVersion: version}
	if got := x.trigger(x.expect("it changed", watcher)); got != want {
		x.t.Errorf("the trigger is %+v, not %+v", got, want)
	}
	x.remove(o)
	if got := x.trigger(x.expect("it was deleted", watcher)); got.Type != dynamicwatcher.TriggerDeleted {
		x.t.Errorf("the trigger is %+v", got)
	}
	x.put(o)
	x.expect("it was added again", watcher)
}

func TestManyObjectsShareOneWatch(t *testing.T) {
	for _, plain := range []bool{false, true} {
		t.Run("watchList="+strconv.FormatBool(!plain), func(t *testing.T) {
			script(t, consolidateEarly, func(x *fixture) {
				x.api.Plain = plain
				x.put(id(fakeapi.Secret, "ns", "other"))
				for i := range 10 {
					if i != 5 {
						x.put(secret(i))
					}
				}
				for i := range 3 {
					x.must(x.AddWatcher(policy(strconv.Itoa(i)), secret(i)))
				}
				x.after(time.Minute)
				x.expect("they exist", policy("0"), policy("1"), policy("2"))
				x.shared("too few", 0, 3)
				for i := 3; i < 10; i++ {
					x.must(x.AddWatcher(policy(strconv.Itoa(i)), secret(i)))
				}
				x.after(200 * time.Millisecond)
				x.expect("they exist; 5 does not", policy("3"), policy("4"), policy("6"), policy("7"), policy("8"), policy("9"))
				x.after(time.Minute)
				x.expect("one watch has taken over")
				x.shared("taken over", 10, 1)
				for i := range 10 {
					x.exact(i)
				}
				x.put(id(fakeapi.Secret, "ns", "other"), "changed", "yes")
				x.put(id(fakeapi.Secret, "elsewhere", "1"))
				x.put(id(fakeapi.ConfigMap, "ns", "1"))
				x.after(time.Minute)
				x.expect("no watcher has them")
				if n := x.GetWatchCount(); n != 10 {
					t.Errorf("%d objects are watched", n)
				}
				for _, s := range x.Status() {
					if s.State != dynamicwatcher.StateActive || s.Restarts != 0 || s.Err != nil || s.Watchers != 1 ||
						s.ResourceVersion == "" {
						t.Errorf("the status is %+v", s)
					}
				}
			})
		})
	}
}

// TestChangesDuringConsolidationAreReportedOnce checks that changes are reported once while a
// shared watch takes over from single watches, and while it gives back. The changes occur at each
// millisecond of the transition, to objects that exist, that are created, and that are created and
// deleted.
func TestChangesDuringConsolidationAreReportedOnce(t *testing.T) {
	change := func(x *fixture, n int) {
		x.put(secret(0), "n", strconv.Itoa(n))
		x.remove(secret(1))
		x.put(secret(1))
		x.put(secret(3))
		x.remove(secret(3))
	}
	for _, slow := range []string{"none", "0", "1", "3", "wide", "single"} { // the watch with slow requests or events
		for _, fault := range []fakeapi.Fault{{Delay: 20 * time.Millisecond}, {Lag: 20 * time.Millisecond},
			{Lag: time.Second}} {
			plain := slow == "3" || slow == "0" && fault.Lag > 0
			t.Run(fmt.Sprintf("slow=%s delay=%v lag=%v watchList=%t", slow, fault.Delay, fault.Lag, !plain), func(t *testing.T) {
				script(t, consolidateEarly, func(x *fixture) {
					x.api.Plain = plain
					x.api.Hook(func(q fakeapi.Request) fakeapi.Fault {
						if q.Verb != "discovery" && (q.Name == slow || q.Name == "" && slow == "wide" || q.Name != "" &&
							slow == "single") {
							return fault
						}
						return fakeapi.Fault{}
					})
					last := map[string]string{}
					x.r.do = func(_ context.Context, w dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
						last[w.Name] = ""
						if u := x.api.Get(fakeapi.Secret, "ns", w.Name); u != nil {
							last[w.Name] = u.GetResourceVersion()
						}
						return reconcile.Result{}, nil
					}
					churn := func(d time.Duration, initial int) {
						for n := range d / time.Millisecond {
							change(x, int(n))
							x.after(time.Millisecond)
						}
						x.after(20 * time.Second)
						for _, i := range []string{"0", "1", "3"} {
							want := ""
							if u := x.api.Get(fakeapi.Secret, "ns", i); u != nil {
								want = u.GetResourceVersion()
							}
							if last[i] != want {
								x.t.Fatalf("%s was last seen at %q, and is at %q", i, last[i], want)
							}
						}
						perWatcher := map[string]int{}
						for _, c := range x.r.take() {
							perWatcher[c.Watcher.Name]++
						}
						for i, most := range map[string]int{"0": 1, "1": 2, "2": 0, "3": 2} {
							if got := perWatcher[i]; got > most*int(d/time.Millisecond)+initial {
								t.Errorf("%d reconciles of %s in %v", got, i, d)
							}
						}
					}
					x.watchSecrets(3)
					for i := 2; i < 6; i++ {
						x.must(x.AddWatcher(policy(strconv.Itoa(i)), secret(i)))
					}
					x.after(10 * time.Millisecond)
					x.r.take()
					churn(300*time.Millisecond, 1)
					x.shared("taken over", 6, 1)
					for i := range 6 {
						if i == 2 || i > 3 {
							x.must(x.RemoveWatcher(policy(strconv.Itoa(i))))
						}
					}
					x.must(x.AddWatcher(policy("2"), secret(2)))
					x.must(x.RemoveWatcher(policy("2")))
					x.must(x.AddWatcher(policy("1"), secret(1)))
					x.r.take()
					churn(300*time.Millisecond, 0)
				})
			})
		}
	}
}

// TestShortLivedObjectDuringConsolidation checks an object that is created and deleted just before
// the streams change over, with late events. A watcher that saw the object in a reconcile must be
// notified of its end.
func TestShortLivedObjectDuringConsolidation(t *testing.T) {
	for name, giveBack := range map[string]bool{"take over": false, "give back": true} {
		t.Run(name, func(t *testing.T) {
			script(t, consolidateEarly, func(x *fixture) {
				late := func(q fakeapi.Request) bool { return q.Name == "3" && !giveBack || q.Name == "" && giveBack }
				x.api.Hook(func(q fakeapi.Request) fakeapi.Fault {
					return fakeapi.Fault{Lag: map[bool]time.Duration{true: 2 * time.Second}[q.Verb == "watch" && late(q)]}
				})
				seen := false
				x.r.do = func(_ context.Context, w dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
					if w.Name == "3" {
						seen = x.api.Get(fakeapi.Secret, "ns", "3") != nil
					}
					return reconcile.Result{}, nil
				}
				glimpse := func() {
					x.put(secret(3))
					x.put(id(fakeapi.ConfigMap, "ns", "a"))
					x.after(time.Millisecond)
					x.expect("another object has changed", policy("3"))
					if !seen {
						x.t.Fatal("it was not seen")
					}
					x.remove(secret(3))
				}
				x.must(x.AddWatcher(policy("3"), id(fakeapi.ConfigMap, "ns", "a")))
				if giveBack {
					x.watchSecrets(4)
					x.shared("taken over", 4, 2)
					glimpse()
					for i := range 3 {
						x.must(x.RemoveWatcher(policy(strconv.Itoa(i))))
					}
					x.after(30 * time.Second)
					x.shared("given back", 0, 2)
				} else {
					x.must(x.AddWatcher(policy("3"), secret(3)))
					x.after(time.Second) // the other objects may wait for the stream that takes over
					for i := range 3 {
						x.must(x.AddWatcher(policy(strconv.Itoa(i)), secret(i)))
					}
					x.after(40 * time.Millisecond)
					glimpse()
					x.after(30 * time.Second)
					x.shared("taken over", 4, 2)
				}
				if n := len(x.r.take()); n < 1 || n > 2 || seen {
					t.Errorf("%d reconciles, and the last has seen an object: %t", n, seen)
				}
			})
		})
	}
}

// TestConsolidationIsNoInterruption checks that consolidation does not cause the notification that
// NotifyAlways sends after an interruption.
func TestConsolidationIsNoInterruption(t *testing.T) {
	options := consolidateEarly
	options.Reconnect = dynamicwatcher.NotifyAlways
	script(t, options, func(x *fixture) {
		x.watchSecrets(3)
		x.must(x.AddWatcher(policy("3"), secret(3)))
		x.after(time.Minute)
		x.shared("taken over", 4, 1)
		x.expect("not interrupted")
		x.faulty("watch", fakeapi.Fault{Delay: time.Second})
		for i := 1; i < 4; i++ {
			x.must(x.RemoveWatcher(policy(strconv.Itoa(i))))
		}
		x.after(500 * time.Millisecond)
		x.state(dynamicwatcher.StateActive)
		x.after(time.Minute)
		x.shared("given back", 0, 1)
		x.expect("not interrupted")
	})
}

func TestSharedWatchEndsWhenFewObjectsAreLeft(t *testing.T) {
	script(t, consolidateEarly, func(x *fixture) {
		x.watchSecrets(8)
		x.shared("taken over", 8, 1)
		for i := 7; i > 1; i-- {
			x.must(x.RemoveWatcher(policy(strconv.Itoa(i))))
			x.after(time.Minute)
		}
		x.shared("half are enough", 2, 1)
		x.exact(0)
		x.must(x.RemoveWatcher(policy("1")))
		x.put(secret(0))
		x.expect("it is being given back", policy("0"))
		x.after(time.Second)
		x.put(secret(0))
		x.expect("it has both watches", policy("0"))
		x.after(time.Minute)
		x.expect("nothing has changed")
		x.shared("given back", 0, 1)
		x.exact(0)
		x.must(x.RemoveWatcher(policy("0")))
		x.after(0)
		x.shared("no watcher is left", 0, 0)
	})
}

// TestSharedWatchEndsWhenNamespaceGrows checks that single watches are kept if the namespace is too
// large, and return if it grows. A namespace that shrinks is taken over later.
func TestSharedWatchEndsWhenNamespaceGrows(t *testing.T) {
	for _, plain := range []bool{false, true} {
		script(t, consolidateEarly, func(x *fixture) {
			x.api.Plain = plain
			other := func(i int) dynamicwatcher.ObjectIdentifier {
				return id(fakeapi.Secret, "ns", "other-"+strconv.Itoa(i))
			}
			for i := range 30 {
				x.put(other(i))
			}
			x.watchSecrets(4)
			x.shared("33 are more than 20", 0, 4)
			for i := range 20 {
				x.remove(other(i))
			}
			x.after(10 * time.Minute)
			x.shared("it has become smaller", 4, 1)
			for i := range 20 {
				x.put(other(i))
			}
			x.after(time.Minute)
			x.shared("33 are less than 40", 4, 1)
			for i := range 20 {
				x.put(other(100 + i))
			}
			x.after(30 * time.Second)
			x.shared("53 are more than 40", 0, 4)
			x.expect("all that was about others")
			x.exact(0)
		})
	}
}

func TestObjectsJoinAndLeaveSharedWatch(t *testing.T) {
	script(t, consolidateEarly, func(x *fixture) {
		x.watchSecrets(4)
		x.put(secret(10))
		x.must(x.AddWatcher(p, secret(10)))
		x.must(x.WaitForSync(x.t.Context(), p))
		x.expect("it exists", p)
		x.shared("it has joined", 5, 1)
		x.must(x.AddWatcher(q, secret(10)))
		x.expect("it exists, and was known to", q)
		x.put(secret(10))
		x.expect("it changed", p, q)
		x.must(x.RemoveWatcher(p))
		x.put(secret(10))
		x.expect("it changed", q)
		x.must(x.RemoveWatcher(q))
		x.put(secret(10))
		x.expect("it has no watcher")
		x.shared("it has left", 4, 1)
		x.faulty("watch", fakeapi.Fault{Delay: time.Second})
		x.must(x.AddWatcher(p, secret(10)))
		for range 20 {
			x.put(secret(10))
			x.after(100 * time.Millisecond)
		}
		if n := len(x.r.take()); n < 10 || n > 12 {
			t.Errorf("%d reconciles for 10 changes after a second", n)
		}
		x.shared("it has joined slowly", 5, 1)
	})
}

// TestSelectorsKeepTheirOwnWatches checks that selectors keep their own watches, and do not count.
func TestSelectorsKeepTheirOwnWatches(t *testing.T) {
	script(t, consolidateEarly, func(x *fixture) {
		for i := range 3 {
			x.must(x.AddWatcher(p, secret(i)))
			x.must(x.AddWatcher(p, matching(fakeapi.Secret, "ns", "app="+strconv.Itoa(i))))
		}
		x.after(time.Minute)
		x.shared("three are too few", 0, 6)
		x.must(x.AddWatcher(p, secret(3)))
		x.after(time.Minute)
		x.shared("four are enough", 4, 4)
	})
}

func TestRemovalAndShutdownDuringConsolidation(t *testing.T) {
	for name, reach := range map[string]func(x *fixture){
		"held":        func(*fixture) {},
		"taking over": func(x *fixture) { x.after(55 * time.Millisecond) },
		"taken over":  func(x *fixture) { x.after(2 * time.Second) },
		"served":      func(x *fixture) { x.after(time.Minute) },
		"hanging":     func(x *fixture) { x.faulty("", fakeapi.Fault{Hang: true}); x.after(time.Second) },
		"lost":        func(x *fixture) { x.after(time.Minute); x.api.Stop(); x.after(5 * time.Second) },
		"lost, hanging": func(x *fixture) {
			x.after(time.Minute)
			x.faulty("", fakeapi.Fault{Hang: true})
			x.api.Disconnect()
			x.after(5 * time.Second)
		},
		"refused": func(x *fixture) { x.faulty("", fakeapi.Fault{Status: 403}); x.after(time.Minute) },
		"giving back": func(x *fixture) {
			x.after(time.Minute)
			for i := range 3 {
				x.must(x.RemoveWatcher(policy(strconv.Itoa(i))))
			}
			x.after(time.Second)
		},
	} {
		for _, removal := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s removal=%t", name, removal), func(t *testing.T) {
				script(t, consolidateEarly, func(x *fixture) {
					for i := range 4 {
						x.put(secret(i))
						x.must(x.AddWatcher(policy(strconv.Itoa(i)), secret(i)))
					}
					reach(x)
					if !removal {
						return // the fixture checks the time of the shutdown
					}
					began := time.Now()
					for i := range 4 {
						x.must(x.RemoveWatcher(policy(strconv.Itoa(i))))
					}
					if d := time.Since(began); d != 0 || x.GetWatchCount() != 0 {
						t.Errorf("the removal took %v and left %d watches", d, x.GetWatchCount())
					}
					x.after(0)
					if n := x.api.Counts().Streams; n != 0 {
						t.Errorf("%d streams are left", n)
					}
				})
			})
		}
	}
}

// TestObjectsAddedBeforeStartShareOneWatch checks that objects that are added before the start
// share one watch.
func TestObjectsAddedBeforeStartShareOneWatch(t *testing.T) {
	unstarted(t, dynamicwatcher.Options{Consolidate: &dynamicwatcher.ConsolidateOptions{}}, func(x *fixture) {
		for i := range 500 {
			x.put(secret(i))
			x.must(x.AddWatcher(p, secret(i)))
		}
		x.faulty("watch", fakeapi.Fault{Delay: 300 * time.Millisecond})
		x.start()
		x.must(x.WaitForSync(x.t.Context(), p))
		x.after(time.Minute)
		x.shared("taken over", 500, 1)
	})
}
