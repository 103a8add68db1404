// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// cutting is a store with watches that break after some messages.
type cutting struct {
	store.Store
	after int
}

var errCut = errors.New("the connection is cut")

func (c *cutting) Watch(ctx context.Context, prefix string, from int64) <-chan store.Watched {
	out := make(chan store.Watched)
	go func() {
		defer close(out)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		told := 0
		for message := range c.Store.Watch(ctx, prefix, from) {
			if told++; told > c.after {
				message = store.Watched{Err: errCut}
			}
			select {
			case out <- message:
			case <-ctx.Done():
			}
			if message.Err != nil {
				return
			}
		}
	}()
	return out
}

func describe(c rsync.Change) string {
	switch {
	case c.Element != nil:
		return fmt.Sprintf("%d: %s %s", c.Revision, c.Element.Event, c.Element.Status)
	case c.Cluster != nil:
		return fmt.Sprintf("%d: %s %s", c.Revision, c.Cluster.Cluster, c.Cluster.Phase)
	}
	return fmt.Sprintf("%d: %s", c.Revision, c.State)
}

// TestWatchIsCut: a user that continues each broken watch after the last change receives each
// change once.
func TestWatchIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1; web@c2 x=1")
		first, err := s.engine.Status(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			s.done(s.engine.Instantiate(t.Context(), "a"))
		}
		s.done(s.engine.Terminate(t.Context(), "a"))
		read := func(after int) (out []string, cuts int) {
			watcher, err := rsync.New(&cutting{s.memory, after}, fake.New(), rsync.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for from := first.Revision + 1; ; cuts++ {
				for c, err := range watcher.Watch(t.Context(), "a", from) {
					if err != nil {
						if !errors.Is(err, errCut) {
							t.Fatal(err)
						}
						break
					}
					out, from = append(out, describe(c)), c.Revision+1
					if c.State == rsync.Terminated {
						return out, cuts
					}
				}
			}
		}
		whole, _ := read(1000)
		if len(whole) < 20 {
			t.Errorf("only %v", whole)
		}
		for _, after := range []int{1, 2, 3, 5} {
			got, cuts := read(after)
			if diff := cmp.Diff(whole, got); diff != "" || cuts == 0 {
				t.Errorf("%d cuts, one after %d messages: -whole +got:\n%s", cuts, after, diff)
			}
		}
	})
}

// TestWatchIsTooLate: a watch from a revision that the store no longer has returns ErrCompacted. A
// watch from 0 then begins with the current state.
func TestWatchIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New(memstore.Options{})
		s := newScene(t, memory, rsync.Options{})
		s.create("a", "web@c1 x=1")
		first, err := s.engine.Status(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		s.done(s.engine.Instantiate(t.Context(), "a"))
		memory.Compact()
		told := 0
		for _, err := range s.engine.Watch(t.Context(), "a", first.Revision+1) {
			if told++; !errors.Is(err, store.ErrCompacted) || told > 1 {
				t.Fatalf("message %d: %v", told, err)
			}
		}
		var ref rsync.EventRef
		var states []rsync.State
		for c, err := range s.engine.Watch(t.Context(), "a", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if c.State != "" && (len(states) == 0 || states[len(states)-1] != c.State) {
				states = append(states, c.State)
				if len(states) == 1 {
					ref = s.ref(s.engine.Terminate(t.Context(), "a"))
				}
			}
			if c.State == rsync.Terminated {
				break
			}
		}
		s.done(ref, nil)
		if states[0] != rsync.Instantiated || len(states) != 3 {
			t.Errorf("the states are %v", states)
		}
	})
}
