// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// TestReplicas: one of three engines is killed, or frozen for longer than its lease. No late write
// of that engine is accepted. The other engines take over its contexts within its lease and a
// second.
func TestReplicas(t *testing.T) {
	const ttl = 3 * time.Second
	for _, how := range []string{"killed", "frozen"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { replicas(t, how, ttl) })
		})
	}
}

func replicas(t *testing.T, how string, ttl time.Duration) {
	memory := memstore.New(memstore.Options{})
	clusters := fake.New()
	user, err := rsync.New(memory, clusters, rsync.Options{Name: "user"})
	if err != nil {
		t.Fatal(err)
	}
	var views []*storetest.Faults
	for i := range 3 {
		view := storetest.NewFaults(memory, nil)
		_, stop := startEngine(t, view, clusters, rsync.Options{Name: fmt.Sprint("engine", i), LeaseTTL: ttl})
		t.Cleanup(stop)
		views = append(views, view)
	}
	t.Cleanup(func() {
		for _, v := range views {
			v.Release()
		}
	})
	clusters.Cluster("edge", "c1").SetDelay(700 * time.Millisecond)
	time.Sleep(time.Second) // until all engines have seen each other
	var refs []rsync.EventRef
	for i := range 90 {
		id := fmt.Sprint("id", i)
		if err := user.Create(t.Context(), parse(t, id, fmt.Sprintf("web@c1 x%d=1", i))); err != nil {
			t.Fatal(err)
		}
		ref, err := user.Instantiate(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	time.Sleep(time.Second)
	shares := map[int]int{}
	for i, v := range views {
		shares[i] = len(v.Log())
		if shares[i] < 5 {
			t.Errorf("engine %d has written %d times: the work is not shared", i, shares[i])
		}
	}
	switch how {
	case "killed":
		views[0].Crash()
	case "frozen":
		views[0].Hold()
	}
	began := time.Now()
	for _, ref := range refs {
		if _, err := user.Wait(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(began)
	var claims []time.Duration
	for _, v := range views[1:] {
		for _, w := range v.Claims() {
			claims = append(claims, w.At.Sub(began))
		}
	}
	if len(claims) == 0 || slices.Max(claims) > ttl+time.Second {
		t.Errorf("taken over after %v", claims)
	}
	views[0].Release()
	time.Sleep(10 * time.Second)
	late := 0
	for _, w := range views[0].Log() {
		if w.Held {
			late++
			if w.Result.Succeeded && !sessionStart(w.Ops) {
				t.Errorf("a write from before was accepted: %v", w.Ops)
			}
		}
	}
	if how == "frozen" && late == 0 {
		t.Error("nothing was written late, so nothing was shown")
	}
	for i := range refs {
		status, err := user.Status(t.Context(), fmt.Sprint("id", i))
		if err != nil || status.Transitions != 2 || status.State != rsync.Instantiated {
			t.Errorf("context %d: %+v, %v", i, status, err)
		}
	}
	t.Logf("%s: shares %v, %d contexts taken over at last %s later, all done in %s, %d late writes", how, shares, len(claims), slices.Max(append(claims, 0)), took, late)
}

func sessionStart(ops []store.Op) bool {
	return len(ops) == 1 && strings.HasPrefix(ops[0].Key, "/rsync/engine/")
}

// TestOwnerEndsWhileLooking: an owner ends while another engine checks its contexts, and finds that
// they have an owner. No context stays behind.
func TestOwnerEndsWhileLooking(t *testing.T) {
	const contexts, runs = 200, 5
	for range runs {
		synctest.Test(t, func(t *testing.T) {
			r := newRace(t)
			for i := range contexts {
				r.create(fmt.Sprint("id", i), fmt.Sprintf("web@c1 x%d=1", i))
				r.ref(r.user.Instantiate(t.Context(), fmt.Sprint("id", i)))
				record := store.Put(fmt.Sprintf("/context/id%d/state/", i), []byte(`{"state":"Created","owner":"old","version":7}`))
				if _, err := r.memory.Txn(t.Context(), nil, []store.Op{record}); err != nil {
					t.Fatal(err)
				}
			}
			lease, err := r.memory.Grant(t.Context(), 20*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.memory.Txn(t.Context(), nil, []store.Op{store.PutLeased("/rsync/engine/old/", nil, lease)}); err != nil {
				t.Fatal(err)
			}
			slow := storetest.NewFaults(r.memory, nil)
			slow.Delay = time.Millisecond // eight contexts at a time, one millisecond each
			_, stop := startEngine(t, slow, r.clusters, rsync.Options{})
			defer stop()
			time.Sleep(time.Minute)
			for i := range contexts {
				r.state(fmt.Sprint("id", i), rsync.Instantiated)
			}
		})
	}
}
