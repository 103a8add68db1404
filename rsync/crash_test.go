// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
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

// story is a sequence of events, on engines that crash as planned: Instantiate, Update, Update,
// Rollback and Terminate. A crash discards the memory of an engine. The next engine starts on the
// same store.
type story struct {
	t        *testing.T
	memory   *memstore.Store
	clusters *fake.Clusters
	user     *rsync.Engine // queues and waits, and never crashes
	plans    []func(n int, ops []store.Op) storetest.Verdict

	writes int // of the engine that did not crash
	crashs int
}

func newStory(t *testing.T, plans ...func(int, []store.Op) storetest.Verdict) *story {
	s := &story{t: t, memory: memstore.New(memstore.Options{}), clusters: fake.New(), plans: plans}
	var err error
	if s.user, err = rsync.New(s.memory, s.clusters, rsync.Options{Name: "user"}); err != nil {
		t.Fatal(err)
	}
	return s
}

// engines runs one engine after the other until ctx ends.
func (s *story) engines(ctx context.Context) {
	for ctx.Err() == nil {
		var plan func(int, []store.Op) storetest.Verdict
		if len(s.plans) > 0 {
			plan, s.plans = s.plans[0], s.plans[1:]
		}
		faults := storetest.NewFaults(s.memory, plan)
		engine, err := rsync.New(faults, s.clusters, rsync.Options{})
		if err != nil {
			s.t.Error(err)
			return
		}
		engineCtx, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- engine.Start(engineCtx) }()
		select {
		case <-faults.Crashed():
			s.crashs++
		case <-ctx.Done():
			s.writes = faults.Writes()
		}
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	}
}

type told struct {
	transitions string
	objects     string
}

// play plays the story. It returns the states of each context, and the objects after each event.
func (s *story) play() told {
	t := s.t
	for id, text := range map[string]string{
		"a": "web@c1 p=1 q=1; web@c2 p=1; db@c1 d=1",
		"b": "web@c1 q=2 r=1; db@c2 d=1; db@c1 p=1",
		"c": "web<db@c1 q=2; web@c3 s=1; db@c1 p=1",
	} {
		if err := s.user.Create(t.Context(), parse(t, id, text)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.engines(ctx)
	}()
	out := told{}
	for i, event := range []func() (rsync.EventRef, error){
		func() (rsync.EventRef, error) { return s.user.Instantiate(ctx, "a") },
		func() (rsync.EventRef, error) { return s.user.Update(ctx, "a", "b") },
		func() (rsync.EventRef, error) { return s.user.Update(ctx, "b", "c") },
		func() (rsync.EventRef, error) { return s.user.Rollback(ctx, "c", "b") },
		func() (rsync.EventRef, error) { return s.user.Terminate(ctx, "b") },
	} {
		ref, err := event()
		if err != nil {
			t.Fatal(err)
		}
		limited, stop := context.WithTimeout(ctx, time.Hour)
		if _, err := s.user.Wait(limited, ref); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		stop()
		for _, c := range []string{"c1", "c2", "c3"} {
			out.objects += fmt.Sprintf("%d %s: %s\n", i, c, objectsOn(s.clusters, c))
		}
	}
	cancel()
	<-ended
	out.transitions = s.transitions()
	return out
}

// transitions returns all values that the records of the contexts had, from the history of the
// store.
func (s *story) transitions() string {
	return s.transitionsOf("a", "b", "c")
}

func (s *story) transitionsOf(ids ...string) string {
	out := ""
	for _, id := range ids {
		ctx, cancel := context.WithCancel(s.t.Context())
		last, want := "", uint64(0)
		status, err := s.user.Status(ctx, id)
		if err != nil {
			s.t.Fatal(err)
		}
		want = status.Transitions
		out += id + ":"
		seen := uint64(0)
		for change, err := range s.user.Watch(ctx, id, 1) {
			if err != nil {
				s.t.Fatal(err)
			}
			if state := string(change.State); state != "" && state != last {
				out += " " + state
				last = state
				seen++
			}
			if seen == want+1 {
				break
			}
		}
		cancel()
		for _, e := range status.Queue {
			out += fmt.Sprintf(" [%s %s]", e.Event, e.Status)
		}
		out += "\n"
	}
	return out
}

// TestCrashAtEveryWrite crashes an engine before and after each write of the story. It also crashes
// the next engine at each of its first writes. The states and objects are the same as without a
// crash.
func TestCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	var want told
	var writes int
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t)
		want = s.play()
		writes = s.writes
	})
	t.Logf("%d writes, %s\n%s", writes, want.transitions, want.objects)
	if writes < 20 {
		t.Fatalf("the story has only %d writes", writes)
	}
	at := func(n int, v storetest.Verdict) func(int, []store.Op) storetest.Verdict {
		return func(i int, _ []store.Op) storetest.Verdict {
			if i == n {
				return v
			}
			return storetest.VerdictPass
		}
	}
	runs := 0
	play := func(name string, plans ...func(int, []store.Op) storetest.Verdict) {
		runs++
		synctest.Test(t, func(t *testing.T) {
			s := newStory(t, plans...)
			if got := s.play(); got != want {
				t.Errorf("%s: got\n%s%s\nwant\n%s%s", name, got.transitions, got.objects, want.transitions, want.objects)
			}
		})
	}
	verdicts := map[string]storetest.Verdict{
		"before": storetest.VerdictCrashBefore, "after": storetest.VerdictCrashAfter,
		"fail before": storetest.VerdictFailBefore, "fail after": storetest.VerdictFailAfter,
	}
	for n := 1; n <= writes && !t.Failed(); n++ {
		for word, v := range verdicts {
			play(fmt.Sprintf("%s write %d", word, n), at(n, v))
		}
		for second := 1; second <= 6; second++ {
			for _, v := range []storetest.Verdict{storetest.VerdictCrashBefore, storetest.VerdictCrashAfter} {
				play(fmt.Sprintf("write %d, then %d", n, second), at(n, v), at(second, storetest.VerdictCrashAfter),
					at(second, storetest.VerdictCrashBefore))
			}
		}
	}
	t.Logf("%d stories with crashes", runs)
}

// TestCrashInCreate: a Create that crashes at any write creates either the whole context or no
// context. An engine that starts removes the remains of a crash, but not while the creator may
// still continue.
func TestCrashInCreate(t *testing.T) {
	t.Parallel()
	text := ""
	for i := range 300 { // more than one transaction can have
		text += fmt.Sprintf("app%d@c1 x%d=1;", i, i)
	}
	for name, text := range map[string]string{"parts": text, "one": "web@c1 x=1"} {
		c := parse(t, "a", text)
		writes := 0
		for n := 1; n == 1 || n <= writes; n++ {
			for _, v := range []storetest.Verdict{storetest.VerdictCrashBefore, storetest.VerdictCrashAfter,
				storetest.VerdictFailBefore, storetest.VerdictFailAfter} {
				t.Run(fmt.Sprint(name, n, v), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { writes = max(writes, crashInCreate(t, c, n, v)) })
				})
			}
		}
		if want := map[string]int{"parts": 6, "one": 1}[name]; writes < want {
			t.Errorf("%s: %d writes, want at least %d", name, writes, want)
		}
	}
}

// crashInCreate checks a Create with a fault at write n. It returns the number of writes of a
// Create without faults.
func crashInCreate(t *testing.T, c *appcontext.AppContext, n int, v storetest.Verdict) int {
	memory := memstore.New(memstore.Options{})
	faults := storetest.NewFaults(memory, func(i int, _ []store.Op) storetest.Verdict {
		if i == n {
			return v
		}
		return storetest.VerdictPass
	})
	engine, _ := rsync.New(faults, fake.New(), rsync.Options{})
	err := engine.Create(t.Context(), c)
	other, _ := rsync.New(memory, fake.New(), rsync.Options{})
	got, readErr := other.AppContext(t.Context(), "a")
	switch failed := v == storetest.VerdictFailBefore || v == storetest.VerdictFailAfter; {
	case errors.Is(readErr, rsync.ErrNotFound):
		if err == nil {
			t.Fatal("created without error, and not there")
		}
		if failed && memory.Len() != 0 {
			t.Errorf("%d keys are left of what failed", memory.Len())
		}
	case readErr != nil:
		t.Error(readErr)
	case len(got.Apps) != len(c.Apps) || !reflect.DeepEqual(got, c):
		t.Error("half of it is there")
	}
	had := memory.Len()
	sweeper, stop := startEngine(t, memory, fake.New(), rsync.Options{})
	time.Sleep(9 * time.Minute)
	if now := memory.Len() - 1; now != had { // without the key of the engine
		t.Errorf("there were %d keys, and are %d while the creator may go on", had, now)
	}
	time.Sleep(2 * time.Minute)
	if readErr != nil {
		if now := memory.Len() - 1; now != 0 {
			t.Errorf("%d keys are left", now)
		}
		if err := sweeper.Create(t.Context(), c); err != nil {
			t.Errorf("again: %v", err)
		}
	} else if now := memory.Len() - 1; now != had {
		t.Errorf("of a context that is there %d keys were removed", had-now)
	}
	if err := sweeper.Delete(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	stop()
	if memory.Len() != 0 {
		t.Errorf("%d keys are left when the context is deleted", memory.Len())
	}
	whole := storetest.NewFaults(memory, nil)
	engine, _ = rsync.New(whole, fake.New(), rsync.Options{})
	if err := engine.Create(t.Context(), c); err != nil {
		t.Error(err)
	}
	return whole.Writes()
}

// TestLatePartsOfCreate: parts of a Create write nothing if they reach the store after the creator,
// or a sweep, has given up the Create.
func TestLatePartsOfCreate(t *testing.T) {
	text := ""
	for i := range 300 {
		text += fmt.Sprintf("app%d@c1 x%d=1;", i, i)
	}
	c := parse(t, "a", text)
	t.Run("given up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			memory := memstore.New(memstore.Options{})
			faults := storetest.NewFaults(memory, nil)
			faults.Delay = time.Second
			engine, _ := rsync.New(faults, fake.New(), rsync.Options{CallTimeout: 2 * time.Second})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			time.AfterFunc(3500*time.Millisecond, faults.Hold) // the fifth part reaches the store late
			if err := engine.Create(ctx, c); err == nil {
				t.Fatal("created, with the store held")
			}
			_, stop := startEngine(t, memory, fake.New(), rsync.Options{})
			time.Sleep(time.Hour)
			stop()
			faults.Release()
			time.Sleep(time.Minute)
			if memory.Len() != 0 || faults.Writes() < 5 {
				t.Errorf("%d keys after %d writes", memory.Len(), faults.Writes())
			}
		})
	})
	t.Run("too slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			memory := memstore.New(memstore.Options{})
			slow := storetest.NewFaults(memory, nil)
			slow.Delay = 4 * time.Minute
			engine, _ := rsync.New(slow, fake.New(), rsync.Options{CallTimeout: time.Hour})
			_, stop := startEngine(t, memory, fake.New(), rsync.Options{})
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- engine.Create(t.Context(), c) }()
			time.Sleep(5 * time.Minute)
			_, stopSweeper := startEngine(t, memory, fake.New(), rsync.Options{})
			defer stopSweeper()
			if err := <-ended; !errors.Is(err, rsync.ErrConflict) {
				t.Errorf("a Create that took too long: %v", err)
			}
			if n := memory.Len() - 2; n != 0 {
				t.Errorf("%d keys are left", n)
			}
		})
	})
}
