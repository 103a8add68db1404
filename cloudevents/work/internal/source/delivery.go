// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/codec"
)

const (
	// resendAfter is how long an agent has to confirm a version before it is sent again.
	resendAfter = 10 * time.Second
	// slowestResend is the longest interval between attempts while an agent confirms nothing.
	slowestResend = 5 * time.Minute
	// lateAfter is how long a version may be unconfirmed before the work shows ConditionDelivered.
	lateAfter = 30 * time.Second
	// listTimeout is how long a list may make no progress before it is requested again.
	listTimeout = 20 * time.Second

	// refusedInterval is the time between two requests for refused statuses.
	refusedInterval = time.Minute

	// Between leastRepair and mostRepair works of a cluster are sent again, or their statuses
	// requested, at a time. mostRepair is a quarter of Mosquitto's queue for a client.
	leastRepair = 4
	mostRepair  = 256
)

// delivery tracks the versions that a cluster's agent has received. The source's mutex guards it.
type delivery struct {
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

	asks       []*sourceWork         // with statuses to request
	awaited    []*sourceWork         // with requested statuses
	asked      int                   // number of requested statuses that have not arrived
	askAt      time.Time             // when the next statuses are requested if none arrives
	refused    map[*sourceWork]int64 // the sizes of statuses that were refused for lack of memory
	refusedAt  time.Time             // when a status was refused, or requested again, last
	digest     suspicion
	droppedAt  time.Time // when a list of the agent was dropped last
	lastReport time.Time // time of the agent's last message
	alarm      time.Time // when lookAt is called next; zero for never
}

func newDelivery() delivery { return delivery{window: mostRepair, attempt: 1, interval: resendAfter} }

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

func (d *delivery) link(w *sourceWork) {
	w.prev, w.next, w.linked = d.last, nil, true
	if d.last != nil {
		d.last.next = w
	} else {
		d.first = w
	}
	d.last = w
	d.count++
}

func (d *delivery) unlink(w *sourceWork) {
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
func (s *Source) unconfirmLocked(w *sourceWork) {
	d, now := &w.cluster.delivery, s.options.Clock.Now()
	d.unlink(w)
	w.confirmed, w.since, w.sent = false, now.UnixNano(), now.UnixNano()
	d.link(w)
	if late := now.Add(lateAfter); d.lateAt.IsZero() {
		d.lateAt = late
	}
	s.wakeClusterLocked(w.cluster, now.Add(resendAfter))
}

// confirmLocked notes that the agent has the current version of a work.
func (s *Source) confirmLocked(w *sourceWork) {
	if w.confirmed {
		return
	}
	c := w.cluster
	d := &c.delivery
	d.unlink(w)
	w.confirmed, d.progress = true, true
	if d.first == nil {
		d.listedLocked()
	}
	if w.Object != nil && w.problem.late() {
		w.hideProblem()
	}
	s.keepLocked(w)
	if d.outstanding < d.window {
		c.answers.advance()
		if !d.attemptAt.IsZero() {
			s.sendAgainLocked(c, s.options.Clock.Now())
		}
	}
}

// sentLocked notes that the event of a work was made.
func (w *sourceWork) sentLocked(now time.Time) {
	if !w.linked {
		return
	}
	d, attempt := &w.cluster.delivery, w.attempt
	w.attempt = 0
	d.unlink(w)
	w.sent, w.attempt = now.UnixNano(), attempt
	d.link(w)
}

// answeredLocked counts a work that is sent in an answer as outstanding, if its agent confirms the
// events that it receives.
func (w *sourceWork) answeredLocked() {
	if d := &w.cluster.delivery; w.linked && w.cluster.dialect == peer.DialectExtended && w.attempt != d.attempt {
		w.attempt = d.attempt
		d.outstanding++
		w.cluster.source.wakeClusterLocked(w.cluster, w.cluster.source.options.Clock.Now().Add(d.interval))
	}
}

// underWay reports whether a work was sent so recently that its absence from a list does not prove
// a loss. sentSince reports whether an answer no longer needs the work.
func (w *sourceWork) underWay() bool {
	at := time.Unix(0, w.sent).Add(resendAfter)
	return w.linked && !peer.IsDue(at, w.cluster.source.options.Clock.Now(), resendAfter)
}

func (w *sourceWork) sentSince() bool { return !w.linked || w.attempt == w.cluster.delivery.attempt }

// listedLocked notes that the agent has listed all its works: each event that was sent before is in
// the list or lost.
func (d *delivery) listedLocked() {
	d.attempt++
	d.outstanding, d.window, d.interval, d.attemptAt = 0, mostRepair, resendAfter, time.Time{}
}

// opens reports whether another event of an answer may be sent.
func (c *sourceCluster) opens() bool {
	return c.dialect != peer.DialectExtended || c.delivery.outstanding < c.delivery.window
}

// redeliverLocked sends unconfirmed works again. It returns the time of its next call.
func (s *Source) redeliverLocked(c *sourceCluster, now time.Time) time.Time {
	d := &c.delivery
	if d.first == nil {
		return time.Time{}
	}
	if due := time.Unix(0, d.first.sent).Add(resendAfter); !peer.IsDue(due, now, resendAfter) {
		return due
	}
	if !d.attemptAt.IsZero() && !peer.IsDue(d.attemptAt, now, d.interval) {
		return d.attemptAt
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
	s.sendAgainLocked(c, now)
	c.answers.advance()
	return d.attemptAt
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

// sendAgainLocked sends unconfirmed works again, as many as the window allows. Works that were sent
// longest ago are first.
func (s *Source) sendAgainLocked(c *sourceCluster, now time.Time) {
	d := &c.delivery
	var again []*sourceWork
	for w := d.first; w != nil && d.outstanding < d.window && w.attempt != d.attempt; w = d.first {
		if !peer.IsDue(time.Unix(0, w.sent).Add(resendAfter), now, resendAfter) {
			break
		}
		w.sentLocked(now)
		w.attempt = d.attempt
		d.outstanding++
		s.sendLocked(w)
		again = append(again, w)
	}
	if s.traits.Bundle && len(again) > 0 { // the agent confirms only with statuses, and may have no new one
		if h := c.hashes; h == nil || h.begun || h.lost.Load() {
			c.hashes = s.sendHashes(c, again, codec.ScopeAll, "")
		}
	}
}

// showLateLocked adds ConditionDelivered to works that have been unconfirmed for lateAfter. It
// returns the time of its next call.
func (s *Source) showLateLocked(c *sourceCluster, now time.Time) time.Time {
	d := &c.delivery
	if d.lateAt.IsZero() || !peer.IsDue(d.lateAt, now, lateAfter) {
		return d.lateAt
	}
	d.lateAt = time.Time{}
	for w := d.first; w != nil; w = w.next {
		late := time.Unix(0, w.since).Add(lateAfter)
		switch {
		case w.Object == nil || w.problem != nil:
		case !peer.IsDue(late, now, lateAfter):
			d.lateAt = peer.Earliest(d.lateAt, late)
		default:
			w.showLate()
		}
	}
	return d.lateAt
}

// askStatusesLocked requests the statuses of the works in asks, a limited number at a time. It
// returns the time of its next call.
func (s *Source) askStatusesLocked(c *sourceCluster, now time.Time) time.Time {
	d := &c.delivery
	if d.asked > 0 && peer.IsDue(d.askAt, now, resendAfter) {
		d.asked = 0 // they were lost, or there is no new status: the next digest shows which
		for _, w := range d.awaited {
			w.asked = false
		}
		d.awaited = nil
	}
	switch {
	case len(d.asks) == 0 && d.asked == 0:
		return time.Time{}
	case len(d.asks) == 0 || d.asked > mostRepair/2:
		return d.askAt
	}
	n := min(len(d.asks), mostRepair-d.asked)
	works := slices.DeleteFunc(d.asks[:n:n], func(w *sourceWork) bool {
		return s.works[workID{c.name, w.id}] != w
	})
	if d.asks = d.asks[n:]; len(d.asks) == 0 {
		d.asks = nil
	}
	d.asked += len(works)
	if d.asked == len(works) {
		d.awaited = nil
	}
	d.awaited = append(d.awaited, works...)
	if len(works) > 0 {
		s.sendHashes(c, works, codec.ScopeListed, uuid.NewString())
	}
	d.askAt = now.Add(resendAfter)
	s.wakeClusterLocked(c, d.askAt)
	return d.askAt
}

// refusedLocked records that a status was refused for lack of memory.
func (s *Source) refusedLocked(w *sourceWork, size int64) {
	d := &w.cluster.delivery
	if d.refused == nil {
		d.refused = map[*sourceWork]int64{}
	}
	d.refused[w], d.refusedAt = size, s.options.Clock.Now()
	s.wakeClusterLocked(w.cluster, d.refusedAt.Add(refusedInterval))
}

// askRefusedLocked requests refused statuses again, as many as fit into memory now. It returns the
// time of its next call.
// Agents without digests get the hashes of all statuses instead; see [SourceOptions.ResyncInterval].
func (s *Source) askRefusedLocked(c *sourceCluster, now time.Time) time.Time {
	d := &c.delivery
	if len(d.refused) == 0 || c.dialect != peer.DialectExtended || s.traits.Bundle {
		return time.Time{}
	}
	if due := d.refusedAt.Add(refusedInterval); !peer.IsDue(due, now, refusedInterval) {
		return due
	}
	d.refusedAt = now
	var size int64
	for w, refused := range d.refused {
		if more := max(refused-w.charged, 0); !w.asked && c.account.HasRoom(size+more) {
			size += more
			w.asked = true
			d.asks = append(d.asks, w)
		}
	}
	return now.Add(refusedInterval)
}

// statusCameLocked notes the arrival of a status that may have been requested.
func (s *Source) statusCameLocked(w *sourceWork) {
	if !w.asked {
		return
	}
	w.asked = false
	d := &w.cluster.delivery
	d.asked = max(d.asked-1, 0)
	now := s.options.Clock.Now()
	d.askAt = now.Add(resendAfter)
	if len(d.asks) > 0 {
		s.askStatusesLocked(w.cluster, now)
	}
}

// disconnectedLocked forgets all requests: the next connection begins with new ones.
func (d *delivery) disconnectedLocked() {
	for _, w := range append(d.asks, d.awaited...) {
		w.asked = false
	}
	d.asks, d.awaited, d.asked, d.digest = nil, nil, 0, suspicion{}
}

// alarms queues clusters until the times that were passed to wakeClusterLocked. It is nil while
// Start does not run.
type alarms = workqueue.TypedDelayingInterface[*sourceCluster]

// wakeClusterLocked schedules lookAt for a cluster, at the given time or earlier.
func (s *Source) wakeClusterLocked(c *sourceCluster, at time.Time) {
	if s.alarms == nil || !c.delivery.alarm.IsZero() && !at.Before(c.delivery.alarm) {
		return
	}
	c.delivery.alarm = at
	s.alarms.AddAfter(c, at.Sub(s.options.Clock.Now()))
}

// runAlarms calls lookAt for due clusters until ctx ends.
func (s *Source) runAlarms(ctx context.Context) {
	// The queue compares times of its clock, so it needs a monotonic clock: Options.Clock may be a
	// wall clock.
	queue := workqueue.NewTypedDelayingQueueWithConfig(
		workqueue.TypedDelayingQueueConfig[*sourceCluster]{Clock: clock.RealClock{}})
	s.cache.Lock()
	s.alarms = queue
	s.wakeAllLocked()
	s.cache.Unlock()
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	for {
		c, over := queue.Get()
		if over {
			break
		}
		s.lookAt(c)
		queue.Done(c)
	}
	s.cache.Lock()
	defer s.cache.Unlock()
	s.alarms = nil
}

// wakeAllLocked schedules lookAt for all clusters that need it, and links unconfirmed works that a
// Store restored or another replica wrote.
func (s *Source) wakeAllLocked() {
	for _, w := range s.works {
		if !w.confirmed && !w.linked {
			s.unconfirmLocked(w)
		}
	}
	now := s.options.Clock.Now()
	for _, c := range s.clusters {
		d := &c.delivery
		d.alarm, d.attemptAt, d.outstanding, d.interval = time.Time{}, time.Time{}, 0, resendAfter
		d.attempt++
		d.digest.last = now
		if d.first != nil || !d.lateAt.IsZero() || c.dialect == peer.DialectExtended {
			s.wakeClusterLocked(c, now.Add(resendAfter))
		}
	}
}

// lookAt performs the due actions for a cluster and schedules the next call.
func (s *Source) lookAt(c *sourceCluster) {
	s.cache.Lock()
	defer s.cache.Unlock()
	now := s.options.Clock.Now()
	if s.clusters[c.name] != c || !s.writingLocked() {
		c.delivery.alarm = time.Time{}
		return
	}
	c.delivery.alarm = time.Time{}
	next := s.showLateLocked(c, now)
	if s.engine.Connected() {
		next = peer.Earliest(next, s.redeliverLocked(c, now))
		next = peer.Earliest(next, s.askRefusedLocked(c, now))
		next = peer.Earliest(next, s.askStatusesLocked(c, now))
		next = peer.Earliest(next, s.checkListsLocked(c, now))
		next = peer.Earliest(next, s.askDigestLocked(c, now))
	}
	if !next.IsZero() {
		s.wakeClusterLocked(c, next)
	}
}
