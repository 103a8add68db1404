// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// follows: each follower receives the content and then every batch, all in the same order. Stores
// without followers pass.
func follows(t *testing.T, open Opener, batches int) {
	s, ok := opened(t, open).(work.SharedStore)
	if !ok {
		return
	}
	apply(t, s, set("a", "0"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const followers = 3
	var group sync.WaitGroup
	seen := make([][]string, followers)
	ready := make(chan struct{}, followers)
	for i := range followers {
		group.Go(func() {
			err := s.Follow(ctx, "", nil, func(b work.Batch) error {
				for _, c := range b.Changes {
					seen[i] = append(seen[i], c.Key+"="+string(c.Value))
				}
				if len(seen[i]) == 1 {
					ready <- struct{}{}
				}
				if len(seen[i]) == 1+2*batches {
					return errDone
				}
				return nil
			})
			if !errors.Is(err, errDone) {
				t.Errorf("Follow returned %v, want the callback's error", err)
			}
		})
	}
	for range followers {
		<-ready
	}
	for writer := range 2 {
		group.Go(func() {
			for i := range batches / 2 {
				key := fmt.Sprintf("%d-%d", writer, i)
				if err := s.Apply(t.Context(), []work.Change{set(key, "x"), remove(key + "-")}); err != nil {
					t.Errorf("Apply: %v", err)
				}
			}
		})
	}
	group.Wait()
	for i := range followers {
		if diff := cmp.Diff(seen[0], seen[i]); diff != "" {
			t.Errorf("two followers received different changes (-first +%d):\n%s", i, diff)
		}
	}
	cancel()
	if err := s.Follow(ctx, "", nil, func(work.Batch) error { return nil }); err != nil {
		t.Errorf("Follow with an ended context: %v, want nil", err)
	}
}

// followsAnytime: followers that begin while others write have the store's content in the end. They
// often stop and continue from their position, with some wrong records. A follower that is behind
// begins again.
func followsAnytime(t *testing.T, open Opener, batches int) {
	s, ok := opened(t, open).(work.SharedStore)
	if !ok {
		return
	}
	var writers, followers sync.WaitGroup
	for writer := range 2 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(writer), 3))
			for i := range batches {
				value := fmt.Sprint(writer, i)
				changes := []work.Change{
					set(fmt.Sprint("a", random.IntN(10)), value), remove(fmt.Sprint("b", random.IntN(10))),
					set(fmt.Sprint("c", random.IntN(10)), value),
				}
				if err := s.Apply(t.Context(), changes); err != nil {
					t.Errorf("Apply: %v", err)
				}
			}
		})
	}
	seen := make([]follower, 5)
	for i := range seen {
		apply(t, s, set(fmt.Sprint("b", i), "removed later, or not"))
		seen[i].random = rand.New(rand.NewPCG(uint64(i), 4))
		followers.Go(func() { seen[i].run(t, s) })
	}
	writers.Wait()
	apply(t, s, set("end", ""))
	followers.Wait()
	want := content(t, s)
	for i := range seen {
		if diff := cmp.Diff(want, seen[i].records); diff != "" {
			t.Errorf("follower %d differs from the store (-store +follower):\n%s", i, diff)
		}
	}
}

// follower follows a store in several calls.
type follower struct {
	random   *rand.Rand
	records  map[string]string
	position string
	wrong    []string // keys of wrong records
}

// run follows until the record "end".
func (f *follower) run(t *testing.T, s work.SharedStore) {
	for {
		if f.position == "" {
			f.records, f.wrong = map[string]string{}, nil
		}
		err := s.Follow(t.Context(), f.position, f.wrong, f.receiver(t))
		switch {
		case errors.Is(err, errDone):
			return
		case errors.Is(err, work.ErrBehind):
			f.position = ""
		case errors.Is(err, errPause):
			for range f.random.IntN(4) {
				key := fmt.Sprint(string("abc"[f.random.IntN(3)]), f.random.IntN(10))
				f.wrong, f.records[key] = append(f.wrong, key), "wrong"
			}
		default:
			t.Errorf("Follow: %v", err)
			return
		}
	}
}

// receiver returns the function for one call of Follow.
func (f *follower) receiver(t *testing.T) func(work.Batch) error {
	pause, state := f.random.IntN(10), map[string]struct{}{}
	return func(b work.Batch) error {
		for _, c := range b.Changes {
			if _, ok := state[c.Key]; ok && state != nil {
				t.Errorf("the state at the position %q has the key %q twice", f.position, c.Key)
			}
			if state != nil {
				state[c.Key] = struct{}{}
			}
		}
		err := replay(f.records, b)
		if b.Position == "" {
			return nil
		}
		f.position, f.wrong, state = b.Position, nil, nil
		if pause--; err == nil && pause < 0 {
			return errPause
		}
		return err
	}
}

// replay makes the changes of a batch in a map. It returns errDone at the record "end".
func replay(records map[string]string, b work.Batch) error {
	for _, c := range b.Changes {
		if c.Value == nil {
			delete(records, c.Key)
		} else {
			records[c.Key] = string(c.Value)
		}
	}
	if _, ok := records["end"]; ok {
		return errDone
	}
	return nil
}

// unknownPosition: a position of another store, or of a state that was lost, is refused.
func unknownPosition(t *testing.T, open Opener) {
	s, ok := opened(t, open).(work.SharedStore)
	if !ok {
		return
	}
	for _, position := range []string{"unknown", "1", "1/", "/", "9223372036854775807"} {
		err := s.Follow(t.Context(), position, nil, func(b work.Batch) error {
			t.Errorf("Follow from %q delivered %v", position, b)
			return errDone
		})
		if !errors.Is(err, work.ErrBehind) {
			t.Errorf("Follow from %q: %v, want ErrBehind", position, err)
		}
	}
}
