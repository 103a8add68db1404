// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/dynamicwatcher/source"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

var (
	_ manager.Runnable               = dynamicwatcher.DynamicWatcher(nil)
	_ manager.LeaderElectionRunnable = dynamicwatcher.DynamicWatcher(nil)
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	policy = dynamicwatcher.ObjectIdentifier{Group: "policy.example.com", Version: "v1", Kind: "Policy", Namespace: "ns",
		Name: "p"}
	secret = dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "Secret", Namespace: "ns", Name: "s"}
)

// TestChangeEnqueuesRequest checks that each change adds a request to the queue of the controller,
// even if earlier requests are not read.
func TestChangeEnqueuesRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New()
		defer api.Close()
		api.Put(fakeapi.Object(fakeapi.Secret, "ns", "s"))
		s, err := source.New(&dynamicwatcher.Options{Config: api.Config()})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Watcher().AddWatcher(policy, secret); err != nil { // before the start
			t.Fatal(err)
		}
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		ctx, cancel := context.WithCancel(t.Context())
		if err := s.Start(ctx, queue); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(ctx, queue); err == nil {
			t.Error("a second start has no error")
		}
		synctest.Wait()
		want(t, queue, 1)
		other := policy
		other.Name = "q"
		if err := s.Watcher().AddWatcher(other, secret); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			api.Put(fakeapi.Object(fakeapi.Secret, "ns", "s"))
			synctest.Wait()
		}
		want(t, queue, 2)
		cancel()
		<-s.Done()
		queue.ShutDown()
	})
}

// want takes n requests from a queue, and checks that there are no more.
func want(t *testing.T, queue workqueue.TypedRateLimitingInterface[reconcile.Request], n int) {
	t.Helper()
	if got := queue.Len(); got != n {
		t.Fatalf("%d requests in the queue, want %d", got, n)
	}
	for range n {
		r, _ := queue.Get()
		if r.Namespace != "ns" || r.Name != "p" && r.Name != "q" {
			t.Errorf("a request for %s", r)
		}
		queue.Done(r)
	}
}

func TestInvalidOptionsAreRejected(t *testing.T) {
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	r := dynamicwatcher.ReconcilerFunc(func(context.Context, dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	})
	if _, err := source.New(&dynamicwatcher.Options{Config: config, Reconciler: r}); !errors.Is(err,
		dynamicwatcher.ErrInvalidInput) {
		t.Errorf("a reconciler: %v", err)
	}
	if _, err := source.New(&dynamicwatcher.Options{Config: config, MinInterval: -1}); !errors.Is(err,
		dynamicwatcher.ErrInvalidInput) {
		t.Errorf("a negative interval: %v", err)
	}
	if _, err := source.NewTyped[string](&dynamicwatcher.Options{Config: config}, nil); !errors.Is(err,
		dynamicwatcher.ErrInvalidInput) {
		t.Errorf("no function: %v", err)
	}
}
