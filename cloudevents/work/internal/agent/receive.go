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
	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// agentHandler is the agent as the handler of its engine.
type agentHandler Agent

var _ engine.Handler = &agentHandler{}

// Connected sends the sources the list of the agent's works, which requests the missing works.
func (h *agentHandler) Connected(context.Context) {
	(*Agent)(h).presence.Connected()
	(*Agent)(h).resync()
}

// Disconnected drops the queued requests of peers: the next connection begins a new exchange.
func (h *agentHandler) Disconnected() {
	(*Agent)(h).requests.Drop()
	(*Agent)(h).presence.Disconnected()
}

// Received handles a spec, and queues a list of hashes.
func (h *agentHandler) Received(m cloudevents.Message) {
	a := (*Agent)(h)
	if codec.IsResync(m.Event) {
		a.requests.Add(m)
	} else {
		a.take(m)
	}
}

func (a *Agent) take(m cloudevents.Message) {
	msg, err := a.options.Profile.Decode(m.Topic, m.Event)
	if spec, ok := msg.(*codec.Spec); ok && err != nil {
		// The spec is handled without its content, so the rejection is reported to the source.
		var bad *codec.Error
		if errors.As(err, &bad) && bad.Code == codec.CodeData {
			spec.Work = nil
			if spec.DeletionTimestamp != nil {
				spec.Work = &workv1.ManifestWork{} // the deletion applies, whatever the metadata is
			}
			a.refuse(m.Topic, err, peer.RefusalReason(err), 1)
			err = nil
		}
	}
	if err == nil {
		a.metrics.CountEvent(m.Event)
		err = a.receive(msg)
	}
	if err != nil {
		a.refuse(m.Topic, err, peer.RefusalReason(err), 1)
	}
}

// Refused counts and logs messages that are not CloudEvents.
func (h *agentHandler) Refused(topic string, err error) {
	reason, n := peer.RefusedMessages(err)
	(*Agent)(h).refuse(topic, err, reason, n)
}

// refuse counts and logs messages that cannot be used.
func (a *Agent) refuse(topic string, err error, reason string, n int) {
	a.cache.Lock()
	defer a.cache.Unlock()
	a.refuseLocked(topic, err, reason, n)
}

func (a *Agent) refuseLocked(topic string, err error, reason string, n int) {
	a.metrics.CountRefused(reason, n)
	a.refusals.Error(a.logger, err, reason, topic)
}

func (a *Agent) receive(m codec.Message) error {
	if p, ok := m.(*codec.Presence); ok {
		a.cache.Lock()
		defer a.cache.Unlock()
		return a.presence.ReceiveLocked(p)
	}
	head := m.Head()
	_, request := m.(*codec.StatusResync)
	switch {
	case !a.serves(head.Source) && !a.ends(m):
		return nil // sources that other agents serve may use the same broker
	case head.Cluster == "" || head.Cluster == a.options.ClusterName:
	case request:
		return nil // for another cluster, on the topic that all agents read
	default:
		return peer.Unusable(peer.RefusedCluster, "the event is for cluster %q", head.Cluster)
	}
	a.cache.Lock()
	defer a.cache.Unlock()
	switch m := m.(type) {
	case *codec.Spec:
		return a.onSpecLocked(m)
	case *codec.StatusResync:
		return a.onHashesLocked(m)
	}
	return fmt.Errorf("agent received unexpected event type %T", m)
}

// onSpecLocked acts on a spec as protocol.OnSpec decides.
func (a *Agent) onSpecLocked(m *codec.Spec) error {
	noUID := m.UID == ""
	n := peer.Numbers{Version: m.Version, Seq: m.StatusSeq}
	if noUID {
		n.Time = m.Time
	}
	var known *agentWork
	if s := a.sources[m.Source]; s != nil {
		known = s.works[m.ResourceID]
	}
	if err := a.check(known, m.ResourceID, n); err != nil {
		return err
	}
	s, err := a.sourceOf(m.Source)
	if err != nil {
		return err
	}
	before := stateOf(known)
	act := protocol.OnSpec(before, protocol.SpecEvent{
		Version:     protocol.Version{V: m.Version, UID: string(m.UID)},
		Delete:      m.DeletionTimestamp != nil,
		SessionMine: m.AgentSession == a.session,
		StatusSeq:   m.StatusSeq,
		NoUID:       noUID,
		Time:        m.Time,
		Bundle:      a.traits.Bundle,
		Bare:        a.traits.Bundle && m.Name == m.ResourceID,
	})
	if known != nil {
		known.statusAccepted(m.StatusSeq)
	}
	a.metrics.CountOutcome(specOutcome(act))
	if m.ResyncID != "" {
		a.metrics.CountAnswer(peer.Received)
	}
	s.dialect = peer.DialectOf(!noUID)
	if err := a.act(act, s, known, m); err != nil {
		return err
	}
	w := s.works[m.ResourceID]
	if w != nil {
		w.accountLocked()
	}
	if w != nil && !noUID && w.State != protocol.Tombstone && act != protocol.Answer {
		a.receivedLocked(w, act == protocol.Confirm || m.ResyncID != "")
	}
	if answer := a.answerFrom(m.Source, m.ResyncID); answer != nil {
		answer.got(m.ID, &s.account)
	}
	after := stateOf(w)
	a.progressLocked(m.Source, m.ResyncID, after.Version != before.Version || after.NextV != before.NextV)
	return nil
}

func (a *Agent) act(act protocol.AgentAction, s *agentSource, w *agentWork, m *codec.Spec) error {
	switch act {
	case protocol.Ask:
		return a.ask(s, m.ResourceID, m.Version)
	case protocol.Create, protocol.CreateDeleting:
		isNew := w == nil
		if isNew {
			w = &agentWork{agentRecord: agentRecord{Name: m.Name}, agent: a, source: s, id: m.ResourceID}
		}
		if err := w.admit(m, false); err != nil {
			return err
		}
		if isNew {
			s.works[m.ResourceID], s.used = w, true
			w.statusAccepted(m.StatusSeq)
		}
		w.create(m)
	case protocol.Take:
		if err := w.admit(m, false); err != nil {
			return err
		}
		w.take(m)
	case protocol.KeepNext:
		if err := w.admit(m, true); err != nil {
			return err // the source sends it again; the end of this deletion makes room
		}
		w.Next = m
		a.keepLocked(w)
	case protocol.MarkDeleting:
		w.markDeleting(m)
	case protocol.Remove:
		w.UID, w.Version, w.Time = m.UID, m.Version, m.Time
		w.trace.follow(m.TraceParent)
		w.removeLocked()
	case protocol.TakeDelete:
		w.UID, w.Version, w.Time, w.Next = m.UID, m.Version, m.Time, nil
		w.relate(w.Object.Generation, m)
		a.keepLocked(w)
	case protocol.RepeatGone:
		w.UID, w.Version, w.Time = m.UID, m.Version, m.Time
		w.publishLocked()
	case protocol.PublishStatus:
		w.publishLocked()
	case protocol.Answer:
		a.send(w)
	case protocol.Ignore, protocol.Confirm:
	}
	return nil
}

// newErrors returns the schema errors of a spec for an existing object. It returns nil if the
// object already has that spec.
func (w *agentWork) newErrors(spec *codec.Spec) error {
	if w.Object == nil || clientset.SameSpec(&w.Object.Spec, &spec.Work.Spec) {
		return nil // create checks the spec of a new object
	}
	return clientset.Brief(clientset.SpecErrors(&spec.Work.Spec))
}

// invalid counts and logs a spec that the schema forbids.
func (w *agentWork) invalid(err error) {
	err = peer.Unusable(peer.RefusedSchema, "the spec of work %s of source %s is invalid: %w", w.Name, w.source.name, err)
	w.agent.refuseLocked("", err, peer.RefusedSchema, 1)
}
