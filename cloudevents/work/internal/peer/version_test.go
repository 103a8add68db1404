// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
)

// TestNumbersAheadAreRefused: numbers more than a day ahead of the clock are out of range.
func TestNumbersAheadAreRefused(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := protocol.BoundsAt(now)
	for name, tc := range map[string]struct {
		numbers peer.Numbers
		refused bool
	}{
		"no numbers":         {peer.Numbers{}, false},
		"highest version":    {peer.Numbers{Version: 7}, false},
		"higher version":     {peer.Numbers{Version: 8}, true},
		"last sequence":      {peer.Numbers{Seq: b.Sequence}, false},
		"sequence too far":   {peer.Numbers{Seq: b.Sequence + 1}, true},
		"time in a day":      {peer.Numbers{Time: now.Add(protocol.MaxAhead)}, false},
		"time after the day": {peer.Numbers{Time: now.Add(protocol.MaxAhead + 1)}, true},
	} {
		err := tc.numbers.Check(b, 7, "id")
		if refused := err != nil; refused != tc.refused || refused && peer.RefusalReason(err) != peer.RefusedVersion {
			t.Errorf("%s: %v", name, err)
		}
	}
}
