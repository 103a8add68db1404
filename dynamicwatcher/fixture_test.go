// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

func TestMain(m *testing.M) {
	klog.SetLogger(klog.Logger{}) // discards the log: reconciles fail on purpose
	goleak.VerifyTestMain(m)
}

// id returns the identifier of an object or a watcher.
func id(gvk schema.GroupVersionKind, namespace, name string) dynamicwatcher.ObjectIdentifier {
	return dynamicwatcher.ObjectIdentifier{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: namespace,
		Name: name}
}

func matching(gvk schema.GroupVersionKind, namespace, selector string) dynamicwatcher.ObjectIdentifier {
	o := id(gvk, namespace, "")
	o.Selector = selector
	return o
}

func policy(name string) dynamicwatcher.ObjectIdentifier {
	return id(schema.GroupVersionKind{Group: "policy.example.com", Version: "v1", Kind: "Policy"}, "ns", name)
}

var (
	widget  = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	p, q    = policy("p"), policy("q")
	secretA = id(fakeapi.Secret, "ns", "a")
	secretB = id(fakeapi.Secret, "ns", "b")
	widgetA = id(widget, "ns", "a")
)

// call is one reconcile.
type call struct {
	Watcher  dynamicwatcher.ObjectIdentifier
	At       time.Time
	Triggers []dynamicwatcher.Trigger
}

// recorder is a reconciler that records its calls. Then it returns the results of do, if that is
// set.
type recorder struct {
	do func(context.Context, dynamicwatcher.ObjectIdentifier) (reconcile.Result, error)

	mu    sync.Mutex
	calls []call
}

func (r *recorder) Reconcile(ctx context.Context, watcher dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
	r.mu.Lock()
	r.calls = append(r.calls, call{watcher, time.Now(), dynamicwatcher.TriggersFrom(ctx)})
	r.mu.Unlock()
	if r.do == nil {
		return reconcile.Result{}, nil
	}
	return r.do(ctx, watcher)
}

// take returns the calls since the last take.
func (r *recorder) take() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// fixture is a watcher and its server, in a synctest bubble.
type fixture struct {
	dynamicwatcher.DynamicWatcher
	t      *testing.T
	api    *fakeapi.Server
	r      *recorder
	cancel context.CancelFunc
	ended  chan error
}

// script runs f with a started watcher. At the end it stops the watcher, and checks that no stream
// is left.
func script(t *testing.T, options dynamicwatcher.Options, f func(*fixture)) {
	t.Helper()
	unstarted(t, options, func(x *fixture) {
		x.start()
		f(x)
	})
}

func unstarted(t *testing.T, options dynamicwatcher.Options, f func(*fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &fixture{t: t, api: fakeapi.New(), r: &recorder{}}
		defer x.api.Close()
		w, err := dynamicwatcher.NewForConfig(x.api.Config(), x.r, &options)
		if err != nil {
			t.Fatal(err)
		}
		x.DynamicWatcher = w
		defer func() {
			if x.cancel != nil {
				x.stop()
			}
		}()
		f(x)
	})
}

func (x *fixture) start() {
	ctx, cancel := context.WithCancel(context.Background())
	x.cancel, x.ended = cancel, make(chan error, 1)
	go func() { x.ended <- x.Start(ctx) }()
	<-x.Started()
}

// stop stops the watcher, and checks that the shutdown is immediate and leaves no stream.
func (x *fixture) stop() {
	x.t.Helper()
	began := time.Now()
	x.cancel()
	x.cancel = nil
	if err := <-x.ended; err != nil {
		x.t.Errorf("Start returned %v", err)
	}
	if took := time.Since(began); took > 100*time.Millisecond {
		x.t.Errorf("the shutdown took %v", took)
	}
	synctest.Wait()
	if n := x.api.Counts().Streams; n != 0 {
		x.t.Errorf("%d streams are left after the shutdown", n)
	}
}

// watch makes p watch objects, and drops the calls for existing objects.
func (x *fixture) watch(watched ...dynamicwatcher.ObjectIdentifier) {
	x.t.Helper()
	x.must(x.AddOrUpdateWatcher(p, watched...))
	x.after(100 * time.Millisecond)
	x.r.take()
}

func (x *fixture) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// after waits in virtual time, until all goroutines are blocked.
func (x *fixture) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expect checks which watchers were reconciled since the last call, in any order.
func (x *fixture) expect(reason string, watchers ...dynamicwatcher.ObjectIdentifier) []call {
	x.t.Helper()
	synctest.Wait()
	calls := x.r.take()
	var got []string
	for _, c := range calls {
		got = append(got, c.Watcher.Name)
	}
	var want []string
	for _, w := range watchers {
		want = append(want, w.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		x.t.Fatalf("%s: reconciled %v, not %v", reason, got, want)
	}
	return calls
}

// state checks the state of the only watched object.
func (x *fixture) state(want dynamicwatcher.State) dynamicwatcher.WatchStatus {
	x.t.Helper()
	all := x.Status()
	if len(all) != 1 || all[0].State != want {
		x.t.Fatalf("the status is %+v, not one %s", all, want)
	}
	return all[0]
}

// put creates or updates an object.
func (x *fixture) put(o dynamicwatcher.ObjectIdentifier, labels ...string) string {
	return x.api.Put(fakeapi.Object(o.GroupVersionKind(), o.Namespace, o.Name, labels...))
}

func (x *fixture) remove(o dynamicwatcher.ObjectIdentifier) {
	x.api.Delete(o.GroupVersionKind(), o.Namespace, o.Name)
}

// faulty makes all requests of a verb fail; an empty verb means all requests.
func (x *fixture) faulty(verb string, f fakeapi.Fault) {
	x.api.Hook(func(q fakeapi.Request) fakeapi.Fault {
		if verb == "" || q.Verb == verb {
			return f
		}
		return fakeapi.Fault{}
	})
}
