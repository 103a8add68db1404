// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package storetest is a conformance test suite for implementations of [work.Store].
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Opener {
//			path := filepath.Join(t.TempDir(), "store")
//			return func(t *testing.T) (work.Store, func()) {
//				s := mystore.Open(path)
//				return s, func() { s.Close() }
//			}
//		})
//	}
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// Opener opens the store at one place, the same place at each call. It returns the function that
// closes the store. The suite closes the store before it opens it again.
type Opener func(t *testing.T) (s work.Store, closeStore func())

// Run runs the suite. It calls place once for each check. Each call must return an Opener of a
// separate, empty place. The checks of ApplyIf and Follow need a [work.SharedStore]; other stores
// pass them.
func Run(t *testing.T, place func(t *testing.T) Opener) { run(t, place, 200, false) }

// RunSlow is Run for a store that takes a second for each call: it makes fewer calls, and runs all
// checks at the same time.
func RunSlow(t *testing.T, place func(t *testing.T) Opener) { run(t, place, 20, true) }

func run(t *testing.T, place func(t *testing.T) Opener, batches int, together bool) {
	model := func(t *testing.T, open Opener) { model(t, open, batches) }
	concurrent := func(t *testing.T, open Opener) { concurrent(t, open, batches/4) }
	follows := func(t *testing.T, open Opener) { follows(t, open, batches/2) }
	followsAnytime := func(t *testing.T, open Opener) { followsAnytime(t, open, batches/2) }
	fences := func(t *testing.T, open Opener) { fences(t, open, batches/10) }
	checks := []struct {
		name string
		run  func(*testing.T, Opener)
	}{
		{"IsEmptyAtFirst", emptyAtFirst},
		{"KeepsWhatWasApplied", keeps},
		{"KeepsAnyBytes", anyBytes},
		{"KeepsEmptyValues", emptyValues},
		{"KeepsTheLongestKeys", longKeys},
		{"KeepsLargeRecordsAndBatches", large},
		{"OutlivesItsOpening", reopens},
		{"MatchesAModel", model},
		{"StopsLoadingAtAnError", loadError},
		{"RefusesAnEndedContext", endedContext},
		{"IsSafeForConcurrentUse", concurrent},
		{"AppliesOnConditions", conditions},
		{"TellsFollowers", follows},
		{"FollowsFromAnyMoment", followsAnytime},
		{"RefusesUnknownPositions", unknownPosition},
		{"RefusesFormerLeaders", fences},
	}
	var group sync.WaitGroup
	defer group.Wait()
	for _, c := range checks {
		check := func() { t.Run(c.name, func(t *testing.T) { c.run(t, place(t)) }) }
		if together {
			group.Go(check) // t.Parallel would run only one for each processor: the checks mostly wait
		} else {
			check()
		}
	}
}

// content returns all records.
func content(t *testing.T, s work.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := s.Load(t.Context(), func(key string, value []byte) error {
		if _, ok := out[key]; ok {
			t.Errorf("Load gave %q twice", key)
		}
		out[key] = string(value)
		return nil
	})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return out
}

func expect(t *testing.T, s work.Store, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, content(t, s)); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
}

func apply(t *testing.T, s work.Store, changes ...work.Change) {
	t.Helper()
	if err := s.Apply(t.Context(), changes); err != nil {
		t.Fatalf("Apply: %v", err)
	}
}

func set(key, value string) work.Change { return work.Change{Key: key, Value: []byte(value)} }
func remove(key string) work.Change     { return work.Change{Key: key} }

func opened(t *testing.T, open Opener) work.Store {
	s, closeStore := open(t)
	t.Cleanup(closeStore)
	return s
}

func emptyAtFirst(t *testing.T, open Opener) {
	s := opened(t, open)
	expect(t, s, map[string]string{})
	apply(t, s) // an empty batch changes nothing
	expect(t, s, map[string]string{})
}

func keeps(t *testing.T, open Opener) {
	s := opened(t, open)
	apply(t, s, set("a", "1"), set("b", "2"), remove("c"))
	expect(t, s, map[string]string{"a": "1", "b": "2"})
	apply(t, s, set("a", "3"), remove("b"), set("c", "4"))
	expect(t, s, map[string]string{"a": "3", "c": "4"})
}

func anyBytes(t *testing.T, open Opener) {
	s := opened(t, open)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	key := "work/cluster1/a b/c%41~é\u2028" + strings.Repeat("k", 500)
	apply(t, s, work.Change{Key: key, Value: all}, work.Change{Key: "one", Value: []byte{0}})
	expect(t, s, map[string]string{key: string(all), "one": "\x00"})
}

// emptyValues: an empty value is a value, unlike nil, also for conditions and followers.
func emptyValues(t *testing.T, open Opener) {
	s := opened(t, open)
	apply(t, s, set("a", "1"), work.Change{Key: "b", Value: []byte{}})
	expect(t, s, map[string]string{"a": "1", "b": ""})
	shared, ok := s.(work.SharedStore)
	if !ok {
		return
	}
	changes := []work.Change{{Key: "a", Value: []byte{}}}
	if err := shared.ApplyIf(t.Context(), remove("b"), changes); !errors.Is(err, work.ErrCondition) {
		t.Errorf("ApplyIf without the record, which is empty: %v", err)
	}
	if err := shared.ApplyIf(t.Context(), work.Change{Key: "b", Value: []byte{}}, changes); err != nil {
		t.Errorf("ApplyIf with the empty record: %v", err)
	}
	count := 0
	err := shared.Follow(t.Context(), "", nil, func(b work.Batch) error {
		for _, c := range b.Changes {
			if count++; c.Value == nil || len(c.Value) > 0 {
				t.Errorf("a follower received %q = %v, want an empty value", c.Key, c.Value)
			}
		}
		if count == 2 {
			return shared.Apply(t.Context(), []work.Change{{Key: "c", Value: []byte{}}})
		}
		return errDone
	})
	if !errors.Is(err, errDone) || count != 3 {
		t.Errorf("Follow returned %v after %d changes", err, count)
	}
}

// longKeys have a common prefix, like the keys of works, to detect a store that truncates keys.
func longKeys(t *testing.T, open Opener) {
	s := opened(t, open)
	long := strings.Repeat("k", work.MaxKeyLength-1)
	apply(t, s, set(long+"1", "1"), set(long+"2", "2"), set(long+"3", "3"))
	apply(t, s, remove(long+"3"))
	expect(t, s, map[string]string{long + "1": "1", long + "2": "2"})
}

func large(t *testing.T, open Opener) {
	s := opened(t, open)
	want := map[string]string{"big": strings.Repeat("x", 3<<20)}
	changes := []work.Change{set("big", want["big"])}
	for i := range 5000 {
		key := fmt.Sprintf("work/cluster%d/%d", i%10, i)
		want[key] = strings.Repeat("v", i%300+1)
		changes = append(changes, set(key, want[key]))
	}
	apply(t, s, changes...)
	expect(t, s, want)
}

func reopens(t *testing.T, open Opener) {
	s, closeStore := open(t)
	apply(t, s, set("a", "1"), set("b", "2"))
	apply(t, s, remove("a"))
	closeStore()
	s = opened(t, open)
	expect(t, s, map[string]string{"b": "2"})
}

// model runs random batches, sometimes opens the store again, and compares the content with a map.
func model(t *testing.T, open Opener, batches int) {
	random := rand.New(rand.NewPCG(1, 2))
	want := map[string]string{}
	s, closeStore := open(t)
	for range batches {
		batch := map[string]work.Change{} // each key at most once
		for range random.IntN(8) {
			key := fmt.Sprintf("work/%d", random.IntN(20))
			batch[key] = work.Change{Key: key}
			if random.IntN(3) > 0 {
				batch[key] = set(key, fmt.Sprint(random.Uint64()))
			}
		}
		var changes []work.Change
		for key, c := range batch {
			changes = append(changes, c)
			if c.Value == nil {
				delete(want, key)
			} else {
				want[key] = string(c.Value)
			}
		}
		apply(t, s, changes...)
		if random.IntN(20) == 0 {
			closeStore()
			s, closeStore = open(t)
		}
	}
	expect(t, s, want)
	closeStore()
}

func loadError(t *testing.T, open Opener) {
	s := opened(t, open)
	apply(t, s, set("a", "1"), set("b", "2"))
	enough := errors.New("enough")
	calls := 0
	err := s.Load(t.Context(), func(string, []byte) error {
		calls++
		return enough
	})
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("Load returned %v after %d calls, want the error of the first", err, calls)
	}
}

func endedContext(t *testing.T, open Opener) {
	s := opened(t, open)
	apply(t, s, set("a", "1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Apply(ctx, []work.Change{set("a", "2")}); !errors.Is(err, context.Canceled) {
		t.Errorf("Apply with an ended context: %v", err)
	}
	err := s.Load(ctx, func(string, []byte) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Load with an ended context: %v", err)
	}
	expect(t, s, map[string]string{"a": "1"})
}

// concurrent writes pairs of records that must always be seen together.
func concurrent(t *testing.T, open Opener, pairs int) {
	s := opened(t, open)
	var group sync.WaitGroup
	for writer := range 4 {
		group.Go(func() {
			for i := range pairs {
				value := fmt.Appendf(nil, "%d-%d", writer, i)
				pair := []work.Change{{Key: "left", Value: value}, {Key: "right", Value: bytes.Clone(value)}}
				if err := s.Apply(t.Context(), pair); err != nil {
					t.Errorf("Apply: %v", err)
				}
			}
		})
	}
	for range pairs {
		got := content(t, s)
		if got["left"] != got["right"] {
			t.Fatalf("half a batch was seen: %v", got)
		}
	}
	group.Wait()
}

// conditions: a change is made only if its condition holds, and only one of many concurrent changes
// of a record wins. Stores without conditions pass.
func conditions(t *testing.T, open Opener) {
	s, ok := opened(t, open).(work.SharedStore)
	if !ok {
		return
	}
	for _, step := range []struct {
		condition work.Change
		value     string
		holds     bool
	}{
		{set("a", "1"), "x", false},
		{remove("a"), "1", true},
		{remove("a"), "2", false},
		{set("a", "2"), "3", false},
		{set("a", "1"), "2", true},
	} {
		err := s.ApplyIf(t.Context(), step.condition, []work.Change{set("a", step.value), set("b", step.value)})
		if step.holds && err != nil || !step.holds && !errors.Is(err, work.ErrCondition) {
			t.Errorf("%v: %v", step, err)
		}
	}
	expect(t, s, map[string]string{"a": "2", "b": "2"})
	var group sync.WaitGroup
	var won atomic.Int32
	for i := range 8 {
		group.Go(func() {
			err := s.ApplyIf(t.Context(), set("a", "2"), []work.Change{set("a", fmt.Sprint("winner ", i))})
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, work.ErrCondition):
				t.Errorf("ApplyIf: %v", err)
			}
		})
	}
	group.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("%d of 8 changes were made on one condition", n)
	}
}

// fences runs several leaders in one process.
func fences(t *testing.T, open Opener, claims int) {
	if s, ok := opened(t, open).(work.SharedStore); ok {
		rival(t, []work.SharedStore{s, s, s}, claims)
	}
}

var (
	errDone  = errors.New("done")
	errPause = errors.New("paused")
)
