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

	"time"

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

// TestWatchResumes: a watch that continues after another watch returns each change once.
func TestWatchResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1; web@c2 x=1")
		status, err := s.engine.Status(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.done(s.engine.Terminate(t.Context(), "a"))
		read := func(breakEach bool) (out []string) {
			from := status.Revision + 1
			for done := false; !done; {
				for c, err := range s.engine.Watch(t.Context(), "a", from) {
					if err != nil {
						t.Fatal(err)
					}
					if breakEach && c.Revision >= from {
						from = c.Revision // again, including the changes of the same revision
					}
					switch {
					case c.Element != nil:
						out = append(out, fmt.Sprintf("%d:%s %s", c.Revision, c.Element.Event, c.Element.Status))
					case c.Cluster != nil:
						out = append(out, fmt.Sprintf("%d:%s %s", c.Revision, c.Cluster.Cluster, c.Cluster.Phase))
					case c.State != "":
						out = append(out, fmt.Sprintf("%d:%s", c.Revision, c.State))
					}
					if done = c.State == rsync.Terminated; done {
						break
					}
				}
			}
			return out
		}
		whole := read(false)
		if len(whole) < 8 {
			t.Errorf("only %v", whole)
		}
		if diff := cmp.Diff(whole, read(false)); diff != "" {
			t.Errorf("-first +second:\n%s", diff)
		}
	})
}

// TestWatchErrors: a watch of a missing context, or from an impossible revision, ends with an
// error. A watch from before a deletion reports the deletion.
func TestWatchErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1")
		s.create("gone", "web@c1 x=1")
		before, err := s.engine.Status(t.Context(), "gone")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.engine.Delete(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			id   string
			from int64
			want error
		}{{"none", 1, rsync.ErrNotFound}, {"a", 1000, store.ErrCompacted}, {"a", -1, rsync.ErrInvalidInput},
			{"none", 1000, rsync.ErrNotFound}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var last error
			for _, err := range s.engine.Watch(ctx, test.id, test.from) {
				last = err
			}
			cancel()
			if !errors.Is(last, test.want) {
				t.Errorf("Watch(%q, %d) ended with %v, want %v", test.id, test.from, last, test.want)
			}
		}
		deleted := false
		for c, err := range s.engine.Watch(t.Context(), "gone", before.Revision+1) {
			if err != nil {
				t.Fatal(err)
			}
			deleted = c.Deleted
		}
		if !deleted {
			t.Error("a watch from before the deletion does not tell of it")
		}
	})
}
