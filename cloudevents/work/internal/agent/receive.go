// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// intake handles the events of sources. It implements [engine.Handler].
type intake struct {
	*shared
	records  *records
	answers  *answers
	requests *requests
	resync   *resync
	presence *peer.Presence
	queue    *peer.RequestQueue // calls take
}

var _ engine.Handler = &intake{}

// Connected sends the sources the list of the agent's works, which requests the missing works.
func (in *intake) Connected(context.Context) {
	in.presence.Connected()
	in.resync.all()
}

// Disconnected drops the queued requests of peers: the next connection begins a new exchange.
func (in *intake) Disconnected() {
	in.queue.Drop()
	in.presence.Disconnected()
}

// Received handles a spec, and queues a list of hashes.
func (in *intake) Received(m cloudevents.Message) {
	if codec.IsResync(m.Event) {
		in.queue.Add(m)
	} else {
		in.take(m)
	}
}

// Refused counts and logs messages that are not CloudEvents.
func (in *intake) Refused(topic string, err error) {
	reason, n := peer.RefusedMessages(err)
	in.cache.Lock()
	defer in.cache.Unlock()
	in.refuseLocked(topic, err, reason, n)
}

func (in *intake) take(m cloudevents.Message) {
	msg, err := in.options.Profile.Decode(m.Topic, m.Event)
	if spec, ok := msg.(*codec.Spec); ok && err != nil {
		// The spec is handled without its content, so the rejection is reported to the source.
		var bad *codec.Error
		if errors.As(err, &bad) && bad.Code == codec.CodeData {
			spec.Work = nil
			if spec.DeletionTimestamp != nil {
				spec.Work = &workv1.ManifestWork{} // the deletion applies, whatever the metadata is
			}
			in.refuse(m.Topic, err)
			err = nil
		}
	}
	if err == nil {
		in.metrics.CountEvent(m.Event)
		err = in.receive(msg)
	}
	if err != nil {
		in.refuse(m.Topic, err)
	}
}

func (in *intake) receive(m codec.Message) error {
	in.cache.Lock()
	defer in.cache.Unlock()
	if p, ok := m.(*codec.Presence); ok {
		return in.presence.ReceiveLocked(p)
	}
	head := m.Head()
	_, request := m.(*codec.StatusResync)
	switch {
	case !in.serves(head.Source) && !in.endsLocked(m):
		return nil // sources that other agents serve may use the same broker
	case head.Cluster == "" || head.Cluster == in.options.ClusterName:
	case request:
		return nil // for another cluster, on the topic that all agents read
	default:
		return peer.Unusable(peer.RefusedCluster, "the event is for cluster %q", head.Cluster)
	}
	switch m := m.(type) {
	case *codec.Spec:
		return in.onSpecLocked(m)
	case *codec.StatusResync:
		return in.resync.onHashesLocked(m)
	}
	return fmt.Errorf("agent received unexpected event type %T", m)
}

// onSpecLocked acts on a spec as protocol.OnSpec decides.
func (in *intake) onSpecLocked(m *codec.Spec) error {
	noUID := m.UID == ""
	n := peer.Numbers{Version: m.Version, Seq: m.StatusSeq}
	if noUID {
		n.Time = m.Time
	}
	var known *agentWork
	if s := in.records.sources[m.Source]; s != nil {
		known = s.works[m.ResourceID]
	}
	b := in.bounds()
	if known != nil {
		known.healLocked(b)
	}
	if err := n.Check(b, b.Own, m.ResourceID); err != nil {
		return err
	}
	s, err := in.records.sourceOfLocked(m.Source)
	if err != nil {
		return err
	}
	before := stateOf(known)
	act := protocol.OnSpec(before, protocol.SpecEvent{
		Version:     protocol.Version{V: m.Version, UID: string(m.UID)},
		Delete:      m.DeletionTimestamp != nil,
		SessionMine: m.AgentSession == in.session,
		StatusSeq:   m.StatusSeq,
		NoUID:       noUID,
		Time:        m.Time,
		Bundle:      in.traits.Bundle,
		Bare:        in.traits.Bundle && m.Work != nil && m.Work.Name == "",
	})
	if known != nil {
		known.statusAcceptedLocked(m.StatusSeq)
	}
	in.metrics.CountOutcome(specOutcome(act))
	if m.ResyncID != "" {
		in.metrics.CountAnswer(peer.Received)
	}
	s.dialect = peer.DialectOf(!noUID)
	if err := in.actLocked(act, s, known, m); err != nil {
		return err
	}
	w := s.works[m.ResourceID]
	if w != nil {
		w.accountLocked()
	}
	if w != nil && !noUID && w.State != protocol.Tombstone && act != protocol.Answer {
		in.requests.receivedLocked(w, act == protocol.Confirm || m.ResyncID != "")
	}
	if answer := in.answers.fromLocked(m.Source, m.ResyncID); answer != nil {
		answer.got(m.ID, &s.account)
	}
	after := stateOf(w)
	in.answers.progressLocked(m.Source, m.ResyncID, after.Version != before.Version || after.NextV != before.NextV)
	return nil
}

// actLocked acts on a decision. w is nil for an unknown work.
func (in *intake) actLocked(act protocol.AgentAction, s *agentSource, w *agentWork, m *codec.Spec) error {
	switch act {
	case protocol.Ask:
		return s.requestLocked(m.ResourceID, m.Version)
	case protocol.Create, protocol.CreateDeleting, protocol.Take:
		isNew := w == nil
		if isNew {
			w = &agentWork{agentRecord: agentRecord{Name: m.Name}, source: s, id: m.ResourceID}
		}
		if err := w.admitLocked(m, false); err != nil {
			return err
		}
		if isNew {
			s.works[m.ResourceID], s.used = w, true
			w.statusAcceptedLocked(m.StatusSeq)
		}
		if act == protocol.Take {
			w.takeLocked(m)
		} else {
			w.createLocked(m)
		}
	case protocol.KeepNext:
		if err := w.admitLocked(m, true); err != nil {
			return err // the source sends it again; the end of this deletion makes room
		}
		w.Next = m
		w.keepLocked()
	case protocol.MarkDeleting:
		w.markDeletingLocked(m)
	case protocol.Remove:
		w.UID, w.Version, w.Time = m.UID, m.Version, m.Time
		w.followLocked(m)
		w.removeLocked(nil)
	case protocol.TakeDelete:
		w.UID, w.Version, w.Time, w.Next = m.UID, m.Version, m.Time, nil
		w.relateLocked(w.Object.Generation, m)
		w.keepLocked()
	case protocol.RepeatGone:
		w.UID, w.Version, w.Time = m.UID, m.Version, m.Time
		w.publishLocked()
	case protocol.PublishStatus:
		w.publishLocked()
	case protocol.Answer:
		w.sendLocked()
	case protocol.Ignore, protocol.Confirm:
	}
	return nil
}

// endsLocked reports whether a message of a source that is no longer served can end its works,
// which still need a cleanup and keep their names: a deletion or a request for lists.
func (in *intake) endsLocked(m codec.Message) bool {
	s := in.records.sources[m.Head().Source]
	if s == nil {
		return false
	}
	switch m := m.(type) {
	case *codec.Spec:
		return m.DeletionTimestamp != nil && s.works[m.ResourceID] != nil
	case *codec.StatusResync:
		return len(s.works) > 0
	}
	return false
}
