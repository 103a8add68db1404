// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// exchange is the exchange with the agents of all clusters: it begins resyncs, wakes clusters, and
// passes the events of agents on to the parts of their clusters.
type exchange struct {
	*records
	asks atomic.Int64 // counts the requests to all agents
}

// beginLocked begins a resync with all agents. A source that may lack works requests everything.
// Otherwise it sends each cluster the hashes of its statuses, and requests lists from all agents:
// other clusters may have works that the source has forgotten.
func (x *exchange) beginLocked() {
	x.asks.Add(1)
	x.expireTombstonesLocked()
	x.metrics.ResyncBeganLocked()
	if x.traits.Bundle {
		x.bundleLocked()
		return
	}
	scope := codec.ScopeLists
	if !x.complete || len(x.works) == 0 {
		scope = codec.ScopeAll
	}
	id := uuid.NewString()
	x.engine.Enqueue(engine.LaneControl, x.requirement(scope, id))
	for _, c := range x.clusters {
		works := c.currentLocked()
		if scope == codec.ScopeLists {
			c.statuses.sendHashesLocked(works, codec.ScopeAll, id)
		}
		if c.dialect != peer.DialectExtended { // otherwise the agent's list shows which works it lacks
			sendUnconfirmedLocked(works)
		}
	}
	x.wakeAllLocked()
}

// comparePeers compares all works with agents that send no digests, or with all agents if
// ResyncInterval is positive.
func (x *exchange) comparePeers() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.expireTombstonesLocked()
	switch {
	case !x.writingLocked():
	case x.traits.Bundle, x.options.ResyncAll:
		x.beginLocked()
	default:
		for _, c := range x.clusters {
			if c.dialect == peer.DialectEnhancement {
				c.statuses.sendHashesLocked(c.currentLocked(), codec.ScopeAll, "")
			}
		}
	}
}

func sendUnconfirmedLocked(works []*sourceWork) {
	for _, w := range works {
		if !w.confirmed {
			w.sendLocked()
		}
	}
}

// bundleLocked requests the statuses of all works from all agents, unless it has done so
// before. It sends each cluster the hashes of its statuses and the unconfirmed works.
func (x *exchange) bundleLocked() {
	if !x.asked || len(x.works) == 0 {
		x.askAll()
	}
	for _, c := range x.clusters {
		works := c.currentLocked()
		c.statuses.sendHashesLocked(works, codec.ScopeAll, "")
		sendUnconfirmedLocked(works)
	}
}

// askAll requests the statuses of all works from all agents.
func (x *exchange) askAll() {
	x.engine.Enqueue(engine.LaneControl, &askedAll{x.requirement(codec.ScopeAll, ""), x.records})
}

// requirement returns a status resync for all agents.
func (x *exchange) requirement(scope codec.Scope, resyncID string) *peer.Requirement {
	r := &codec.StatusResync{Header: x.header("", resyncID), Scope: scope, Broadcast: true}
	return peer.NewRequirement(peer.Item{Profile: x.options.Profile, Content: r}, &x.asks)
}

// askLists requests lists from all agents.
func (x *exchange) askLists() {
	if x.traits.Bundle { // statuses show the agents' works as well
		x.askAll()
		return
	}
	x.engine.Enqueue(engine.LaneControl, x.requirement(codec.ScopeLists, uuid.NewString()))
}

// giveUpLocked drops the answers and lists that are in progress.
func (x *exchange) giveUpLocked() {
	x.round++
	for _, c := range x.clusters {
		c.lists.dropAllLocked()
	}
}

// run calls lookAt for due clusters until ctx ends.
func (x *exchange) run(ctx context.Context) {
	// The queue compares times of its clock, so it needs a monotonic clock: Options.Clock may be a
	// wall clock.
	queue := workqueue.NewTypedDelayingQueueWithConfig(
		workqueue.TypedDelayingQueueConfig[*sourceCluster]{Clock: clock.RealClock{}})
	x.mu.Lock()
	x.alarms = queue
	x.wakeAllLocked()
	x.mu.Unlock()
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	for {
		c, over := queue.Get()
		if over {
			break
		}
		c.lookAt()
		queue.Done(c)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.alarms = nil
}

// wakeAllLocked schedules lookAt for all clusters that need it, and links unconfirmed works that a
// Store restored or another replica wrote.
func (x *exchange) wakeAllLocked() {
	for _, w := range x.works {
		if !w.confirmed && !w.linked {
			w.cluster.delivery.unconfirmLocked(w)
		}
	}
	now := x.now()
	for _, c := range x.clusters {
		d := &c.delivery
		d.restartLocked()
		c.alarm, c.digests.last = time.Time{}, now
		if d.first != nil || !d.lateAt.IsZero() || c.dialect == peer.DialectExtended {
			c.wakeLocked(now.Add(resendAfter))
		}
	}
}

// receiveLocked handles an event of an agent, or of another process with the ID of this source.
func (x *exchange) receiveLocked(m codec.Message) error {
	head := m.Head()
	if head.Source != "" && head.Source != x.options.SourceID {
		return peer.Unusable(peer.RefusedSource, "the event has source %q", head.Source)
	}
	if _, ok := m.(*codec.Presence); !ok && x.outranked {
		return nil // the next connection, or the end of the newer process, begins a resync
	}
	switch m := m.(type) {
	case *codec.Presence:
		return x.presence.ReceiveLocked(m)
	case *codec.Status:
		return x.onStatusLocked(m)
	case *codec.Digest:
		c, err := x.clusterOfLocked(m.Cluster)
		if err == nil {
			c.digests.receiveLocked(m)
		}
		return err
	case *codec.SpecResync:
		if m.TargetSource != "" && m.TargetSource != x.options.SourceID {
			return nil
		}
		c, err := x.clusterOfLocked(m.Cluster)
		if err != nil {
			return err
		}
		return c.lists.receiveLocked(m)
	}
	return fmt.Errorf("source received unexpected event type %T", m)
}

func (x *exchange) onStatusLocked(m *codec.Status) error {
	w := x.works[workID{m.Cluster, m.ResourceID}]
	noUID := m.UID == ""
	if noUID && !x.traits.Bundle {
		m.SequenceID = 0 // it has another scale, and the event time orders these statuses
	}
	n := peer.Numbers{Version: m.Version, Seq: m.SequenceID}
	if noUID {
		n.Time = m.Time
	}
	if err := x.checkLocked(w, m.ResourceID, n); err != nil {
		return err
	}
	c, err := x.clusterOfLocked(m.Cluster)
	if err != nil {
		return err
	}
	if w != nil || !x.traits.Bundle || !m.Gone() {
		c.detectOutdatedLocked(w, m.ResourceID, m.Version)
	}
	c.speaksLocked(peer.DialectOf(!noUID))
	act := protocol.OnStatus(w.view(), protocol.StatusEvent{
		Version: protocol.Version{V: m.Version, UID: string(m.UID)},
		Seq:     m.SequenceID,
		Gone:    m.Gone(),
		NoUID:   noUID,
		Time:    m.Time,
		Bundle:  x.traits.Bundle,
		Other:   w.isOtherLocked(m),
	}, !m.Gone() && c.deletesLocked(w, m.ResourceID))

	c.sawLocked(w, m.ResourceID, m.Version, act.Raise)
	x.metrics.CountOutcome(outcome(act))
	if m.ResyncID != "" {
		x.metrics.CountAnswer(peer.Received)
	}
	if act.Confirmed {
		w.confirmLocked()
	}
	if w != nil {
		c.statuses.cameLocked(w)
	} else if m.Gone() {
		c.suspects.forgetLocked(m.ResourceID)
	}
	return c.actLocked(w, m, act)
}

// actLocked acts on a status. It returns the error of a refused status or an unknown work.
func (c *sourceCluster) actLocked(w *sourceWork, m *codec.Status, act protocol.SourceActions) (refused error) {
	if act.Accept {
		refused = w.acceptLocked(m)
	}
	switch {
	case act.Finish:
		if c.traits.Bundle {
			w.seq = max(w.seq, m.SequenceID) // then a late status does not count for a later work of this name
		}
		if w.phase == protocol.SourceDeleting && m.Gone() {
			w.traceStatusLocked(m, nil)
		}
		w.finishLocked()
	case act.DeleteUnknown:
		w, err := c.deleteUnknownLocked(m.ResourceID, m.Name)
		if err != nil {
			return err
		}
		w.sendLocked()
	case act.Raise && !w.mayRaiseLocked():
	case act.Raise:
		w.raiseShownLocked()
		w.sendLocked()
	case act.Send:
		w.sendLocked()
	}
	return refused
}
