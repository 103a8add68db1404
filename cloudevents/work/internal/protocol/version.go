// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import "time"

// clockShift makes room for about a million steps within a millisecond of the clock.
const clockShift = 20

// Next returns the number after last in a sequence that also grows with the clock: V of a work's next
// version, or the sequence ID of its next status. A process that lost its state so goes on above its old
// numbers, as long as its clock did not step back; where it did, the peers' echoes raise it. A last number beyond
// [Horizon] does not count.
func Next(last int64, now time.Time) int64 {
	return max(plausible(last, Horizon(now))+1, now.UnixMilli()<<clockShift)
}

// MaxAhead is how far ahead of the local clock a number or a time may be.
const MaxAhead = 24 * time.Hour

// Horizon returns the greatest plausible V or sequence ID: that of a clock which is [MaxAhead] ahead.
func Horizon(now time.Time) int64 {
	return max(now.Add(MaxAhead).UnixMilli(), 0) << clockShift
}

// Bounds are the greatest plausible numbers, and the latest plausible time of an event.
type Bounds struct {
	// Version bounds the V that an agent may show, unless its source has used that V or a greater one.
	Version int64
	// Own bounds the V that a source may use. It is above Version where the clock does not move the bounds.
	Own      int64
	Sequence int64
	Time     time.Time
}

// BoundsAt returns the bounds of the numbers that grow with the clock.
func BoundsAt(now time.Time) Bounds {
	horizon := Horizon(now)
	return Bounds{Version: horizon, Own: horizon, Sequence: horizon, Time: now.Add(MaxAhead)}
}

// Heal returns a work's numbers without those that are out of bounds: an earlier release accepted
// them from a peer, or the local clock was ahead when it made them.
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

// Version places an event about a work: its V and its incarnation.
type Version struct {
	V   int64
	UID string
}

// Behind reports whether own is behind what a peer has shown: a greater V, or the same V under another
// incarnation. Who is behind raises its own V above the other's and sends.
func (own Version) Behind(peer Version) bool {
	return peer.V > own.V || peer.V == own.V && peer.UID != own.UID
}
