// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// sourceCluster is a source's record of one cluster and its agent. The exchange with the agent has
// parts with state of their own, which the cluster and its works use. A part uses the parts after it
// in the list of fields, never those before it.
type sourceCluster struct {
	*link
	records *records
	name    string
	// highest is the highest V that the source has assigned or the cluster has reported.
	highest int64
	// session identifies the agent process that sent the last message.
	session    string
	dialect    peer.Dialect // of its agent
	lastReport time.Time    // time of the agent's last message
	// outdated is whether the agent has reported a version of gap, which proves that the Store is
	// an older copy. gap is nil after the agent has listed all its works.
	outdated   bool
	gap        *protocol.Gap
	tombstones map[string]*sourceWork // by resource ID
	reported   reports                // of works without a record, in the profile ManifestBundle
	account    peer.Account           // charged for the events of its agent
	compares   *rate.Limiter          // limits comparisons of all works; see mayCompare
	droppedAt  time.Time              // when a list was dropped that must be requested again, or zero
	alarm      time.Time              // when lookAt is called next; zero for never

	digests  digests
	lists    lists
	suspects suspects
	answers  answers
	statuses statusRequests
	delivery delivery
}

// A comparison with a digest or a whole list reads all works of the cluster. Agents send digests
// and whole lists less often than this limit.
const (
	comparesEachSecond = 1
	comparesAtOnce     = 4
)

func newCluster(r *records, name string) *sourceCluster {
	c := &sourceCluster{
		link: r.link, records: r, name: name, tombstones: map[string]*sourceWork{},
		compares: rate.NewLimiter(comparesEachSecond, comparesAtOnce),
	}
	c.account.Budget, c.reported.cluster = r.budget, c
	c.digests.cluster, c.lists.cluster, c.suspects.cluster, c.answers.cluster, c.statuses.cluster = c, c, c, c, c
	c.delivery = delivery{cluster: c, window: mostRepair, attempt: 1, interval: resendAfter}
	c.lists.open = map[string]*agentList{}
	return c
}

func (c *sourceCluster) keepLocked() { c.records.markLocked(c, journal.PrefixCluster, c.name) }

// worksLocked returns the records of a cluster, tombstones included.
func (c *sourceCluster) worksLocked() []*sourceWork {
	var works []*sourceWork
	c.records.cache.All(c.name, func(w *sourceWork) { works = append(works, w) })
	for _, w := range c.tombstones {
		works = append(works, w)
	}
	return works
}

// currentLocked returns the records of a cluster, except those of ended deletions.
func (c *sourceCluster) currentLocked() []*sourceWork {
	return slices.DeleteFunc(c.worksLocked(), func(w *sourceWork) bool { return w.phase == protocol.SourceGone })
}

// wakeLocked schedules lookAt for a cluster, at the given time or earlier.
func (c *sourceCluster) wakeLocked(at time.Time) {
	if c.records.alarms == nil || !c.alarm.IsZero() && !at.Before(c.alarm) {
		return
	}
	c.alarm = at
	c.records.alarms.AddAfter(c, at.Sub(c.now()))
}

// lookAt performs the due actions for a cluster and schedules the next call.
func (c *sourceCluster) lookAt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarm = time.Time{}
	if c.records.clusters[c.name] != c || !c.records.writingLocked() {
		return
	}
	now := c.now()
	next := c.showLateLocked(now)
	if c.engine.Connected() {
		next = peer.Earliest(next, c.redeliverLocked(now))
		next = peer.Earliest(next, c.statuses.askRefusedLocked(now))
		next = peer.Earliest(next, c.statuses.askLocked(now))
		next = peer.Earliest(next, c.lists.checkLocked(now))
		next = peer.Earliest(next, c.digests.askLocked(now))
	}
	if !next.IsZero() {
		c.wakeLocked(next)
	}
}

// nextLocked returns the V for a new version in the cluster.
func (c *sourceCluster) nextLocked(now time.Time) int64 {
	c.highest = protocol.Next(c.highest, now)
	if c.gap != nil && c.gap.Before == 0 && !c.traits.Bundle {
		c.gap.Before = c.highest
	}
	c.keepLocked()
	return c.highest
}

// speaksLocked records the dialect of the cluster's agent.
func (c *sourceCluster) speaksLocked(d peer.Dialect) {
	if c.dialect != d {
		c.dialect = d
		c.keepLocked()
	}
}

// mayCompare reports whether all works of the cluster may be compared now. It uses a monotonic
// clock; see [exchange.run].
func (c *sourceCluster) mayCompare() bool { return c.compares.Allow() }

// redeliverLocked sends unconfirmed works again. It returns the time of its next call.
func (c *sourceCluster) redeliverLocked(now time.Time) time.Time {
	next, begun := c.delivery.attemptLocked(now)
	if begun {
		c.sendAgainLocked(now)
		c.answers.advanceLocked()
	}
	return next
}

func (c *sourceCluster) sendAgainLocked(now time.Time) {
	again := c.delivery.repeatLocked(now)
	for _, w := range again {
		w.sendLocked()
	}
	if c.traits.Bundle && len(again) > 0 && !c.statuses.queuedLocked() {
		// The agent confirms only with statuses, and may have no new status.
		c.statuses.hashes = c.statuses.sendHashesLocked(again, codec.ScopeAll, "")
	}
}

// showLateLocked adds ConditionDelivered to works that have been unconfirmed for lateAfter. It
// returns the time of its next call.
func (c *sourceCluster) showLateLocked(now time.Time) time.Time {
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
			w.showLateLocked()
		}
	}
	return d.lateAt
}

func (c *sourceCluster) keepPastLocked(id string) {
	if r := c.records; r.journal != nil && r.leads {
		r.journal.MarkLocked(journal.PastKey(c.name, id), pastWork{c, id})
	}
}

// droppedLocked notes that a list of the cluster, or an answer to it, was dropped. The list is
// requested again after listTimeout.
func (c *sourceCluster) droppedLocked() {
	c.droppedAt = c.now()
	c.wakeLocked(c.droppedAt.Add(listTimeout))
}

// resetLocked ends all that is in progress with the agent: its next connection begins a new resync.
func (c *sourceCluster) resetLocked() {
	c.lists.dropAllLocked()
	c.answers.dropAllLocked()
	c.suspects.forgetIfLocked(func(string) bool { return true })
	c.statuses.resetLocked()
	c.digests = digests{cluster: c}
}

// sizeLocked returns the number of works, tombstones included.
func (c *sourceCluster) sizeLocked() int { return c.records.cache.Count(c.name) + len(c.tombstones) }

// askSuspectsLocked requests the suspects of the check that has ended. A list does not have the
// works that an agent has deleted, so a known work is sent again: the agent answers with its
// version.
func (c *sourceCluster) askSuspectsLocked() {
	ids := c.suspects.checkedLocked()
	for _, id := range ids {
		if w := c.records.works[workID{c.name, id}]; w != nil {
			w.sendLocked()
		}
	}
	switch {
	case len(ids) == 0:
	case c.dialect == peer.DialectExtended:
		c.request(codec.ScopeLists, partOf(ids, protocol.Buckets(c.sizeLocked()+len(ids))), uuid.NewString())
	default:
		c.statuses.askUnknownLocked(ids)
	}
}

// request queues a request to the agent before all other events.
func (c *sourceCluster) request(scope codec.Scope, part codec.Part, resyncID string) {
	r := &codec.StatusResync{Header: c.header(c.name, resyncID), Scope: scope, Part: part}
	c.engine.Enqueue(engine.LaneControl, &peer.Item{Profile: c.options.Profile, Content: r})
}
