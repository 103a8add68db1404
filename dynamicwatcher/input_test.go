// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

func TestInvalidIdentifiersAreRejected(t *testing.T) {
	good := secretA
	with := func(f func(*dynamicwatcher.ObjectIdentifier)) dynamicwatcher.ObjectIdentifier {
		o := good
		f(&o)
		return o
	}
	for _, test := range []struct {
		name, field string
		object      dynamicwatcher.ObjectIdentifier
	}{
		{"no version", "Version", with(func(o *dynamicwatcher.ObjectIdentifier) { o.Version = "" })},
		{"the group in the version", "Version", with(func(o *dynamicwatcher.ObjectIdentifier) { o.Version = "apps/v1" })},
		{"no kind", "Kind", with(func(o *dynamicwatcher.ObjectIdentifier) { o.Kind = "" })},
		{"neither name nor selector", "Name", with(func(o *dynamicwatcher.ObjectIdentifier) { o.Name = "" })},
		{"name and selector", "Selector", with(func(o *dynamicwatcher.ObjectIdentifier) { o.Selector = "a=b" })},
		{"a malformed selector", "Selector", matching(fakeapi.Secret, "ns", "a in (")},
		{"no namespace", "Namespace", with(func(o *dynamicwatcher.ObjectIdentifier) { o.Namespace = "" })},
		{"a slash in the name", "Name", with(func(o *dynamicwatcher.ObjectIdentifier) { o.Name = "a/b" })},
		{"two dots as name", "Name", with(func(o *dynamicwatcher.ObjectIdentifier) { o.Name = ".." })},
		{"a percent sign in the name", "Name", with(func(o *dynamicwatcher.ObjectIdentifier) { o.Name = "a%2fb" })},
		{"a slash in the namespace", "Namespace", with(func(o *dynamicwatcher.ObjectIdentifier) { o.Namespace = "ns/x" })},
		{"two dots as namespace", "Namespace", with(func(o *dynamicwatcher.ObjectIdentifier) { o.Namespace = ".." })},
		{"two dots as group", "Group", with(func(o *dynamicwatcher.ObjectIdentifier) { o.Group = ".." })},
		{"a slash in the group", "Group", with(func(o *dynamicwatcher.ObjectIdentifier) { o.Group = "a/b" })},
		{"a name of 2 MiB", "Name", with(func(o *dynamicwatcher.ObjectIdentifier) { o.Name = strings.Repeat("n", 2<<20) })},
		{"a kind of 2 MiB", "Kind", with(func(o *dynamicwatcher.ObjectIdentifier) { o.Kind = strings.Repeat("K", 2<<20) })},
		{"a selector of 2 MiB", "Selector", matching(fakeapi.Secret, "ns", "a in ("+strings.Repeat("b,", 1<<20)+"b)")},
		{"two dots as version", "Version", with(func(o *dynamicwatcher.ObjectIdentifier) { o.Version = ".." })},
	} {
		t.Run(test.name, func(t *testing.T) {
			script(t, dynamicwatcher.Options{}, func(x *fixture) {
				x.watch(secretB)
				asked := len(x.api.Requests())
				for call, err := range map[string]error{
					"AddOrUpdateWatcher": x.AddOrUpdateWatcher(p, good, test.object),
					"AddWatcher":         x.AddWatcher(p, test.object),
					"AddWatcherAt":       x.AddWatcherAt(p, test.object, "1"),
				} {
					var bad *dynamicwatcher.IdentifierError
					if !errors.As(err, &bad) || bad.Field != test.field || bad.Reason == "" || len(bad.Error()) > 2048 ||
						!errors.Is(err, dynamicwatcher.ErrInvalidInput) {
						t.Errorf("%s returned %.500v, not what is wrong with %s", call, err, test.field)
					}
				}
				if got := x.WatchesOf(p); len(got) != 1 || got[0] != secretB {
					t.Errorf("after the errors %v is watched", got)
				}
				if n := len(x.api.Requests()); n != asked {
					t.Errorf("the server was asked: %v", x.api.Requests()[asked:])
				}
			})
		})
	}
}

func TestInvalidWatchersAreRejected(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		for _, watcher := range []dynamicwatcher.ObjectIdentifier{{}, {Version: "v1", Kind: "Policy"},
			{Version: "v1", Kind: "Policy", Selector: "a"}, {Version: "v1", Name: "n"}} {
			for call, err := range map[string]error{"AddOrUpdateWatcher": x.AddOrUpdateWatcher(watcher, secretA),
				"RemoveWatcher": x.RemoveWatcher(watcher)} {
				if !errors.Is(err, dynamicwatcher.ErrInvalidInput) {
					t.Errorf("%s of %s returned %v", call, watcher, err)
				}
			}
		}
	})
}

func TestUnknownKindsAreRejected(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.watch(secretA)
		sealed := widget
		sealed.Kind = "Sealed"
		x.api.AddKind(sealed, "sealed", true, "get", "create")
		for _, test := range []struct {
			name   string
			object dynamicwatcher.ObjectIdentifier
			want   error
		}{
			{"the group is unknown", id(policy("x").GroupVersionKind(), "ns", "a"), dynamicwatcher.ErrNoVersionedResource},
			{"the kind is unknown", widgetA, dynamicwatcher.ErrNoVersionedResource},
			{"the kind cannot be watched", id(sealed, "ns", "a"), dynamicwatcher.ErrResourceUnwatchable},
		} {
			err := x.AddOrUpdateWatcher(p, secretB, test.object)
			var kind *dynamicwatcher.KindError
			if !errors.As(err, &kind) || kind.Kind != test.object.GroupVersionKind() || !errors.Is(err, test.want) {
				t.Errorf("%s: %v", test.name, err)
			}
		}
		x.faulty("discovery", fakeapi.Fault{Status: 503})
		if err := x.AddWatcher(p, id(policy("x").GroupVersionKind(), "ns", "a")); err == nil ||
			errors.Is(err, dynamicwatcher.ErrNoVersionedResource) {
			t.Errorf("a server that does not answer makes a kind unknown: %v", err)
		}
		if got := x.WatchesOf(p); len(got) != 1 || got[0] != secretA {
			t.Errorf("after the errors %v is watched", got)
		}
	})
}

// TestErrorTexts compares errors with their exact texts.
func TestErrorTexts(t *testing.T) {
	unstarted(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.must(x.AddWatcher(p, secretA))
		ctx, cancel := context.WithTimeout(x.t.Context(), time.Second)
		defer cancel()
		var empty dynamicwatcher.ObjectIdentifier
		plural := id(schema.GroupVersionKind{Version: "v1", Kind: "configmaps"}, "ns", "a")
		for _, test := range []struct {
			name string
			err  error
			want string
		}{
			{"an empty watcher", x.AddOrUpdateWatcher(empty, secretA),
				"watcher: invalid Version of GroupVersion=, Kind=, Namespace=, Name=: required"},
			{"an empty object", x.AddOrUpdateWatcher(p, secretA, empty),
				"watched[1]: invalid Version of GroupVersion=, Kind=, Namespace=, Name=: required"},
			{"a resource in place of a kind", x.AddOrUpdateWatcher(p, plural),
				"/v1, Kind=configmaps: the server does not have this kind: use a kind, such as ConfigMap, " +
					"not its resource, such as configmaps, or set Options.MissingKind to Wait for a CRD"},
			{"a wait without a start", x.WaitForSync(ctx, p),
				"the watcher is not running: call Start: watch " + secretA.String() + ": context deadline exceeded"},
		} {
			if test.err == nil || test.err.Error() != test.want {
				t.Errorf("%s:\ngot  %v\nwant %s", test.name, test.err, test.want)
			}
		}
		if err := x.WaitForSync(ctx, p); !errors.Is(err, dynamicwatcher.ErrNotStarted) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitForSync before Start returned %v", err)
		}
	})
}

func TestNamespaceOfClusterScopedObjectIsIgnored(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		ns := id(fakeapi.Namespace, "", "ns")
		x.must(x.AddWatcher(p, ns))
		x.must(x.AddWatcher(p, id(fakeapi.Namespace, "wrong", "ns")))
		if n := x.GetWatchCount(); n != 1 {
			x.t.Fatalf("%d watches", n)
		}
		x.after(time.Second)
		x.put(ns)
		x.expect("the namespace was created", p)
	})
}

func TestInvalidOptionsAreRejected(t *testing.T) {
	r := &recorder{}
	for name, options := range map[string]*dynamicwatcher.Options{
		"no reconciler":       {},
		"negative workers":    {Reconciler: r, MaxConcurrentReconciles: -1},
		"a negative interval": {Reconciler: r, MinInterval: -1},
		"a negative delay":    {Reconciler: r, BatchWindow: -1},
		"no such MissingKind": {Reconciler: r, MissingKind: 7},
		"no such AccessLost":  {Reconciler: r, AccessLost: 7},
		"no such Reconnect":   {Reconciler: r, Reconnect: 7},
		"a negative TTL":      {Reconciler: r, ObjectCacheOptions: dynamicwatcher.ObjectCacheOptions{GVKToGVRCacheTTL: -1}},
	} {
		options.Config = &rest.Config{Host: "http://fake"}
		if _, err := dynamicwatcher.New(options); !errors.Is(err, dynamicwatcher.ErrInvalidInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := dynamicwatcher.New(nil); !errors.Is(err, dynamicwatcher.ErrInvalidInput) {
		t.Errorf("nil: %v", err)
	}
}

// queries calls all methods that need a running watcher, and returns their errors.
func queries(w dynamicwatcher.DynamicWatcher) map[string]error {
	_, get := w.Get(p, fakeapi.Secret, "ns", "a")
	_, list := w.List(p, fakeapi.Secret, "ns", labels.Everything())
	return map[string]error{
		"StartQueryBatch": w.StartQueryBatch(p), "EndQueryBatch": w.EndQueryBatch(p), "AbortQueryBatch": w.AbortQueryBatch(p),
		"Get": get, "List": list,
		"QueryBatch": w.QueryBatch(context.Background(), p, func(dynamicwatcher.Querier) error { return nil }),
	}
}

func TestCallsBeforeStart(t *testing.T) {
	unstarted(t, dynamicwatcher.Options{EnableCache: true}, func(x *fixture) {
		for call, err := range queries(x) {
			if !errors.Is(err, dynamicwatcher.ErrNotStarted) {
				t.Errorf("%s returned %v", call, err)
			}
		}
		x.put(secretA)
		x.must(x.AddOrUpdateWatcher(p, secretA))
		x.must(x.AddOrUpdateWatcher(q, secretB))
		x.must(x.RemoveWatcher(q))
		x.after(time.Minute)
		if c := x.api.Counts(); c.Watches != 0 || x.GetWatchCount() != 0 {
			x.t.Fatalf("before Start there are %d watches, and %d requests for some", x.GetWatchCount(), c.Watches)
		}
		x.start()
		x.must(x.WaitForSync(x.t.Context(), p))
		x.expect("what was added before exists", p)
		if c := x.api.Counts(); c.Watches != 1 || x.GetWatchCount() != 1 {
			x.t.Fatalf("after Start there are %d watches, and %d requests for some", x.GetWatchCount(), c.Watches)
		}
		if err := x.Start(x.t.Context()); err == nil {
			t.Error("a watcher started twice")
		}
	})
}

func TestCallsAfterShutdown(t *testing.T) {
	script(t, dynamicwatcher.Options{EnableCache: true}, func(x *fixture) {
		x.watch(secretA)
		waited := make(chan error)
		x.faulty("watch", fakeapi.Fault{Hang: true})
		x.must(x.AddWatcher(q, secretB))
		go func() { waited <- x.WaitForSync(context.Background(), q) }()
		queried := make(chan error)
		go func() {
			queried <- x.QueryBatch(context.Background(), p, func(r dynamicwatcher.Querier) error {
				_, err := r.Get(p, fakeapi.Secret, "ns", "c")
				return err
			})
		}()
		x.after(time.Second)
		began := time.Now()
		x.stop()
		calls := queries(x)
		calls["WaitForSync"], calls["QueryBatch under way"] = <-waited, <-queried
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("who waits was kept for %v", d)
		}
		calls["AddOrUpdateWatcher"], calls["AddWatcher"] = x.AddOrUpdateWatcher(p, id(fakeapi.Namespace, "", "n")),
			x.AddWatcher(p, widgetA)
		_, calls["GVKToGVR"] = x.GVKToGVR(fakeapi.ConfigMap)
		for call, err := range calls {
			if !errors.Is(err, dynamicwatcher.ErrNotStarted) {
				t.Errorf("%s returned %v", call, err)
			}
		}
		for range 10 {
			for _, watcher := range []dynamicwatcher.ObjectIdentifier{p, q, policy("unknown")} {
				if err := x.WaitForSync(context.Background(), watcher); !errors.Is(err, dynamicwatcher.ErrNotStarted) {
					t.Errorf("WaitForSync of %s returned %v", watcher, err)
				}
			}
		}
		x.must(x.RemoveWatcher(p))
		if n, all := x.GetWatchCount(), x.Status(); n != 0 || len(all) != 0 {
			t.Errorf("%d watches are left: %v", n, all)
		}
	})
}
