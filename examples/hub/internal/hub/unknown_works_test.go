// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"strings"
	"testing"
	"time"
)

// TestUnknownWorksStayWhileHeldUp checks that unknown works are deleted only when no application is held up
// any more.
func TestUnknownWorksStayWhileHeldUp(t *testing.T) {
	f := newFixture(t)
	f.objects.set("one", nil)
	f.shop()
	f.has("c1", "one")
	if err := f.Complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.stop()
	f.objects.set("", nil)
	f.start()
	f.is("OutOfSync Degraded", "Secret n/s, key k: not found")
	if reason := f.State(t.Context()).Applications[0].Status.Reason; strings.Contains(reason, "\n") ||
		strings.Count(reason, "not found") != 1 {
		t.Errorf("the reason is not a sentence: %q", reason)
	}
	select {
	case <-f.settled:
		t.Error("it is settled while an application is held up")
	case <-time.After(50 * time.Millisecond):
	}
	f.objects.set("two", nil)
	if err := f.Changed(t.Context(), "shop", "the Secret has come back"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-f.settled:
	case <-time.After(patience):
		t.Fatal("it never settles")
	}
	f.is("Synced Healthy", "")
	f.has("c1", "two")
}
