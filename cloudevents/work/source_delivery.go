// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/codec"
)

const (
	// resendAfter is how long an agent has to confirm a version before it is sent again.
	resendAfter = 10 * time.Second
	// slowestResend is the longest time between two attempts at an agent that confirms nothing.
	slowestResend = 5 * time.Minute
	// lateAfter is when a version that is not confirmed shows the condition ConditionDelivered.
	lateAfter = 30 * time.Second
	// listTimeout is how long a list may be without progress before it is asked for again.
	listTimeout = 20 * time.Second

	// refusedInterval is the time between two requests for refused statuses.
	refusedInterval = time.Minute

	// Between leastRepair and mostRepair works of a cluster are sent again, or asked about, at a
	// time: a quarter of what Mosquitto queues for a client, so that a repair is not lost as well.
	leastRepair = 4
	mostRepair  = 256
)

// delivery follows what a cluster's agent has received. The source's mutex guards it.
type delivery struct {
	// The works whose versions are not confirmed, in the order in which they were sent.
	first, last *sourceWork
	count       int
	lateAt      time.Time // when the first of them is late; zero where all that are late show it

	// window is how many works may be sent again, or answered with, and not be confirmed;
	// outstanding is how many are, of those of this attempt.
	window, outstanding int
	attempt             uint32
	progress            bool // something was confirmed in this attempt
	interval            time.Duration
	attemptAt           time.Time // of the next attempt, where nothing is confirmed

	asks       []*sourceWork         // with statuses to request
	awaited    []*sourceWork         // with requested statuses
	asked      int                   // how many of them have not come
	askAt      time.Time             // when the next are asked for, where none comes
	refused    map[*sourceWork]int64 // the sizes of statuses that were refused for lack of memory
	refusedAt  time.Time             // when a status was refused, or requested again, last
	digest     suspicion
	droppedAt  time.Time // when a list of the agent was dropped last
	lastReport time.Time // of the agent
	alarm      time.Time // when the cluster is looked at; zero for never
}

func newDelivery() delivery { return delivery{window: mostRepair, attempt: 1, interval: resendAfter} }

// delivered is a work's part of it.
type delivered struct {
	confirmed  bool // the agent has shown this uid and version
	asked      bool // its status is asked for, or is to be
	linked     bool
	named      bool // in hashes that were sent, and that no list has answered; in a strict profile
	attempt    uint32
	since      int64 // when the version was made, in ns of Unix time
	sent       int64 // when it was sent last, likewise
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

// unconfirmLocked notes that a work has a version that its agent does not know to have.
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

// confirmLocked notes that the agent has the present version of a work.
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

// answeredLocked notes that a work goes out in an answer, to an agent that confirms what it receives.
func (w *sourceWork) answeredLocked() {
	if d := &w.cluster.delivery; w.linked && w.cluster.modern && w.attempt != d.attempt {
		w.attempt = d.attempt
		d.outstanding++
		w.cluster.source.wakeClusterLocked(w.cluster, w.cluster.source.options.Clock.Now().Add(d.interval))
	}
}

// underWay reports whether a work was sent so lately that a list without it does not show a loss.
// sentSince reports whether an answer need not have it any more.
func (w *sourceWork) underWay() bool {
	at := time.Unix(0, w.sent).Add(resendAfter)
	return w.linked && !isDue(at, w.cluster.source.options.Clock.Now(), resendAfter)
}

func (w *sourceWork) sentSince() bool { return !w.linked || w.attempt == w.cluster.delivery.attempt }

// listedLocked notes that the agent has listed all that it has: it is there, and whatever was sent
// before is in the list or lost.
func (d *delivery) listedLocked() {
	d.attempt++
	d.outstanding, d.window, d.interval, d.attemptAt = 0, mostRepair, resendAfter, time.Time{}
}

// opens reports whether another answer may go out.
func (c *sourceCluster) opens() bool { return !c.modern || c.delivery.outstanding < c.delivery.window }

// redeliverLocked sends works again that the agent has not confirmed. It returns when it is to be called again.
func (s *Source) redeliverLocked(c *sourceCluster, now time.Time) time.Time {
	d := &c.delivery
	if d.first == nil {
		return time.Time{}
	}
	if due := time.Unix(0, d.first.sent).Add(resendAfter); !isDue(due, now, resendAfter) {
		return due
	}
	if !d.attemptAt.IsZero() && !isDue(d.attemptAt, now, d.interval) {
		return d.attemptAt
	}
	lost := d.loseLocked(now)
	switch {
	case !d.progress && !d.attemptAt.IsZero(): // nothing was confirmed: the agent is away
		d.interval = min(2*d.interval, slowestResend)
		d.window = max(d.window/4, leastRepair)
	case lost > 0: // less at a time
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

// loseLocked takes those of the outstanding works for lost that the agent had resendAfter to confirm, and counts them.
func (d *delivery) loseLocked(now time.Time) (lost int) {
	for w := d.first; w != nil && isDue(time.Unix(0, w.sent).Add(resendAfter), now, resendAfter); w = w.next {
		if w.attempt == d.attempt {
			w.attempt = 0
			lost++
		}
	}
	d.outstanding -= lost
	return lost
}

// sendAgainLocked sends the works that were sent longest ago, as many as the window lets.
func (s *Source) sendAgainLocked(c *sourceCluster, now time.Time) {
	d := &c.delivery
	var again []*sourceWork
	for w := d.first; w != nil && d.outstanding < d.window && w.attempt != d.attempt; w = d.first {
		if !isDue(time.Unix(0, w.sent).Add(resendAfter), now, resendAfter) {
			break
		}
		w.sentLocked(now)
		w.attempt = d.attempt
		d.outstanding++
		s.sendLocked(w)
		again = append(again, w)
	}
	if s.traits.Strict && len(again) > 0 { // the agent may have nothing new to report, and confirms by no other means
		if h := c.hashes; h == nil || h.begun || h.lost.Load() {
			c.hashes = s.sendHashes(c, again, codec.ScopeAll, "")
		}
	}
}

// showLateLocked shows the versions that have not been confirmed for lateAfter.
func (s *Source) showLateLocked(c *sourceCluster, now time.Time) time.Time {
	d := &c.delivery
	if d.lateAt.IsZero() || !isDue(d.lateAt, now, lateAfter) {
		return d.lateAt
	}
	d.lateAt = time.Time{}
	for w := d.first; w != nil; w = w.next {
		late := time.Unix(0, w.since).Add(lateAfter)
		switch {
		case w.Object == nil || w.problem != nil:
		case !isDue(late, now, lateAfter):
			d.lateAt = earliestOf(d.lateAt, late)
		default:
			w.showLate()
		}
	}
	return d.lateAt
}

// askStatusesLocked asks for the statuses of works that a list has shown to be newer, some at a time.
func (s *Source) askStatusesLocked(c *sourceCluster, now time.Time) time.Time {
	d := &c.delivery
	if d.asked > 0 && isDue(d.askAt, now, resendAfter) {
		d.asked = 0 // they were lost, or had nothing to tell: the next digest finds out
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
	if len(d.refused) == 0 || !c.modern || s.traits.Strict {
		return time.Time{}
	}
	if due := d.refusedAt.Add(refusedInterval); !isDue(due, now, refusedInterval) {
		return due
	}
	d.refusedAt = now
	var size int64
	for w, refused := range d.refused {
		if more := max(refused-w.charged, 0); !w.asked && c.account.room(size+more) {
			size += more
			w.asked = true
			d.asks = append(d.asks, w)
		}
	}
	return now.Add(refusedInterval)
}

// statusCameLocked notes that a status arrived that may have been asked for.
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

// disconnectedLocked forgets what was asked for: the next connection begins with new questions.
func (d *delivery) disconnectedLocked() {
	for _, w := range append(d.asks, d.awaited...) {
		w.asked = false
	}
	d.asks, d.awaited, d.asked, d.digest = nil, nil, 0, suspicion{}
}

// alarms wakes up for clusters at the times that wakeClusterLocked was called for. It is nil while Start does not run.
type alarms = workqueue.TypedDelayingInterface[*sourceCluster]

// wakeClusterLocked has a cluster looked at no later than at a time.
func (s *Source) wakeClusterLocked(c *sourceCluster, at time.Time) {
	if s.alarms == nil || !c.delivery.alarm.IsZero() && !at.Before(c.delivery.alarm) {
		return
	}
	c.delivery.alarm = at
	s.alarms.AddAfter(c, at.Sub(s.options.Clock.Now()))
}

// runAlarms looks at the clusters whose time has come until ctx ends.
func (s *Source) runAlarms(ctx context.Context) {
	// The queue compares times of its clock, so it has one that nobody sets: Options.Clock may be a wall clock.
	queue := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[*sourceCluster]{Clock: clock.RealClock{}})
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

// wakeAllLocked looks at all clusters with works that are not confirmed: a connection begins, or this replica begins to
// write. What a Store restored, or another replica wrote, is not linked yet.
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
		if d.first != nil || !d.lateAt.IsZero() || c.modern {
			s.wakeClusterLocked(c, now.Add(resendAfter))
		}
	}
}

// lookAt does what is due for a cluster.
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
		next = earliestOf(next, s.redeliverLocked(c, now))
		next = earliestOf(next, s.askRefusedLocked(c, now))
		next = earliestOf(next, s.askStatusesLocked(c, now))
		next = earliestOf(next, s.checkListsLocked(c, now))
		next = earliestOf(next, s.askDigestLocked(c, now))
	}
	if !next.IsZero() {
		s.wakeClusterLocked(c, next)
	}
}
