// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import "time"

// clockShift makes room for about a million steps within a millisecond of the clock.
const clockShift = 20

// Next returns the number after last in a sequence that also grows with the clock. The number is V
// of a work's next version, or the sequence ID of its next status. A process that lost its state
// continues above its old numbers, unless its clock stepped back. In that case, echoes from the
// peers raise the number. A last number beyond [Horizon] is ignored.
func Next(last int64, now time.Time) int64 {
	return max(plausible(last, Horizon(now))+1, now.UnixMilli()<<clockShift)
}

// MaxAhead is how far ahead of the local clock a number or a time may be.
const MaxAhead = 24 * time.Hour

// Horizon returns the greatest plausible V or sequence ID: the number of a clock that is [MaxAhead]
// ahead.
func Horizon(now time.Time) int64 {
	return max(now.Add(MaxAhead).UnixMilli(), 0) << clockShift
}

// Bounds are the greatest plausible numbers, and the latest plausible time of an event.
type Bounds struct {
	// Version bounds the V that an agent may show, unless its source has used as great a V.
	Version int64
	// Own bounds the V that a source may use. It is above Version if the bounds do not grow with
	// the clock.
	Own      int64
	Sequence int64
	Time     time.Time
}

// BoundsAt returns the bounds of the numbers that grow with the clock.
func BoundsAt(now time.Time) Bounds {
	horizon := Horizon(now)
	return Bounds{Version: horizon, Own: horizon, Sequence: horizon, Time: now.Add(MaxAhead)}
}

// Heal returns a work's numbers, with zero in place of those that are out of bounds. An earlier
// release accepted such numbers from a peer, or the local clock was ahead when it made them.
func (b Bounds) Heal(seq int64, at time.Time) (int64, time.Time) {
	if at.After(b.Time) {
		at = time.Time{}
	}
	return plausible(seq, b.Sequence), at
}

func plausible(n, bound int64) int64 {
	if n > bound {
		return 0
	}
	return n
}

// Version is the version of a work in an event or a record: its V and its incarnation.
type Version struct {
	V   int64
	UID string
}

// Behind reports whether own is behind the version of a peer: the peer has a greater V, or the same
// V under another incarnation. The side that is behind raises its own V above the peer's V, and
// sends the work.
func (own Version) Behind(peer Version) bool {
	return peer.V > own.V || peer.V == own.V && peer.UID != own.UID
}
