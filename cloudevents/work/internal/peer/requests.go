// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"fmt"
	"sync"

	"github.com/spokewire/sdk-go/cloudevents"
)

// RequestQueue handles the requests of peers in its own goroutine: other events must not wait for
// long lists. Requests are not stored, because a peer sends a lost request again.
//
// Topics take turns. Each topic belongs to one peer, so a peer that floods its topic delays only
// itself. A request is dropped if its topic or the budget has no room for it.
type RequestQueue struct {
	budget *Budget
	handle func(cloudevents.Message)
	// refuse is called for a dropped request.
	refuse func(cloudevents.Message, error)
	group  sync.WaitGroup

	mu      sync.Mutex
	topics  map[string]*topicQueue
	turns   []*topicQueue // topics with requests, in the order of their turns
	working bool
}

// topicQueue has the requests of one topic.
type topicQueue struct {
	topic   string
	account Account
	waiting []cloudevents.Message
}

// NewRequestQueue returns an empty queue. refuse is called for dropped requests.
func NewRequestQueue(
	b *Budget, handle func(cloudevents.Message), refuse func(cloudevents.Message, error),
) *RequestQueue {
	return &RequestQueue{budget: b, handle: handle, refuse: refuse, topics: map[string]*topicQueue{}}
}

func requestSize(m cloudevents.Message) int64 {
	if m.Event == nil {
		return requestCost
	}
	e := m.Event
	size := requestCost + len(m.Topic) + len(e.DataEncoded)
	for _, text := range []string{e.ID(), e.Type(), e.Source(), e.Subject(), e.DataSchema(), e.DataContentType()} {
		size += len(text)
	}
	for name, value := range e.Extensions() {
		text, _ := value.(string)
		size += attributeCost + len(name) + len(text)
	}
	return int64(size)
}

// attributeCost is the estimated size of an attribute without its name and value.
const attributeCost = 64

// Add queues a request, or drops it.
func (r *RequestQueue) Add(m cloudevents.Message) {
	if err := r.queue(m); err != nil {
		r.refuse(m, Unusable(RefusedBudget, "queue a request: %w", err))
	}
}

func (r *RequestQueue) queue(m cloudevents.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.topics[m.Topic]
	if q == nil {
		q = &topicQueue{topic: m.Topic, account: Account{Budget: r.budget}}
	}
	size := requestSize(m)
	// A quarter of a peer's bound is for its requests. The only request of a topic may be larger.
	if quarter := r.budget.PerPeer / 4; len(q.waiting) > 0 && q.account.used+size > quarter {
		return fmt.Errorf("no room within a quarter of %s.%s (%d bytes)", r.budget.Options, r.budget.Peer, quarter)
	}
	if !q.account.Charge(size) {
		return q.account.ErrFull()
	}
	if len(q.waiting) == 0 {
		r.topics[m.Topic] = q
		r.turns = append(r.turns, q)
	}
	q.waiting = append(q.waiting, m)
	if !r.working { // no goroutine while there is nothing to do: a process may have thousands of agents
		r.working = true
		r.group.Go(r.work)
	}
	return nil
}

func (r *RequestQueue) work() {
	for m, ok := r.next(); ok; m, ok = r.next() {
		r.handle(m)
	}
}

func (r *RequestQueue) next() (cloudevents.Message, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.turns) == 0 {
		r.turns, r.working = nil, false
		return cloudevents.Message{}, false
	}
	q := r.turns[0]
	r.turns[0] = nil
	r.turns = r.turns[1:]
	m := q.waiting[0]
	q.waiting[0] = cloudevents.Message{}
	q.waiting = q.waiting[1:]
	q.account.Set(requestSize(m), 0)
	if len(q.waiting) > 0 {
		r.turns = append(r.turns, q)
	} else {
		delete(r.topics, q.topic)
	}
	return m, true
}

// Drop removes the requests of a connection that has ended, and waits for the request in progress.
func (r *RequestQueue) Drop() {
	r.mu.Lock()
	for _, q := range r.turns {
		q.account.Set(q.account.used, 0)
	}
	r.turns = nil
	clear(r.topics)
	r.mu.Unlock()
	r.group.Wait()
}
