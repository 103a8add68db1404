// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// BoundsOf returns the greatest plausible numbers of a profile.
func BoundsOf(traits codec.Traits, c clock.PassiveClock) protocol.Bounds {
	if traits.Bundle {
		return protocol.BundleBoundsAt(c.Now(), traits.MaxVersion)
	}
	return protocol.BoundsAt(c.Now())
}

// Numbers are the numbers in an event about a work.
type Numbers struct {
	Version, Seq int64
	// Time is the event time, if the events of a peer without UIDs are ordered by it.
	Time time.Time
}

// Check returns an error for an event with numbers that are out of bounds. highest is the greatest
// plausible version.
func (n Numbers) Check(b protocol.Bounds, highest int64, id string) error {
	switch {
	case n.Version > highest:
		return Unusable(RefusedVersion, "version %d of work %s is out of range: must be at most %d",
			n.Version, id, highest)
	case n.Seq > b.Sequence:
		return Unusable(RefusedVersion, "sequence %d of work %s is out of range: must be at most %d",
			n.Seq, id, b.Sequence)
	case n.Time.After(b.Time):
		return Unusable(RefusedVersion, "time %s of work %s is more than %s ahead of the clock",
			n.Time.Format(time.RFC3339), id, protocol.MaxAhead)
	}
	return nil
}
