// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import "time"

// clockShift makes room for about a million steps within a millisecond of the clock.
const clockShift = 20

// Next returns the number after last in a sequence that also grows with the clock: V of a work's next
// version, or the sequence ID of its next status. A process that lost its state so goes on above its old
// numbers, as long as its clock did not step back; where it did, the peers' echoes raise it.
func Next(last int64, now time.Time) int64 {
	return max(last+1, now.UnixMilli()<<clockShift)
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
