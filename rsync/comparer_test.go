// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// TestComparerPanics: a comparer that panics fails the event, and no object is deleted. The error
// names the object and the type of the panic, but not its value. The engine continues.
func TestComparerPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32 // the UpdateDeletes of two contexts call it concurrently
		s := newScene(t, nil, rsync.Options{Comparer: func(before, after *appcontext.Resource) bool {
			if n := calls.Add(1); n == 1 || n >= 3 { // the first update; the UpdateDeletes of the second update
				panic("secret")
			}
			return appcontext.Bytes(before, after)
		}})
		s.create("a", "web@c1 x=1 gone=1")
		s.create("b", "web@c1 x=2")
		s.create("c", "web@c1 x=3")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		failed := func(failure *rsync.EventError) {
			t.Helper()
			if text := failure.Error(); !strings.Contains(text, "ConfigMap") || !strings.Contains(text, "panicked with a string") || strings.Contains(text, "secret") {
				t.Errorf("the error must name the object and the type of the panic alone: %s", text)
			}
		}
		failed(s.failure(rsync.ReasonInvalidContext, s.ref(s.engine.Update(t.Context(), "a", "b")), nil))
		s.shows("c1", "gone=1 x=1")
		failed(s.failure(rsync.ReasonInvalidContext, s.ref(s.engine.Update(t.Context(), "a", "c")), nil))
		s.shows("c1", "gone=1 x=3")
		s.done(s.engine.Terminate(t.Context(), "c"))
	})
}
