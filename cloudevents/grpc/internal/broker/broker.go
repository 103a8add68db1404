// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package broker routes encoded events from publishers to subscribers in one process. It never
// waits for a subscriber.
package broker

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spokewire/sdk-go/internal/grpcwire"
	"github.com/spokewire/sdk-go/internal/topicfilter"
)

// Limits bound the memory of subscribers.
type Limits struct {
	QueueBytes int           // for one subscriber, by grpcwire.Message.Cost
	TotalBytes int           // for all subscribers together
	Stall      time.Duration // without progress, after which a subscriber with a full queue ends
}

// guaranteed is the number of bytes that each subscriber may have if TotalBytes is exceeded.
const guaranteed = 64 << 10

// Limits of filters: a tree has a node for each level.
const (
	mostFilters = 64 // of one subscriber
	mostLevels  = 32
	longest     = 4 << 10 // bytes, also of a topic
)

// ErrFull is returned by Publish if the queue of a subscriber has no room. The publisher tries again
// later.
var ErrFull = errors.New("the queue of a subscriber is full: publish again later")

// Broker connects publishers and subscribers. Its methods may be called from any goroutine.
//
// Broker.mu is locked before Subscription.mu. Broker.total has a mutex of its own, which is locked
// last.
type Broker struct {
	limits Limits
	total  account

	mu    sync.Mutex
	tree  topicfilter.Tree[*Subscription]
	all   map[*Subscription]struct{}
	round uint64 // counts matched topics; see Subscription.round
}

// New returns a broker without subscribers. It owns no goroutine.
func New(limits Limits) *Broker {
	return &Broker{
		limits: limits, total: account{limit: limits.TotalBytes, users: map[string]int{}},
		tree: topicfilter.NewTree[*Subscription](), all: map[*Subscription]struct{}{},
	}
}

// Publish queues a message for each subscriber with a matching filter, once, and returns. If a queue
// is full, the other subscribers receive the message, and Publish returns [ErrFull]. An error about
// the topic concerns the message alone.
//
// A publisher with a name may use half of a queue, two of them a third each, and so on. So a flood
// of one cluster leaves room for the messages of others. A publisher without a name has no limit.
//
// The event must not change afterwards. It must not refer to a much larger buffer, because queued
// events are counted by their length.
func (b *Broker) Publish(publisher string, m grpcwire.Message) error {
	if err := CheckTopic(m.Topic); err != nil {
		return err
	}
	var buf [8]*Subscription
	full := false
	for _, s := range b.receivers(m.Topic, buf[:0]) {
		full = !s.push(publisher, m) || full
	}
	if full {
		return ErrFull
	}
	return nil
}

// CheckTopic returns an error for a topic that cannot be published to.
func CheckTopic(topic string) error {
	switch {
	case len(topic) > longest:
		return fmt.Errorf("a topic of %d bytes: must not be longer than %d", len(topic), longest)
	case !utf8.ValidString(topic):
		return fmt.Errorf("topic %q: must be UTF-8", topic)
	}
	return topicfilter.CheckTopic(topic)
}

// receivers appends to buf the subscribers that receive a message on topic, each once.
func (b *Broker) receivers(topic string, buf []*Subscription) []*Subscription {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.round++
	b.tree.Match(topic, func(s *Subscription) {
		if s.round != b.round {
			s.round = b.round
			buf = append(buf, s)
		}
	})
	return buf
}

// ParseFilters parses topic filters and checks their limits.
func ParseFilters(filters ...string) ([]topicfilter.Filter, error) {
	if len(filters) > mostFilters {
		return nil, fmt.Errorf("%d topic filters: must be at most %d", len(filters), mostFilters)
	}
	parsed := make([]topicfilter.Filter, len(filters))
	for i, s := range filters {
		if len(s) > longest {
			return nil, fmt.Errorf("a topic filter of %d bytes: must not be longer than %d", len(s), longest)
		}
		f, err := topicfilter.Parse(s)
		if err != nil {
			return nil, err
		}
		if len(f.Levels) > mostLevels {
			return nil, fmt.Errorf("a topic filter of %d levels: must have at most %d", len(f.Levels), mostLevels)
		}
		parsed[i] = f
	}
	return parsed, nil
}

// Subscribe adds a subscriber. window bounds the bytes of taken messages that are not released; one
// message may always be taken. 0 means no bound. Close removes the subscriber.
//
// All subscribers of a user may use half of the total of the broker, those of two users a third
// each, and so on. A subscriber without a user has no limit.
func (b *Broker) Subscribe(user string, filters []topicfilter.Filter, window int) *Subscription {
	s := newSubscription(b, user, filters, window)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all[s] = struct{}{}
	for _, f := range filters {
		b.tree.Add(f, s)
	}
	return s
}

// Cut ends all subscriptions with an error.
func (b *Broker) Cut(err error) {
	b.mu.Lock()
	all := make([]*Subscription, 0, len(b.all))
	for s := range b.all {
		all = append(all, s)
	}
	b.mu.Unlock()
	for _, s := range all {
		s.end(err)
	}
}

// detach removes s; it receives no messages that are published later.
func (b *Broker) detach(s *Subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, attached := b.all[s]; !attached {
		return
	}
	delete(b.all, s)
	for _, f := range s.filters {
		b.tree.Remove(f, s)
	}
}

// account counts the bytes of all queues, and of those of each user with a name.
type account struct {
	limit int

	mu    sync.Mutex
	used  int
	users map[string]int
}

// add adds bytes of a user, unless they would exceed a limit and must not.
func (a *account) add(user string, n int, must bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	free := a.limit - a.used - n
	if !must && (free < 0 || user != "" && a.users[user] > free) {
		return false
	}
	a.used += n
	if user == "" {
		return true
	}
	if a.users[user] += n; a.users[user] == 0 {
		delete(a.users, user)
	}
	return true
}

func (a *account) remove(user string, n int) { a.add(user, -n, true) }
