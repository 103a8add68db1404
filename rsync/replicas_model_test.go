// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// TestEnginesComeAndGo: engines join, leave in order, crash and freeze at random moments, with
// watches that lag. Meanwhile events are queued, stopped and terminated. All queued events end soon
// after the last change. Each event begins once. A context changes its owner only after the owner
// has released it or is dead.
func TestEnginesComeAndGo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(drawEngineStep), 4, 40).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			f := newFlock(t)
			for _, s := range steps {
				f.step(s)
			}
			f.settle()
			f.judge()
			f.end()
			if t.Failed() {
				t.Logf("steps %+v", steps)
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

const flockContexts, flockLease = 6, 2 * time.Second

type engineStep struct {
	What    string
	Engine  int // index of a running engine
	Context int
	Delay   time.Duration // of each call and watch message of an engine that joins
	Wait    time.Duration
}

func drawEngineStep(t *rapid.T) engineStep {
	return engineStep{
		What: rapid.SampledFrom([]string{
			"instantiate", "instantiate", "instantiate", "read", "terminate", "stop", "join", "join", "leave", "crash", "freeze",
			"thaw", "dead", "works",
		}).Draw(t, "what"),
		Engine:  rapid.IntRange(0, 7).Draw(t, "engine"),
		Context: rapid.IntRange(0, flockContexts-1).Draw(t, "context"),
		Delay:   time.Duration(rapid.SampledFrom([]int{0, 0, 1, 20, 150}).Draw(t, "delay")) * time.Millisecond,
		Wait:    time.Duration(rapid.SampledFrom([]int{0, 0, 1, 10, 100, 1000, 3000}).Draw(t, "wait")) * time.Millisecond,
	}
}

// flock is a set of engines on one store.
type flock struct {
	*scene
	members []*member
	joined  int
	queued  [flockContexts]int
}

type member struct {
	view   *storetest.Faults
	cancel func()
	ended  chan error
}

func newFlock(t *testing.T) *flock {
	f := &flock{scene: &scene{t: t, memory: memstore.New(memstore.Options{}), clusters: fake.New()}}
	var err error
	if f.engine, err = rsync.New(f.memory, f.clusters, rsync.Options{Name: "user"}); err != nil {
		t.Fatal(err)
	}
	for i := range flockContexts {
		f.create(fmt.Sprint("id", i), fmt.Sprintf("web@c1 x%d=1; web@c2 x%d=1; db@c2 y%d=1", i, i, i))
	}
	f.join(0)
	return f
}

func (f *flock) join(delay time.Duration) {
	m := &member{view: storetest.NewFaults(f.memory, nil), ended: make(chan error, 1)}
	m.view.Delay = delay
	f.joined++
	engine, err := rsync.New(m.view, f.clusters, rsync.Options{Name: fmt.Sprint("engine", f.joined), LeaseTTL: flockLease,
		Workers: 2})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go func() { m.ended <- engine.Start(ctx) }()
	f.members = append(f.members, m)
}

func (f *flock) remove(i int, crash bool) {
	m := f.members[i]
	f.members = slices.Delete(f.members, i, i+1)
	if crash {
		m.view.Crash()
	}
	m.view.Release()
	m.cancel()
	if err := <-m.ended; err != nil {
		f.t.Error(err)
	}
}

func (f *flock) step(s engineStep) {
	id := fmt.Sprint("id", s.Context)
	at := s.Engine % max(len(f.members), 1)
	switch s.What {
	case "instantiate", "read", "terminate":
		queue := map[string]func(context.Context, string, ...rsync.CallOption) (rsync.EventRef, error){
			"instantiate": f.engine.Instantiate, "read": f.engine.Read, "terminate": f.engine.Terminate,
		}[s.What]
		f.ref(queue(f.t.Context(), id))
		f.queued[s.Context]++
	case "stop":
		if err := f.engine.Stop(f.t.Context(), id); err != nil {
			f.t.Error(err)
		}
		time.Sleep(100 * time.Millisecond)
		if err := f.engine.ClearStop(f.t.Context(), id); err != nil {
			f.t.Error(err)
		}
	case "dead", "works":
		mode := map[string]fake.Mode{"dead": fake.ModeUnreachable, "works": fake.ModeWorks}[s.What]
		f.clusters.Cluster("edge", "c1").SetMode(mode)
	case "join":
		if len(f.members) < 6 {
			f.join(s.Delay)
		}
	case "leave", "crash":
		if len(f.members) > 0 {
			f.remove(at, s.What == "crash")
		}
	case "freeze", "thaw":
		if len(f.members) > 0 {
			map[string]func(){"freeze": f.members[at].view.Hold, "thaw": f.members[at].view.Release}[s.What]()
		}
	}
	time.Sleep(s.Wait)
}

// settle checks that all events end within three leases and 20 seconds. This time is enough for a
// lease to end, for a recovered cluster to answer, and for the calls of the slowest engine. An
// engine with an ended lease waits up to one lease for its next lease.
func (f *flock) settle() {
	f.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
	if len(f.members) == 0 {
		f.join(0)
	}
	for _, m := range f.members {
		m.view.Release()
	}
	time.Sleep(3*flockLease + 20*time.Second)
	for i := range flockContexts {
		status, err := f.engine.Status(f.t.Context(), fmt.Sprint("id", i))
		if err != nil {
			f.t.Fatal(err)
		}
		if len(status.Queue) != f.queued[i] {
			f.t.Errorf("context %d has %d events, and %d were queued", i, len(status.Queue), f.queued[i])
		}
		for _, e := range status.Queue {
			if !e.Status.Final() {
				f.t.Errorf("%s %d of context %d is %s", e.Event, e.Seq, i, e.Status)
			}
		}
	}
}

// judge checks the begins and the owners in the history of the store.
func (f *flock) judge() {
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	if _, err := f.memory.Txn(ctx, nil, []store.Op{store.Put("/end/", nil)}); err != nil {
		f.t.Fatal(err)
	}
	alive, owners, begun := map[string]bool{}, map[string]string{}, map[string]int{}
	for message := range f.memory.Watch(ctx, "/", 1) {
		for _, e := range message.Events {
			session, isSession := strings.CutPrefix(strings.TrimSuffix(e.KV.Key, "/"), "/rsync/engine/")
			switch {
			case e.KV.Key == "/end/":
				for _, element := range slices.Sorted(maps.Keys(begun)) {
					if begun[element] != 1 {
						f.t.Errorf("%s began %d times", element, begun[element])
					}
				}
				return
			case isSession:
				alive[session] = !e.Deleted
			case strings.HasPrefix(e.KV.Key, "/context/") && !e.Deleted:
				f.judgeWrite(e.KV, alive, owners, begun)
			}
		}
	}
}

func (f *flock) judgeWrite(kv store.KeyValue, alive map[string]bool, owners map[string]string, begun map[string]int) {
	var value struct {
		Owner, Writer string
		Status        rsync.ElementStatus
	}
	switch {
	case json.Unmarshal(kv.Value, &value) != nil:
	case strings.HasSuffix(kv.Key, "/state/"):
		before := owners[kv.Key]
		if value.Writer != "" && !alive[value.Writer] {
			f.t.Errorf("%s was written by %s, whose key was gone", kv.Key, value.Writer)
		}
		if before != "" && before != value.Writer && alive[before] {
			f.t.Errorf("%s was taken by %s from %s, which was alive", kv.Key, value.Writer, before)
		}
		owners[kv.Key] = value.Owner
	case strings.Contains(kv.Key, "/queue/") && value.Status == rsync.InProgress:
		begun[kv.Key]++
	}
}

func (f *flock) end() {
	for len(f.members) > 0 {
		f.remove(0, false)
	}
}
