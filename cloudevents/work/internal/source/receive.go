// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// sourceHandler is the handler of the source for its engine.
type sourceHandler Source

var _ engine.Handler = &sourceHandler{}

// Connected begins a resync with all agents. A replica that is not the leader makes the leader
// resync.
func (h *sourceHandler) Connected(context.Context) {
	s := (*Source)(h)
	s.presence.Connected()
	s.cache.Lock()
	defer s.cache.Unlock()
	if s.writingLocked() {
		s.resyncLocked()
	}
	s.tellOfGapLocked()
}

// Disconnected drops incomplete lists and answers: the next connection begins a new resync.
func (h *sourceHandler) Disconnected() {
	s := (*Source)(h)
	s.requests.Drop()
	s.presence.Disconnected()
	s.cache.Lock()
	defer s.cache.Unlock()
	s.round++
	for _, c := range s.clusters {
		c.dropLists()
		c.answers.open, c.answers.queued, c.hashes, c.unknownAsk = nil, nil, nil, nil
		c.forgetSuspects(func(string) bool { return true })
		c.delivery.disconnectedLocked()
		c.answers.recount()
	}
}

// Received queues a list, and handles any other message at once.
func (h *sourceHandler) Received(m cloudevents.Message) {
	s := (*Source)(h)
	if codec.IsResync(m.Event) {
		s.requests.Add(m)
	} else {
		s.take(m)
	}
}

// dropped refuses a request that does not fit the budget. Its agent must then send another list.
func (s *Source) dropped(m cloudevents.Message, err error) {
	s.cache.Lock()
	defer s.cache.Unlock()
	s.refuseLocked(m.Topic, err, peer.RefusalReason(err), 1)
	name, _ := m.Event.Extensions()["clustername"].(string)
	if c := s.clusters[name]; c != nil {
		s.droppedLocked(c)
	}
}

func (s *Source) take(m cloudevents.Message) {
	if s.handOver(m) {
		return
	}
	msg, err := s.options.Profile.Decode(m.Topic, m.Event)
	if err == nil {
		s.metrics.CountEvent(m.Event)
		err = s.receive(msg)
	}
	if err != nil {
		s.refuse(m.Topic, err, peer.RefusalReason(err), 1)
	}
}

// Refused reports a message that is not a CloudEvent.
func (h *sourceHandler) Refused(topic string, err error) {
	reason, n := peer.RefusedMessages(err)
	(*Source)(h).refuse(topic, err, reason, n)
}

// refuse counts and logs messages that cannot be used.
func (s *Source) refuse(topic string, err error, reason string, n int) {
	s.cache.Lock()
	defer s.cache.Unlock()
	s.refuseLocked(topic, err, reason, n)
}

func (s *Source) refuseLocked(topic string, err error, reason string, n int) {
	s.metrics.CountRefused(reason, n)
	s.refusals.Error(s.logger, err, reason, topic)
}

func (s *Source) refuseEntryLocked(err error) {
	s.refuseLocked("", err, peer.RefusalReason(err), 1)
}

func (s *Source) receive(m codec.Message) error {
	s.cache.Lock()
	defer s.cache.Unlock()
	return s.receiveLocked(m)
}

func (s *Source) receiveLocked(m codec.Message) error {
	head := m.Head()
	if head.Source != "" && head.Source != s.options.SourceID {
		return peer.Unusable(peer.RefusedSource, "the event has source %q", head.Source)
	}
	if _, ok := m.(*codec.Presence); !ok && s.outranked {
		return nil // the next connection, or the end of the newer process, begins a resync
	}
	switch m := m.(type) {
	case *codec.Presence:
		return s.presence.ReceiveLocked(m)
	case *codec.Status:
		return s.onStatusLocked(m)
	case *codec.Digest:
		return s.onDigestLocked(m)
	case *codec.SpecResync:
		return s.onListLocked(m)
	}
	return fmt.Errorf("source received unexpected event type %T", m)
}

func (s *Source) onStatusLocked(m *codec.Status) error {
	w := s.works[workID{m.Cluster, m.ResourceID}]
	noUID := m.UID == ""
	if noUID && !s.traits.Bundle {
		m.SequenceID = 0 // it has another scale, and the event time orders these statuses
	}
	n := peer.Numbers{Version: m.Version, Seq: m.SequenceID}
	if noUID {
		n.Time = m.Time
	}
	if err := s.checkLocked(w, m.ResourceID, n); err != nil {
		return err
	}
	c, err := s.clusterOfLocked(m.Cluster)
	if err != nil {
		return err
	}
	if w != nil || !s.traits.Bundle || !m.Gone() {
		s.detectOutdatedLocked(c, w, m.ResourceID, m.Version)
	}
	c.speaks(peer.DialectOf(!noUID))
	act := protocol.OnStatus(w.view(), protocol.StatusEvent{
		Version: protocol.Version{V: m.Version, UID: string(m.UID)},
		Seq:     m.SequenceID,
		Gone:    m.Gone(),
		NoUID:   noUID,
		Time:    m.Time,
		Bundle:  s.traits.Bundle,
		Other:   w.isOther(m),
	}, !m.Gone() && s.deletesLocked(c, w, m.ResourceID))

	s.sawLocked(c, w, m.ResourceID, m.Version, act.Raise)
	s.metrics.CountOutcome(outcome(act))
	if m.ResyncID != "" {
		s.metrics.CountAnswer(peer.Received)
	}
	if act.Confirmed {
		s.confirmLocked(w)
	}
	if w != nil {
		s.statusCameLocked(w)
	}
	if w == nil && m.Gone() {
		c.forgetSuspect(m.ResourceID)
	}
	return s.actLocked(c, w, m, act)
}

// actLocked acts on a status. It returns the error of a refused status or an unknown work.
func (s *Source) actLocked(
	c *sourceCluster, w *sourceWork, m *codec.Status, act protocol.SourceActions,
) (refused error) {
	if act.Accept {
		refused = s.acceptLocked(w, m)
	}
	switch {
	case act.Finish:
		if s.traits.Bundle {
			w.seq = max(w.seq, m.SequenceID) // then a late status does not count for a later work of this name
		}
		s.finishLocked(w)
	case act.DeleteUnknown:
		w, err := s.deleteUnknownLocked(c, m.ResourceID, m.Name)
		if err != nil {
			return err
		}
		s.sendLocked(w)
	case act.Raise && !s.mayRaiseLocked(w):
	case act.Raise:
		s.raiseShownLocked(w)
		s.sendLocked(w)
	case act.Send:
		s.sendLocked(w)
	}
	return refused
}

// acceptLocked shows a reported status. An equal or refused status changes only the record.
func (s *Source) acceptLocked(w *sourceWork, m *codec.Status) error {
	w.seq = max(w.seq, m.SequenceID)
	w.statusTime, w.bundle.reported, w.statusTrace = m.Time, true, peer.ValidTrace(m.TraceParent)
	s.keepLocked(w)
	if m.Status == nil || w.Object == nil {
		return nil
	}
	if err := w.admit(m.Status); err != nil {
		w.refuseStatusLocked(err)
		return err
	}
	w.hash = m.Hash
	status := *m.Status
	switch {
	case w.problem.ofStatus():
		w.setProblem(nil)
	case w.problem != nil:
		var p *problem
		status, p = w.problem.cover(status)
		w.setProblem(p)
	}
	if apiequality.Semantic.DeepEqual(w.Object.Status, status) {
		return nil
	}
	obj := *w.Object
	obj.Status = status
	s.cache.Put(w, &obj)
	return nil
}

// deleteUnknownLocked makes a tombstone for an unknown work of an agent. It returns an error if the
// tombstone does not fit the budget; the next list with the work tries again.
func (s *Source) deleteUnknownLocked(c *sourceCluster, id, name string) (*sourceWork, error) {
	now := s.options.Clock.Now()
	s.expireTombstonesLocked(now)
	if name == id {
		name = "" // the codec's placeholder: the event has no name
	}
	w := &sourceWork{
		source: s, cluster: c, id: id, name: name, uid: types.UID(uuid.NewString()), session: c.session,
		phase: protocol.SourceDeleting, deleted: metav1.NewTime(now).Rfc3339Copy(),
	}
	if !c.account.Charge(w.tombstoneSize()) {
		return nil, peer.Unusable(peer.RefusedBudget,
			"delete the unknown work %s of cluster %q, which must delete %d others: %w",
			id, c.name, len(c.tombstones), c.account.ErrFull())
	}
	w.charged = w.tombstoneSize()
	c.forgetSuspect(id)
	s.numberLocked(w, nil)
	w.createV, w.deleteV = w.version, w.version
	s.works[workID{c.name, id}] = w
	s.addTombstoneLocked(w)
	s.unconfirmLocked(w)
	s.unknownWorks.Error(s.logger, fmt.Errorf(
		"the agent has work %q, but this source does not: it was not created again after a restart, or another source has "+
			"the same ID", cmp.Or(name, id)), "unknown", c.name)
	return w, nil
}

// addTombstoneLocked adds a record to the tombstones, as the newest.
func (s *Source) addTombstoneLocked(w *sourceWork) {
	w.cluster.tombstones[w.id] = w
	if w.place == nil {
		w.place = s.tombstones.PushBack(w)
	}
}

// removeTombstoneLocked undoes addTombstoneLocked.
func (s *Source) removeTombstoneLocked(w *sourceWork) {
	if w.cluster.tombstones[w.id] == w {
		delete(w.cluster.tombstones, w.id)
	}
	if w.place != nil {
		s.tombstones.Remove(w.place)
		w.place = nil
	}
}

func (s *Source) expireTombstonesLocked(now time.Time) {
	for oldest := s.tombstones.Front(); oldest != nil; oldest = s.tombstones.Front() {
		w := oldest.Value.(*sourceWork)
		if now.Sub(w.deleted.Time) < s.options.TombstoneTTL {
			return
		}
		s.drop(w)
	}
}
