// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/appliedwork"
)

// TestUnconfirmedEntryStaysForGracePeriod checks an entry that was never confirmed and has no
// object: a late request may still create it.
func TestUnconfirmedEntryStaysForGracePeriod(t *testing.T) {
	api := newFakeAPI()
	clock := testingclock.NewFakePassiveClock(time.Now())
	tracker, work := newTracker(t, api, func(o *appliedwork.Options) { o.Clock = clock })
	if err := tracker.RecordIntent(neverEnds, work, configMap("a")); err != nil {
		t.Fatal(err)
	}
	pruner := appliedwork.NewPruner(tracker)
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, "1 pending"}, {89 * time.Second, "1 pending"}, {2 * time.Second, "1 deleted"}, {0, "nothing to do"}} {
		clock.SetTime(clock.Now().Add(step.after))
		changes, err := pruner.Prune(neverEnds, work, nil, appliedwork.PruneOptions{AllowEmpty: true})
		if err != nil || changes.String() != step.want {
			t.Errorf("%s: %v, want %s", changes, err, step.want)
		}
	}
}
