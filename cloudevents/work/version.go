// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// boundsOf returns the greatest plausible numbers of a profile.
func boundsOf(traits codec.Traits, c clock.PassiveClock) protocol.Bounds {
	if traits.Strict {
		return protocol.BundleBoundsAt(c.Now(), traits.MaxVersion)
	}
	return protocol.BoundsAt(c.Now())
}

// shown are the numbers in an event about a work.
type shown struct {
	version, seq int64
	// time is the event time, if the events of a strict peer are ordered by it.
	time time.Time
}

// check returns an error for an event with numbers that are out of bounds. highest is the greatest
// plausible version.
func (n shown) check(b protocol.Bounds, highest int64, id string) error {
	switch {
	case n.version > highest:
		return unusable(refusedVersion, "version %d of work %s is out of range: the greatest plausible one is %d",
			n.version, id, highest)
	case n.seq > b.Sequence:
		return unusable(refusedVersion, "sequence %d of work %s is out of range: the greatest plausible one is %d",
			n.seq, id, b.Sequence)
	case n.time.After(b.Time):
		return unusable(refusedVersion, "time %s of work %s is more than %s ahead of the clock",
			n.time.Format(time.RFC3339), id, protocol.MaxAhead)
	}
	return nil
}
