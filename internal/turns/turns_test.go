// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// TestTurns checks that a client uses at most three quarters of the memory, and that the client
// with the least memory is next.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(100)
		var mu sync.Mutex
		var begun []string
		begin := func(ctx context.Context, name, client string, bytes int) (end func()) {
			ctx, cancel := context.WithCancel(ctx)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				release, err := turns.Take(ctx, client, bytes)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				begun = append(begun, name)
				mu.Unlock()
				<-ctx.Done()
				release()
				release()
			}()
			synctest.Wait()
			return func() {
				cancel()
				<-ended
				synctest.Wait()
			}
		}
		want := func(what string, names ...string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(begun)
			if !slices.Equal(begun, names) {
				t.Errorf("%s: %v begin, want %v", what, begun, names)
			}
			begun = nil
		}
		ctx := t.Context()
		a1 := begin(ctx, "a1", "a", 1000)
		want("a call that needs more than a client may have", "a1")
		a2 := begin(ctx, "a2", "a", 1)
		want("a client that has its share")
		b1 := begin(ctx, "b1", "b", 20)
		want("another client", "b1")
		c1 := begin(ctx, "c1", "c", 50)
		want("a call that does not fit")
		c2 := begin(ctx, "c2", "c", 1)
		want("a smaller call of the client that is next")
		begin(ctx, "a3", "a", 1)()
		want("a call that was canceled while it waited")
		b1()
		want("less memory than the next client needs")
		a1()
		want("all that wait, as they fit", "a2", "c1", "c2")
		a2()
		c1()
		c2()
		if turns.free != 100 || len(turns.running) != 0 || len(turns.waiting) != 0 {
			t.Errorf("in the end: %d free, %v, %d wait", turns.free, turns.running, len(turns.waiting))
		}
	})
}
