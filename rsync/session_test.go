// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// TestHealthyFailsWhileWritesAreRefused: Healthy returns an error while the store refuses puts,
// even if it accepts deletions, reads and leases.
func TestHealthyFailsWhileWritesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refusing atomic.Bool
		view := storetest.NewFaults(memstore.New(memstore.Options{}), func(_ int, ops []store.Op) storetest.Verdict {
			if refusing.Load() && slices.ContainsFunc(ops, func(op store.Op) bool { return op.Kind == store.OpKindPut }) {
				return storetest.VerdictFailBefore
			}
			return storetest.VerdictPass
		})
		s := newScene(t, view, rsync.Options{LeaseTTL: 3 * time.Second})
		<-s.engine.Ready()
		s.create("a", "web@c1 x=1")
		s.create("b", "web@c1 y=1")
		s.create("unused", "web@c1 y=1")
		ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
		refusing.Store(true)
		if _, err := s.engine.Instantiate(t.Context(), "b"); !errors.Is(err, storetest.ErrInjected) {
			t.Fatalf("a write that is refused: %v", err)
		}
		time.Sleep(time.Second)
		unhealthy := func() {
			t.Helper()
			if err := s.engine.Healthy(); !errors.Is(err, storetest.ErrInjected) {
				t.Errorf("Healthy returns %v while writes are refused, want %v", err, storetest.ErrInjected)
			}
		}
		for range 600 {
			unhealthy()
			time.Sleep(time.Second)
		}
		if err := s.engine.Delete(t.Context(), "unused"); err != nil { // an etcd without space accepts deletions
			t.Error(err)
		}
		unhealthy()
		refusing.Store(false)
		s.create("c", "web@c1 z=1")
		if err := s.engine.Healthy(); err != nil {
			t.Errorf("after another write was accepted: %v", err)
		}
		s.done(ref, nil)

		// Without any other write.
		refusing.Store(true)
		if _, err := s.engine.Instantiate(t.Context(), "b"); err == nil {
			t.Fatal("a write was accepted")
		}
		before := view.Writes()
		time.Sleep(10 * time.Minute)
		unhealthy()
		if n := view.Writes() - before; n < 60 || n > 130 {
			t.Errorf("%d writes in ten minutes, want one every 5 to 10 s", n)
		}
		refusing.Store(false)
		time.Sleep(10 * time.Second)
		if err := s.engine.Healthy(); err != nil {
			t.Errorf("after the store accepts writes again: %v", err)
		}
		before = view.Writes()
		time.Sleep(10 * time.Minute)
		if n := view.Writes() - before; n != 0 {
			t.Errorf("%d writes of an idle engine whose store accepts writes", n)
		}
		for _, w := range view.Log()[1:] {
			if strings.HasPrefix(w.Compares[0].Key, "/rsync/engine/") && w.Compares[0].Revision == 0 {
				t.Error("the session was lost, although its lease was renewed")
			}
		}
	})
}

// TestHealthyIgnoresErrorsOfOneRequest: an engine stays healthy after one failed write, a request
// that is too large, a conflict or an ended context.
func TestHealthyIgnoresErrorsOfOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refusing atomic.Bool
		view := storetest.NewFaults(memstore.New(memstore.Options{}), func(_ int, ops []store.Op) storetest.Verdict {
			if refusing.CompareAndSwap(true, false) {
				return storetest.VerdictFailBefore
			}
			return storetest.VerdictPass
		})
		view.Delay = 10 * time.Millisecond
		large := &refuser{Store: view}
		s := newScene(t, large, rsync.Options{})
		<-s.engine.Ready()
		s.create("a", "web@c1 x=1")
		healthy := func(what string, probes int, call func(context.Context) error) {
			t.Helper()
			before := len(view.Log())
			if err := call(t.Context()); err == nil {
				t.Errorf("%s: no error", what)
			}
			for range 100 {
				if err := s.engine.Healthy(); err != nil {
					t.Errorf("after %s: %v", what, err)
				}
				time.Sleep(100 * time.Millisecond)
			}
			n := 0
			for _, w := range view.Log()[before:] {
				if strings.HasPrefix(w.Ops[0].Key, "/rsync/engine/") {
					n++
				}
			}
			if n != probes {
				t.Errorf("after %s the session's key was put %d times, want %d", what, n, probes)
			}
		}
		healthy("a failed write", 1, func(ctx context.Context) error {
			refusing.Store(true)
			_, err := s.engine.Instantiate(ctx, "a")
			return err
		})
		healthy("a conflict", 0, func(ctx context.Context) error {
			return s.engine.Create(ctx, parse(t, "a", "web@c1 x=2"))
		})
		healthy("a request that is too large", 0, func(ctx context.Context) error {
			large.err.Store(&store.SizeError{What: "bytes", Have: 2, Limit: 1})
			defer large.err.Store((*store.SizeError)(nil))
			_, err := s.engine.Instantiate(ctx, "a")
			return err
		})
		healthy("an ended context", 0, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 15*time.Millisecond) // ends in the transaction, after one read
			defer cancel()
			_, err := s.engine.Instantiate(ctx, "a")
			return err
		})
	})
}

// refuser is a store that returns err for each transaction, unless err is nil.
type refuser struct {
	store.Store
	err atomic.Pointer[store.SizeError]
}

func (r *refuser) Txn(ctx context.Context, compares []store.Compare, ops []store.Op) (store.TxnResult, error) {
	if err := r.err.Load(); err != nil {
		return store.TxnResult{}, err
	}
	return r.Store.Txn(ctx, compares, ops)
}

// TestHealthy: Healthy returns nil only while the engine has its lease.
func TestHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		view := storetest.NewFaults(memstore.New(memstore.Options{}), nil)
		view.Hold()
		engine, stop := startEngine(t, view, fake.New(), rsync.Options{})
		defer stop()
		synctest.Wait()
		select {
		case <-engine.Ready():
			t.Error("it is ready while the store does not answer")
		default:
		}
		if engine.Healthy() == nil {
			t.Error("it is healthy while the store does not answer")
		}
		view.Release()
		<-engine.Ready()
		if err := engine.Healthy(); err != nil {
			t.Error(err)
		}
		view.Hold()
		time.Sleep(11 * time.Second)
		if engine.Healthy() == nil {
			t.Error("it is healthy after the end of its lease")
		}
		view.Release()
		time.Sleep(time.Minute)
		if err := engine.Healthy(); err != nil {
			t.Error(err)
		}
		stop()
		if engine.Healthy() == nil {
			t.Error("it is healthy after its end")
		}
	})
}

// TestHangingCallIsExplained: a failed probe ends a call. The status then has the message of the
// probe.
func TestHangingCallIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1")
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeBlackHole)
		ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(20 * time.Second)
		status, err := s.engine.Status(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		got := status.Cluster("web", appcontext.ClusterID{Provider: "edge", Name: "c1"})
		if got == nil || got.Reason != rsync.ReasonUnreachable ||
			got.Message != "the cluster does not answer: probe: no answer within 10s" {
			t.Errorf("it shows %+v", got)
		}
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeUnreachable) // with another message
		time.Sleep(10 * time.Second)
		if status, err = s.engine.Status(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if got := status.Clusters[0]; got.Reason != rsync.ReasonUnreachable ||
			got.Message != "the cluster does not answer: the fake cluster is in this mode" {
			t.Errorf("then it shows %+v", got)
		}
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
		s.done(ref, nil)
	})
}
