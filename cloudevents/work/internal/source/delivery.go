// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"time"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
)

const (
	// resendAfter is how long an agent has to confirm a version before it is sent again.
	resendAfter = 10 * time.Second
	// slowestResend is the longest interval between attempts while an agent confirms nothing.
	slowestResend = 5 * time.Minute
	// lateAfter is how long a version may be unconfirmed before the work shows ConditionDelivered.
	lateAfter = 30 * time.Second
	// Between leastRepair and mostRepair works of a cluster are sent again, or their statuses
	// requested, at a time. mostRepair is a quarter of Mosquitto's queue for a client.
	leastRepair = 4
	mostRepair  = 256
)

// delivery tracks the versions that a cluster's agent has received. It sends nothing: its cluster
// does. The source's mutex guards it.
type delivery struct {
	cluster *sourceCluster
	// The works with unconfirmed versions, in the order in which they were sent.
	first, last *sourceWork
	count       int
	lateAt      time.Time // when the next of them becomes late; zero if no such work remains

	// window bounds the unconfirmed works that were sent again or in an answer. outstanding is
	// their number in this attempt.
	window, outstanding int
	attempt             uint32
	progress            bool // a version was confirmed in this attempt
	interval            time.Duration
	attemptAt           time.Time // of the next attempt, if nothing is confirmed before
}

// delivered is the delivery state of one work.
type delivered struct {
	confirmed  bool // the agent has reported this UID and version
	asked      bool // its status was requested, or will be
	linked     bool
	named      bool // ManifestBundle: sent in hashes that no list has answered
	attempt    uint32
	since      int64 // when the version was made, in ns of Unix time
	sent       int64 // when it was last sent, likewise
	prev, next *sourceWork
}

func (d *delivery) linkLocked(w *sourceWork) {
	w.prev, w.next, w.linked = d.last, nil, true
	if d.last != nil {
		d.last.next = w
	} else {
		d.first = w
	}
	d.last = w
	d.count++
}

func (d *delivery) unlinkLocked(w *sourceWork) {
	if !w.linked {
		return
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		d.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		d.last = w.prev
	}
	w.prev, w.next, w.linked = nil, nil, false
	d.count--
	if w.attempt == d.attempt {
		d.outstanding--
	}
	w.attempt = 0
}

// unconfirmLocked notes that a work has a version that its agent has not confirmed.
func (d *delivery) unconfirmLocked(w *sourceWork) {
	now := d.cluster.now()
	d.unlinkLocked(w)
	w.confirmed, w.since, w.sent = false, now.UnixNano(), now.UnixNano()
	d.linkLocked(w)
	if d.lateAt.IsZero() {
		d.lateAt = now.Add(lateAfter)
	}
	d.cluster.wakeLocked(now.Add(resendAfter))
}

// confirmLocked notes that the agent has the current version of a work.
func (d *delivery) confirmLocked(w *sourceWork) {
	d.unlinkLocked(w)
	w.confirmed, d.progress = true, true
	if d.first == nil {
		d.listedLocked()
	}
}

// sentLocked notes that the event of a work was made.
func (d *delivery) sentLocked(w *sourceWork, now time.Time) {
	if !w.linked {
		return
	}
	attempt := w.attempt
	w.attempt = 0
	d.unlinkLocked(w)
	w.sent, w.attempt = now.UnixNano(), attempt
	d.linkLocked(w)
}

// answeredLocked counts a work that is sent in an answer as outstanding, if its agent confirms the
// events that it receives.
func (d *delivery) answeredLocked(w *sourceWork) {
	if w.linked && d.cluster.dialect == peer.DialectExtended && w.attempt != d.attempt {
		w.attempt = d.attempt
		d.outstanding++
		d.cluster.wakeLocked(d.cluster.now().Add(d.interval))
	}
}

// listedLocked notes that the agent has listed all its works: each event that was sent before is in
// the list or lost.
func (d *delivery) listedLocked() {
	d.restartLocked()
	d.window = mostRepair
}

// restartLocked begins the attempts again.
func (d *delivery) restartLocked() {
	d.attempt++
	d.outstanding, d.interval, d.attemptAt = 0, resendAfter, time.Time{}
}

// opensLocked reports whether another event of an answer may be sent.
func (d *delivery) opensLocked() bool {
	return d.cluster.dialect != peer.DialectExtended || d.outstanding < d.window
}

// attemptLocked begins an attempt to send unconfirmed works again if it is due. It returns the time
// of its next call.
func (d *delivery) attemptLocked(now time.Time) (next time.Time, begun bool) {
	if d.first == nil {
		return time.Time{}, false
	}
	if due := time.Unix(0, d.first.sent).Add(resendAfter); !peer.IsDue(due, now, resendAfter) {
		return due, false
	}
	if !d.attemptAt.IsZero() && !peer.IsDue(d.attemptAt, now, d.interval) {
		return d.attemptAt, false
	}
	lost := d.loseLocked(now)
	switch {
	case !d.progress && !d.attemptAt.IsZero(): // nothing was confirmed: the agent is away
		d.interval = min(2*d.interval, slowestResend)
		d.window = max(d.window/4, leastRepair)
	case lost > 0: // fewer at a time
		d.interval, d.window = resendAfter, max(d.window/2, leastRepair)
	default:
		d.interval, d.window = resendAfter, min(2*d.window, mostRepair)
	}
	d.progress = false
	d.attemptAt = now.Add(d.interval)
	return d.attemptAt, true
}

// loseLocked counts outstanding works as lost if the agent has not confirmed them within
// resendAfter. It returns their number.
func (d *delivery) loseLocked(now time.Time) (lost int) {
	for w := d.first; w != nil && peer.IsDue(time.Unix(0, w.sent).Add(resendAfter), now, resendAfter); w = w.next {
		if w.attempt == d.attempt {
			w.attempt = 0
			lost++
		}
	}
	d.outstanding -= lost
	return lost
}

// repeatLocked returns the unconfirmed works to send again, as many as the window allows. Works
// that were sent longest ago are first.
func (d *delivery) repeatLocked(now time.Time) (again []*sourceWork) {
	for w := d.first; w != nil && d.outstanding < d.window && w.attempt != d.attempt; w = d.first {
		if !peer.IsDue(time.Unix(0, w.sent).Add(resendAfter), now, resendAfter) {
			break
		}
		d.sentLocked(w, now)
		w.attempt = d.attempt
		d.outstanding++
		again = append(again, w)
	}
	return again
}
