// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"sync/atomic"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/codec"
)

// answer ties the events of an answer to its question and counts them.
type answer struct {
	resyncID, session string
	round             uint64 // of its source, when it began
	sent              atomic.Int64
	lost              atomic.Bool // some of it was given up with its connection

	// The store's lock guards what follows.
	parked int        // events that wait for their work to be stored
	end    *endMarker // waits for them, once its turn has come
}

// reply queues one event of an answer.
func (s *Source) reply(l *agentList, w *sourceWork) {
	s.engine.Enqueue(cloudevents.Bulk, &specAnswer{answer: &l.answer, work: w})
}

// specAnswer is one work in an answer.
type specAnswer struct {
	*answer
	work    *sourceWork
	counted bool        // Message is called again where the broker refused it for now
	next    *specAnswer // that is parked at the same work
}

func (a *specAnswer) Message() (cloudevents.Message, error) {
	m, err := a.work.message(a)
	if m.Event != nil && !a.counted {
		a.counted = true
		a.sent.Add(1)
		a.work.source.metrics.answer(sent)
	}
	return m, err
}

func (a *specAnswer) Settled(err error) {
	if err != nil && a.counted {
		a.sent.Add(-1) // the agent must not wait for it
	}
	if errors.Is(err, cloudevents.ErrConnectionLost) {
		a.lost.Store(true)
	}
	a.work.Settled(err)
}

// park puts the answer off until its work is stored. The end of the answer waits for it: an agent that has heard the
// end takes what was not in the answer for gone. The store's lock is held.
func (a *specAnswer) park() {
	a.parked++
	a.next, a.work.parked = a.work.parked, a
}

// resume queues what was parked at the work, which is stored now, or gone, and then says nothing.
func (w *sourceWork) resume() {
	s := w.source
	for a := w.parked; a != nil; a = w.parked {
		w.parked, a.next = a.next, nil
		a.answer.parked--
		if a.round != s.round {
			continue // its connection has ended, and the next one begins with new questions
		}
		s.engine.Enqueue(cloudevents.Bulk, a)
		if a.answer.parked == 0 && a.end != nil {
			s.engine.Enqueue(cloudevents.Bulk, a.end)
			a.end = nil
		}
	}
}

// endMarker tells the agent that an answer is complete.
type endMarker struct {
	*answer
	source  *Source
	cluster string
}

func (e *endMarker) Message() (cloudevents.Message, error) {
	s := e.source
	if !e.due() {
		return cloudevents.Message{}, nil
	}
	return encode(s.options.Profile, &codec.StatusResync{
		Header: codec.Header{
			ID: s.ids.next(), Time: s.options.Clock.Now().UTC(),
			Source: s.options.SourceID, Cluster: e.cluster, ResyncID: e.resyncID,
		},
		Scope: codec.ScopeListed,
		Chunk: codec.Chunk{Count: int(e.sent.Load())},
	})
}

// due reports whether all of the answer is on its way. If some of it waits, so does the end. A source that may lack works
// does not end its answers: InventoryComplete has the agents that wait for that ask again.
func (e *endMarker) due() bool {
	s := e.source
	s.store.Lock()
	defer s.store.Unlock()
	if e.parked > 0 {
		e.end = e
		return false
	}
	return e.round == s.round && !e.lost.Load() && (s.complete || s.restored)
}

func (e *endMarker) Settled(error) {}
