// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

const ttl = 3 * time.Second

// fleet is three engines on one etcd, each with a view of it that can be cut.
type fleet struct {
	t        *testing.T
	views    []*storetest.Faults
	user     *rsync.Engine
	clusters *fake.Clusters
}

func newFleet(t *testing.T, etcd *cluster, prefix string) *fleet {
	t.Helper()
	f := &fleet{t: t, clusters: fake.New()}
	var err error
	if f.user, err = rsync.New(etcd.store(t, prefix), f.clusters, rsync.Options{Name: "user"}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		view := storetest.NewFaults(etcd.store(t, prefix), nil)
		engine, err := rsync.New(view, f.clusters, rsync.Options{Name: fmt.Sprint("engine", i), LeaseTTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- engine.Start(ctx) }()
		t.Cleanup(func() {
			view.Release()
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("engine %d: %v", i, err)
			}
		})
		f.views = append(f.views, view)
	}
	return f
}

func manifest(name string) []byte {
	return fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %q\n  namespace: default\n", name)
}

// instantiate creates contexts and queues their first event.
func (f *fleet) instantiate(n int) []rsync.EventRef {
	f.t.Helper()
	var refs []rsync.EventRef
	for i := range n {
		b := appcontext.NewBuilder(fmt.Sprint("id", i))
		b.App("web").Resource("edge", "c1", manifest(fmt.Sprint("x", i))).Resource("edge", "c2", manifest(fmt.Sprint("x", i)))
		c, err := b.Build()
		if err != nil {
			f.t.Fatal(err)
		}
		if err := f.user.Create(f.t.Context(), c); err != nil {
			f.t.Fatal(err)
		}
		ref, err := f.user.Instantiate(f.t.Context(), c.ID)
		if err != nil {
			f.t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	return refs
}

func (f *fleet) wait(refs []rsync.EventRef) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	for _, ref := range refs {
		status, err := f.user.Wait(ctx, ref)
		if err != nil {
			f.t.Fatal(err)
		}
		if status.Transitions != 2 {
			f.t.Errorf("%s changed its state %d times, want 2", ref.AppContextID, status.Transitions)
		}
	}
}

// TestFailover: the engine that has most of the work is killed, frozen or cut off from etcd. What it has not done, others take up
// within its lease and a second (three times that here, where other things run beside), and no write that it sends late is
// accepted.
func TestFailover(t *testing.T) {
	etcd := startEtcd(t, 3)
	for _, how := range []string{"killed", "frozen", "partitioned"} {
		t.Run(how, func(t *testing.T) {
			f := newFleet(t, etcd, "/"+how)
			f.clusters.Cluster("edge", "c1").SetMode(fake.Unreachable)
			refs := f.instantiate(30)
			waitFor(t, "work to be shared", func() bool {
				for _, v := range f.views {
					if owned(v) == 0 {
						return false
					}
				}
				return true
			})
			time.Sleep(ttl / 2)
			lost := f.views[0]
			began := time.Now()
			switch how {
			case "killed":
				lost.Crash()
			default:
				lost.Hold() // frozen: for longer than its lease; partitioned: until the end
			}
			f.clusters.Cluster("edge", "c1").SetMode(fake.Works)
			f.wait(refs)
			took := time.Since(began)
			claims := 0
			for _, v := range f.views[1:] {
				for _, w := range v.Claims() {
					claims++
					if d := w.At.Sub(began); d > 3*(ttl+time.Second) {
						t.Errorf("a context was taken over %s later", d)
					}
				}
			}
			if claims == 0 {
				t.Error("nothing was taken over")
			}
			if how == "frozen" {
				lost.Release()
				time.Sleep(2 * ttl)
			}
			for i, v := range f.views {
				for _, w := range v.Log() {
					if w.Held && w.Result.Succeeded && !strings.Contains(w.Ops[0].Key, "/rsync/engine/") {
						t.Errorf("engine %d wrote late: %s", i, w.Ops[0].Key)
					}
				}
			}
			t.Logf("%s: %d contexts taken over, all done %s later, lease %s", how, claims, took.Round(time.Millisecond), ttl)
		})
	}
}

func owned(v *storetest.Faults) int {
	n := 0
	for _, w := range v.Log() {
		if w.Result.Succeeded && len(w.Ops) > 1 && w.Ops[0].Kind == store.OpPut && strings.Contains(w.Ops[0].Key, "/queue/") {
			n++
		}
	}
	return n
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// TestLeaderLost: when etcd's leader goes, all is done nevertheless.
func TestLeaderLost(t *testing.T) {
	etcd := startEtcd(t, 3)
	f := newFleet(t, etcd, "/leader")
	f.clusters.Cluster("edge", "c1").SetMode(fake.Unreachable)
	refs := f.instantiate(20)
	etcd.stop(etcd.leader())
	f.clusters.Cluster("edge", "c1").SetMode(fake.Works)
	f.wait(refs)
	if got := len(f.clusters.Cluster("edge", "c1").Objects()); got != 20 {
		t.Errorf("%d objects, want 20", got)
	}
}
