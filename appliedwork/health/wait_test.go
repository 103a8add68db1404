// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/health"
)

var (
	gadgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
	systems = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "systems"}
)

// served is the discovery of the fake cluster.
type served struct {
	served atomic.Bool
}

func (s *served) ServerGroupsWithContext(context.Context) (*metav1.APIGroupList, error) {
	list := &metav1.APIGroupList{}
	if s.served.Load() {
		v := metav1.GroupVersionForDiscovery{GroupVersion: "example.com/v1", Version: "v1"}
		list.Groups = append(list.Groups, metav1.APIGroup{Name: "example.com", PreferredVersion: v,
			Versions: []metav1.GroupVersionForDiscovery{v}})
	}
	return list, nil
}

func (s *served) ServerResourcesForGroupVersionWithContext(
	_ context.Context, gv string,
) (*metav1.APIResourceList, error) {
	if gv != "example.com/v1" || !s.served.Load() {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, gv)
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{
		{Name: "gadgets", Kind: "Gadget", Namespaced: true}, {Name: "systems", Kind: "System"},
	}}, nil
}

// cluster is a fake API server in a synctest bubble. After synctest.Wait, all watches are open.
type cluster struct {
	*fake.FakeDynamicClient
	*served
	t      *testing.T
	waits  chan error
	cancel context.CancelFunc

	mu     sync.Mutex
	events []string
}

func newCluster(t *testing.T, objects ...*unstructured.Unstructured) *cluster {
	t.Helper()
	var all []runtime.Object
	for _, obj := range objects {
		all = append(all, obj)
	}
	c := &cluster{t: t, served: &served{}, waits: make(chan error, 1)}
	c.served.served.Store(true)
	c.FakeDynamicClient = fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{gadgets: "GadgetList", systems: "SystemList"}, all...)
	return c
}

// wait starts a Wait for objects.
func (c *cluster) wait(opts health.Options, objects ...*unstructured.Unstructured) {
	c.t.Helper()
	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: c.FakeDynamicClient, Discovery: c.served})
	if err != nil {
		c.t.Fatal(err)
	}
	opts.OnChange = func(e health.Event) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.events = append(c.events, fmt.Sprintf("%s %s: %s", e.Key.Name, e.Result.Status, e.Result.Message))
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	c.cancel = cancel
	c.t.Cleanup(cancel)
	go func() { c.waits <- health.NewWaiter(tracker).Wait(ctx, objects, opts) }()
	synctest.Wait()
}

// take returns the events since the last call. Events of different objects have no order.
func (c *cluster) take() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	events := c.events
	c.events = nil
	return events
}

// expect compares the events since the last call.
func (c *cluster) expect(want ...string) {
	c.t.Helper()
	name := func(a, b string) int { return strings.Compare(a[:1], b[:1]) }
	events := c.take()
	slices.SortStableFunc(events, name)
	if diff := cmp.Diff(want, events); diff != "" {
		c.t.Errorf("events (-want +got):\n%s", diff)
	}
}

// result returns the result of Wait.
func (c *cluster) result() error {
	c.t.Helper()
	synctest.Wait()
	select {
	case err := <-c.waits:
		return err
	default:
		c.t.Fatal("Wait has not returned")
		return nil
	}
}

func (c *cluster) waiting() {
	c.t.Helper()
	synctest.Wait()
	if len(c.waits) > 0 {
		c.t.Fatalf("Wait has returned %v", <-c.waits)
	}
}

func (c *cluster) update(obj *unstructured.Unstructured) {
	c.t.Helper()
	if _, err := c.Resource(gadgets).Namespace("shop").Update(c.t.Context(), obj, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	synctest.Wait()
}

func (c *cluster) create(obj *unstructured.Unstructured) {
	c.t.Helper()
	if _, err := c.Resource(gadgets).Namespace("shop").Create(c.t.Context(), obj, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	synctest.Wait()
}

func (c *cluster) delete(name string) {
	c.t.Helper()
	if err := c.Resource(gadgets).Namespace("shop").Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
	synctest.Wait()
}

// count returns the number of requests with a verb.
func (c *cluster) count(verb string) int {
	n := 0
	for _, action := range c.Actions() {
		if action.GetVerb() == verb {
			n++
		}
	}
	return n
}

// fail makes requests of a verb fail while err returns an error.
func (c *cluster) fail(verb string, err func() error) {
	c.PrependReactor(verb, "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		e := err()
		return e != nil, nil, e
	})
}

// failWatch is fail for watches.
func (c *cluster) failWatch(err func() error) {
	c.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
		e := err()
		return e != nil, nil, e
	})
}

// gadget returns an object with a condition Ready or Stalled. Without a condition, its status is
// empty.
func gadget(name, condition, message string) *unstructured.Unstructured {
	obj := parsed(`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"namespace":"shop","name":"` + name + `"}}`)
	if condition == "" {
		return obj
	}
	kind, value, _ := strings.Cut(condition, "=")
	obj.Object["status"] = map[string]any{
		"conditions": []any{map[string]any{"type": kind, "status": value, "message": message}},
	}
	return obj
}

func ready(name string) *unstructured.Unstructured { return gadget(name, "Ready=True", "") }
func unready(name string) *unstructured.Unstructured {
	return gadget(name, "Ready=False", "warming up")
}

var errForbidden = apierrors.NewForbidden(gadgets.GroupResource(), "", errors.New("no such right"))

func TestWaitReturnsWhenAllAreCurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, unready("a"), unready("b"), unready("other"))
		system := parsed(`{"apiVersion":"example.com/v1","kind":"System","metadata":{"name":"s"}}`)
		c.wait(health.Options{}, unready("a"), unready("b"), system, unready("a"))
		c.expect("a InProgress: warming up", "b InProgress: warming up", "s NotFound: the object does not exist")
		c.update(ready("a"))
		c.expect("a Current: Resource is Ready")
		labeled := ready("a")
		labeled.SetLabels(map[string]string{"x": "y"})
		c.update(labeled)
		c.expect() // neither the status nor the message has changed
		c.update(gadget("b", "Ready=False", "almost"))
		c.expect("b InProgress: almost")
		c.update(gadget("other", "Ready=False", "of somebody else"))
		c.update(unready("a"))
		c.update(ready("b"))
		c.expect("a InProgress: warming up", "b Current: Resource is Ready")
		if _, err := c.Resource(systems).Create(t.Context(), system, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.expect("s Current: Resource is current")
		c.waiting() // all were current, but never at the same time
		c.update(ready("a"))
		if err := c.result(); err != nil {
			t.Error(err)
		}
		c.expect("a Current: Resource is Ready")
		if lists, watches := c.count("list"), c.count("watch"); lists != 2 || watches != 2 {
			t.Errorf("%d lists and %d watches, want one of each for a kind and namespace", lists, watches)
		}
	})
}

func TestWaitWithoutObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.wait(health.Options{})
		if err := c.result(); err != nil {
			t.Error(err)
		}
	})
}

func TestWaitRefusesInvalidInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.wait(health.Options{Timeout: -time.Second}, ready("a"))
		if err := c.result(); !errors.Is(err, appliedwork.ErrInvalidInput) ||
			!strings.Contains(err.Error(), "Options.Timeout: -1s") {
			t.Error(err)
		}
		c.wait(health.Options{}, ready("a"), nil)
		if err := c.result(); !errors.Is(err, appliedwork.ErrInvalidObject) || !strings.Contains(err.Error(), "object 1") {
			t.Error(err)
		}
	})
}

func TestWaitTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, unready("b"), ready("c"))
		begin := time.Now()
		c.wait(health.Options{Timeout: time.Minute}, unready("b"), ready("a"), ready("c"))
		err := <-c.waits
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		want := "context deadline exceeded\nGadget.example.com shop/b is InProgress: warming up\nGadget.example.com shop/a " +
			"is NotFound: the object does not exist"
		if err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		var notReady *health.NotReadyError
		if !errors.As(err, &notReady) || notReady.Key.Name != "b" || notReady.Result.Status != health.StatusInProgress {
			t.Errorf("%+v", notReady)
		}
	})
}

func TestWaitReturnsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, unready("a"))
		c.wait(health.Options{}, unready("a"))
		c.waiting()
		c.cancel()
		if err := c.result(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		c.expect("a InProgress: warming up")
	})
}

func TestWaitEndsAtAFailedObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, unready("a"), unready("b"), ready("c"))
		c.wait(health.Options{Timeout: time.Hour}, unready("a"), unready("b"), ready("c"))
		c.waiting()
		c.update(gadget("b", "Stalled=True", "no disk"))
		err := c.result()
		want := "Gadget.example.com shop/b is Failed: no disk\nGadget.example.com shop/a is InProgress: warming up"
		if err == nil || err.Error() != want || errors.Is(err, context.Canceled) {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

func TestContinueOnFailureWaitsForRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, gadget("a", "Stalled=True", "no disk"))
		c.wait(health.Options{ContinueOnFailure: true}, ready("a"))
		c.waiting()
		c.update(ready("a"))
		if err := c.result(); err != nil {
			t.Error(err)
		}
		c.expect("a Failed: no disk", "a Current: Resource is Ready")
	})
}

func TestDeletedObjectMayComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := unready("a")
		first.SetUID("1")
		c := newCluster(t, first)
		c.wait(health.Options{}, unready("a"))
		c.delete("a")
		c.waiting()
		second := ready("a")
		second.SetUID("2")
		c.create(second)
		if err := c.result(); err != nil {
			t.Error(err)
		}
		c.expect("a InProgress: warming up", "a NotFound: the object does not exist", "a Current: Resource is Ready")
	})
}
