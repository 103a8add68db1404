// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

var cached = dynamicwatcher.Options{EnableCache: true, MissingKind: dynamicwatcher.Wait}

func TestQueryBatchReplacesWatches(t *testing.T) {
	script(t, cached, func(x *fixture) {
		x.put(secretA, "app", "x")
		x.put(secretB, "app", "x")
		x.watch(id(fakeapi.ConfigMap, "ns", "old"))
		x.must(x.StartQueryBatch(p))
		got, err := x.Get(p, fakeapi.Secret, "ns", "a")
		if err != nil || got.GetName() != "a" || got.GetLabels()["app"] != "x" {
			x.t.Fatalf("Get returned %v, %v", got, err)
		}
		got.SetLabels(nil) // a copy
		if none, err := x.Get(p, fakeapi.Secret, "ns", "none"); none != nil || err != nil {
			x.t.Fatalf("Get of what is not there returned %v, %v", none, err)
		}
		list, err := x.List(p, fakeapi.Secret, "ns", labels.SelectorFromSet(labels.Set{"app": "x"}))
		if err != nil || len(list) != 2 || list[0].GetName() != "a" || list[1].GetName() != "b" ||
			list[0].GetLabels()["app"] != "x" {
			x.t.Fatalf("List returned %v, %v", list, err)
		}
		if all, err := x.List(p, fakeapi.Secret, "", nil); err != nil || len(all) != 2 {
			x.t.Fatalf("List of all returned %v, %v", all, err)
		}
		if nothing, err := x.List(p, fakeapi.Secret, "ns", labels.Nothing()); err != nil || len(nothing) != 0 {
			x.t.Fatalf("List of nothing returned %v, %v", nothing, err)
		}
		for call, err := range map[string]error{
			"AddOrUpdateWatcher": x.AddOrUpdateWatcher(p, secretA), "AddWatcher": x.AddWatcher(p, secretA),
			"StartQueryBatch": x.StartQueryBatch(p),
		} {
			if !errors.Is(err, dynamicwatcher.ErrQueryBatchInProgress) {
				t.Errorf("during a batch %s returned %v", call, err)
			}
		}
		x.must(x.EndQueryBatch(p))
		if got := x.WatchesOf(p); len(got) != 4 || x.GetWatchCount() != 4 {
			x.t.Fatalf("after the batch p watches %v", got)
		}
		x.after(time.Second)
		x.r.take()
		x.put(id(fakeapi.Secret, "ns", "none"))
		x.after(0)
		if len(x.r.take()) == 0 {
			t.Error("what was asked for is not watched")
		}
		if all, err := x.ListWatchedFromCache(p); err != nil || len(all) != 3 {
			t.Errorf("the cache has %d objects, %v", len(all), err)
		}
		if got, err := x.GetFromCache(fakeapi.Secret, "ns", "none"); err != nil || got == nil {
			t.Errorf("the cache has %v, %v", got, err)
		}
		if _, err := x.GetFromCache(fakeapi.ConfigMap, "ns", "old"); !errors.Is(err, dynamicwatcher.ErrNoCacheEntry) {
			t.Errorf("what is not watched any more is an error %v", err)
		}
	})
}

func TestAbortedQueryBatchRestoresWatches(t *testing.T) {
	failed := errors.New("on purpose")
	old := id(fakeapi.ConfigMap, "ns", "old")
	for name, batch := range map[string]func(x *fixture) error{
		"aborted": func(x *fixture) error {
			x.must(x.StartQueryBatch(p))
			if _, err := x.Get(p, fakeapi.Secret, "ns", "a"); err != nil {
				return err
			}
			x.must(x.AbortQueryBatch(p))
			return failed
		},
		"failed": func(x *fixture) error {
			return x.QueryBatch(x.t.Context(), p, func(r dynamicwatcher.Querier) error {
				if _, err := r.Get(p, fakeapi.Secret, "ns", "a"); err != nil {
					return err
				}
				return failed
			})
		},
		"panicked": func(x *fixture) (err error) {
			defer func() { err, _ = recover().(error) }()
			return x.QueryBatch(x.t.Context(), p, func(r dynamicwatcher.Querier) error {
				if _, err := r.List(p, fakeapi.Secret, "ns", nil); err != nil {
					return err
				}
				panic(failed)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			script(t, cached, func(x *fixture) {
				x.watch(old)
				if err := batch(x); !errors.Is(err, failed) {
					x.t.Fatalf("the batch ended with %v", err)
				}
				x.after(0)
				if got := x.WatchesOf(p); len(got) != 1 || got[0] != old || x.api.Counts().Streams != 1 {
					t.Errorf("p watches %v, on %d streams", got, x.api.Counts().Streams)
				}
				for call, err := range map[string]error{"EndQueryBatch": x.EndQueryBatch(p),
					"AbortQueryBatch": x.AbortQueryBatch(p)} {
					if !errors.Is(err, dynamicwatcher.ErrQueryBatchNotStarted) {
						t.Errorf("without a batch %s returned %v", call, err)
					}
				}
				x.put(old)
				x.expect("it is watched as before", p)
			})
		})
	}
}

func TestInvalidQueriesAreRejected(t *testing.T) {
	script(t, cached, func(x *fixture) {
		if _, err := x.Get(p, fakeapi.Secret, "ns", "a"); !errors.Is(err, dynamicwatcher.ErrQueryBatchNotStarted) {
			t.Errorf("without a batch Get returned %v", err)
		}
		x.must(x.StartQueryBatch(p))
		asked := len(x.api.Requests())
		for _, names := range [][2]string{{"ns", ""}, {"ns", "a/b"}, {"..", "a"}, {"a/b", "c"}} {
			if _, err := x.Get(p, fakeapi.Secret, names[0], names[1]); !errors.Is(err, dynamicwatcher.ErrInvalidInput) {
				t.Errorf("Get of %q returned %v", names, err)
			}
		}
		if _, err := x.List(p, fakeapi.Secret, "../..", nil); !errors.Is(err, dynamicwatcher.ErrInvalidInput) {
			t.Errorf("List returned %v", err)
		}
		if n := len(x.api.Requests()); n != asked {
			t.Errorf("the server was asked: %v", x.api.Requests()[asked:])
		}
		x.must(x.EndQueryBatch(p))
	})
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		_, get := x.GetFromCache(fakeapi.Secret, "ns", "a")
		_, list := x.ListFromCache(fakeapi.Secret, "ns", nil)
		_, watched := x.ListWatchedFromCache(p)
		for call, err := range map[string]error{"StartQueryBatch": x.StartQueryBatch(p), "GetFromCache": get,
			"ListFromCache": list, "ListWatchedFromCache": watched} {
			if !errors.Is(err, dynamicwatcher.ErrCacheDisabled) {
				t.Errorf("without a cache %s returned %v", call, err)
			}
		}
	})
}

func TestQueryOfSlowServer(t *testing.T) {
	script(t, cached, func(x *fixture) {
		x.watch(secretB)
		x.faulty("watch", fakeapi.Fault{Hang: true})
		began := time.Now()
		err := x.QueryBatch(x.t.Context(), p, func(r dynamicwatcher.Querier) error {
			_, err := r.Get(p, fakeapi.Secret, "ns", "a")
			return err
		})
		if d := time.Since(began); err == nil || d != 10*time.Second {
			t.Errorf("after %v the batch returned %v", d, err)
		}
		if got := x.WatchesOf(p); len(got) != 1 || got[0] != secretB {
			t.Errorf("p watches %v", got)
		}
	})
}

// TestObjectThatWasReadCausesNoReconcile checks that objects that a query batch has read cause no
// reconcile, whether they exist or not. Later changes do.
func TestObjectThatWasReadCausesNoReconcile(t *testing.T) {
	options := cached
	options.BatchWindow = 10 * time.Millisecond // events of several watches cause one reconcile
	script(t, options, func(x *fixture) {
		x.put(secretA, "app", "x")
		var meanwhile func()
		x.r.do = func(ctx context.Context, w dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
			return reconcile.Result{}, x.QueryBatch(ctx, w, func(r dynamicwatcher.Querier) error {
				for _, name := range []string{"a", "b"} {
					if _, err := r.Get(w, fakeapi.Secret, "ns", name); err != nil {
						return err
					}
				}
				if meanwhile != nil {
					meanwhile()
				}
				_, err := r.List(w, fakeapi.Secret, "ns", labels.SelectorFromSet(labels.Set{"app": "x"}))
				return err
			})
		}
		x.must(x.AddWatcher(p, id(fakeapi.ConfigMap, "ns", "a")))
		x.put(id(fakeapi.ConfigMap, "ns", "a"))
		x.after(time.Minute)
		x.expect("its own reconcile has read the rest", p)
		x.must(x.AddWatcher(q, secretA))
		x.after(time.Minute)
		x.expect("it exists; the second has joined what is known", q)
		x.put(secretB)
		x.after(time.Second)
		x.expect("it was created", p, q)
		x.put(secretA, "app", "y")
		x.after(time.Second)
		x.expect("it was changed", p, q)

		meanwhile = func() { meanwhile = nil; x.put(secretB, "n", "1"); time.Sleep(time.Second) }
		x.must(x.AddWatcher(policy("r"), secretA))
		x.after(time.Minute)
		calls := x.r.take()
		if n := len(calls); n != 4 {
			t.Errorf("%d reconciles, not one of p and q, and two of r, in whose batch an object has changed", n)
		}
	})
}

// TestUnreadObjectCausesReconcile checks that a watcher that could not read an object in time is
// reconciled when the object is known.
func TestUnreadObjectCausesReconcile(t *testing.T) {
	script(t, cached, func(x *fixture) {
		x.put(secretA)
		x.faulty("watch", fakeapi.Fault{Delay: 20 * time.Second})
		x.must(x.StartQueryBatch(p))
		if _, err := x.Get(p, fakeapi.Secret, "ns", "a"); err == nil {
			t.Error("it was read")
		}
		x.must(x.EndQueryBatch(p))
		x.expect("it is not known")
		x.after(time.Minute)
		x.expect("it is known", p)
	})
}

// TestRemoveWatcherAbortsQueryBatch checks that a watcher which is removed within its query batch
// watches nothing, and can start another batch.
func TestRemoveWatcherAbortsQueryBatch(t *testing.T) {
	script(t, dynamicwatcher.Options{EnableCache: true}, func(x *fixture) {
		x.put(secretA)
		x.must(x.AddOrUpdateWatcher(p, secretB))
		x.must(x.StartQueryBatch(p))
		if _, err := x.Get(p, fakeapi.Secret, "ns", "a"); err != nil {
			t.Fatal(err)
		}
		x.must(x.RemoveWatcher(p))
		if n := x.GetWatchCount(); n != 0 {
			t.Errorf("%d watches are left", n)
		}
		if err := x.EndQueryBatch(p); !errors.Is(err, dynamicwatcher.ErrQueryBatchNotStarted) {
			t.Errorf("the batch ended with %v", err)
		}
		x.must(x.StartQueryBatch(p))
		x.must(x.EndQueryBatch(p))
	})
}

// TestCachedObjectsAreReturnedOnce checks that the cache finds an object only by its name, and
// returns each object once.
func TestCachedObjectsAreReturnedOnce(t *testing.T) {
	script(t, dynamicwatcher.Options{EnableCache: true}, func(x *fixture) {
		x.put(secretA)
		x.put(secretB)
		x.must(x.StartQueryBatch(p))
		if _, err := x.List(p, fakeapi.Secret, "ns", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Get(p, fakeapi.Secret, "ns", "a"); err != nil {
			t.Fatal(err)
		}
		x.must(x.EndQueryBatch(p))
		if got, err := x.GetFromCache(fakeapi.Secret, "ns", ""); !errors.Is(err, dynamicwatcher.ErrInvalidInput) {
			t.Errorf("GetFromCache without a name returned %v, %v", got, err)
		}
		if all, err := x.ListWatchedFromCache(p); err != nil || len(all) != 2 {
			t.Errorf("%d objects are watched, %v", len(all), err)
		}
	})
}

// getSecret reads secret a in a query batch of q.
func (x *fixture) getSecret() (got *unstructured.Unstructured, err error) {
	err = x.QueryBatch(x.t.Context(), q, func(r dynamicwatcher.Querier) error {
		got, err = r.Get(q, fakeapi.Secret, "ns", "a")
		return err
	})
	return got, err
}

// TestQueryReturnsNoStaleObjects checks that a query does not return objects from before an
// interruption of the watch. It waits for the next watch, or returns the reason why there is no
// watch.
func TestQueryReturnsNoStaleObjects(t *testing.T) {
	for name, test := range map[string]struct {
		fault fakeapi.Fault
		state dynamicwatcher.State
		is    func(error) bool
		waits time.Duration
	}{
		"forbidden":    {fakeapi.Fault{Status: 403}, dynamicwatcher.StateNoAccess, apierrors.IsForbidden, 0},
		"unauthorized": {fakeapi.Fault{Status: 401}, dynamicwatcher.StateNoAccess, apierrors.IsUnauthorized, 0},
		"failing": {fakeapi.Fault{Status: 500}, dynamicwatcher.StateBackoff, apierrors.IsInternalError,
			10 * time.Second},
		"hanging": {fakeapi.Fault{Hang: true}, dynamicwatcher.StateBackoff, func(err error) bool {
			return errors.Is(err, context.DeadlineExceeded)
		}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			script(t, cached, func(x *fixture) {
				x.put(secretA)
				x.watch(secretA)
				x.after(10 * time.Second)
				x.faulty("watch", test.fault)
				x.api.Disconnect()
				x.after(10 * time.Second)
				x.state(test.state)
				version := x.put(secretA)
				began := time.Now()
				if got, err := x.getSecret(); !test.is(err) || time.Since(began) != test.waits {
					x.t.Errorf("after %v Get returned %v, %v", time.Since(began), got, err)
				}
				_, get := x.GetFromCache(fakeapi.Secret, "ns", "a")
				_, list := x.ListWatchedFromCache(p)
				for call, err := range map[string]error{"GetFromCache": get, "ListWatchedFromCache": list} {
					if !errors.Is(err, dynamicwatcher.ErrNoCacheEntry) {
						x.t.Errorf("%s returned %v", call, err)
					}
				}
				x.api.Hook(nil)
				x.api.Disconnect()
				x.after(time.Minute)
				if got, err := x.getSecret(); err != nil || got.GetResourceVersion() != version {
					x.t.Errorf("when the watch goes on, Get returned %v, %v", got, err)
				}
			})
		})
	}
}

// TestQueryWaitsForNextWatch checks that a query during an interruption returns the objects of the
// next watch.
func TestQueryWaitsForNextWatch(t *testing.T) {
	script(t, cached, func(x *fixture) {
		x.put(secretA)
		x.watch(secretA)
		x.after(10 * time.Second)
		x.api.Stop()
		x.after(time.Second)
		version := x.put(secretA)
		time.AfterFunc(3*time.Second, x.api.Start)
		if got, err := x.getSecret(); err != nil || got.GetResourceVersion() != version {
			x.t.Errorf("Get returned %v, %v", got, err)
		}
	})
}

// TestQueryOfKindCreatedLater checks that a missing kind has no objects. Once the server has the
// kind, a query waits for its watch.
func TestQueryOfKindCreatedLater(t *testing.T) {
	script(t, cached, func(x *fixture) {
		x.watch(widgetA)
		x.after(time.Hour) // the next lookup is far away
		get := func() (got *unstructured.Unstructured, err error) {
			err = x.QueryBatch(x.t.Context(), q, func(r dynamicwatcher.Querier) error {
				got, err = r.Get(q, widget, "ns", "a")
				return err
			})
			return got, err
		}
		if got, err := get(); got != nil || err != nil {
			x.t.Fatalf("without the kind Get returned %v, %v", got, err)
		}
		x.faulty("list", fakeapi.Fault{Hang: true})
		x.put(widgetA)
		x.api.CreateCRD(widget, "widgets", true, 0)
		for _, err := x.GVKToGVR(widget); err != nil; _, err = x.GVKToGVR(widget) { // the server needs a moment
			runtime.Gosched()
		}
		if got, err := get(); err == nil && got == nil {
			x.t.Error("with the kind Get returned nothing")
		}
	})
}

// TestQueryOfRemovedWatcher checks that a query does not report an absent object if its watcher is
// removed in the meantime.
func TestQueryOfRemovedWatcher(t *testing.T) {
	script(t, cached, func(x *fixture) {
		x.put(secretA)
		x.faulty("watch", fakeapi.Fault{Delay: 5 * time.Second})
		x.must(x.StartQueryBatch(p))
		time.AfterFunc(time.Second, func() { _ = x.RemoveWatcher(p) })
		if got, err := x.Get(p, fakeapi.Secret, "ns", "a"); !errors.Is(err, dynamicwatcher.ErrQueryBatchNotStarted) {
			x.t.Errorf("Get returned %v, %v", got, err)
		}
	})
}
