// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/packets"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/internal/wait"
)

const (
	// pahoReserve is the number of messages of QoS 0 for which paho reserves memory.
	pahoReserve = 16
	// mostUnreliable is the number of queued messages at which further ones of QoS 0 are dropped.
	// They have no window, and to wait for room would stop paho from reading acknowledgements, for
	// which Receive may be waiting.
	mostUnreliable = 512
	// propertySize is the memory of a user property in addition to its texts.
	propertySize = 64
	// mostWaiting is the size in bytes of unhandled messages above which reading pauses.
	mostWaiting = 4 << 20
	// stuckAfter bounds the pause while no message is handled and an acknowledgement is awaited:
	// Receive may be waiting for it, and other messages may precede it.
	stuckAfter = 100 * time.Millisecond
	// mostUncommitted bounds the number of messages for one Commit: until then they are not
	// acknowledged, and fill the broker's window.
	mostUncommitted = 256
)

// inbox is the queue between paho's reading goroutine and the receiver.
type inbox struct {
	wake  wait.Signal     // there may be messages
	ended <-chan struct{} // closed at the end of the connection: push then does not wait

	mu           sync.Mutex
	waiting      []*packets.Publish
	bytes        int            // size of all unhandled messages
	handled      uint64         // number of handled messages
	awaited      int            // number of awaited acknowledgements
	stuck        uint64         // handled+1 at the time when the receiver was last found stuck
	room         wait.Broadcast // full may return another result
	dropped      int            // number of dropped messages of QoS 0 since the last take
	droppedTopic string
}

func newInbox(ended <-chan struct{}) *inbox {
	return &inbox{wake: wait.NewSignal(), ended: ended}
}

// size estimates the memory of a message.
func size(p *packets.Publish) int {
	n := len(p.Payload) + headroom
	for i := range p.Properties.User {
		n += propertySize + len(p.Properties.User[i].Key) + len(p.Properties.User[i].Value)
	}
	return n
}

// push adds a message. It then waits until less than mostWaiting bytes are unhandled, unless the
// receiver is stuck.
func (q *inbox) push(p *packets.Publish) {
	q.add(p)
	for room, awaited := q.full(); room != nil; room, awaited = q.full() {
		var stuck <-chan time.Time
		if awaited {
			stuck = time.After(stuckAfter)
		}
		select {
		case <-room:
		case <-stuck:
			q.giveUp(room)
		case <-q.ended:
			return
		}
	}
}

// full returns a channel to wait for, or nil when there is room, and whether an acknowledgement is
// awaited.
func (q *inbox) full() (room <-chan struct{}, awaited bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	awaited = q.awaited > 0
	if q.bytes <= mostWaiting || awaited && q.stuck == q.handled+1 {
		return nil, awaited
	}
	return q.room.Next(), awaited
}

func (q *inbox) await() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.awaited++; q.awaited == 1 {
		q.room.Wake()
	}
}

func (q *inbox) answered() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.awaited--
}

// giveUp marks the receiver as stuck, unless it has handled a message since full returned room.
func (q *inbox) giveUp(room <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.room.Next() == room {
		q.stuck = q.handled + 1
	}
}

func (q *inbox) release(size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= size
	q.handled++
	q.room.Wake()
}

func (q *inbox) add(p *packets.Publish) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.QoS == 0 && len(q.waiting) >= mostUnreliable {
		q.dropped++
		q.droppedTopic = p.Topic
		return
	}
	q.waiting = append(q.waiting, p)
	q.bytes += size(p)
	if len(q.waiting) == 1 {
		q.wake.Set()
	}
}

// take returns all queued messages. buf is the result of the previous call: its memory is reused.
func (q *inbox) take(buf []*packets.Publish) (batch []*packets.Publish, dropped int, topic string) {
	clear(buf)
	q.mu.Lock()
	defer q.mu.Unlock()
	batch, dropped, topic = q.waiting, q.dropped, q.droppedTopic
	q.waiting, q.dropped, q.droppedTopic = buf[:0], 0, ""
	return batch, dropped, topic
}

// receiver calls Receive for each message, one at a time, and acknowledges it. With a Commit, it
// acknowledges the messages of a Commit together.
type receiver struct {
	options cloudevents.ConnectOptions
	inbox   *inbox
	wire    *wire
}

// run handles messages until ctx ends, or Commit fails: it then returns the error. Queued messages
// are dropped: the broker keeps messages without acknowledgement.
func (r *receiver) run(ctx context.Context) error {
	var batch []*packets.Publish
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.inbox.wake:
		}
		var dropped int
		var topic string
		batch, dropped, topic = r.inbox.take(batch)
		for part := range slices.Chunk(batch, mostUncommitted) {
			if err := r.handle(ctx, part); err != nil {
				return err
			}
		}
		if dropped > 0 {
			r.options.Refuse(topic, &cloudevents.OverrunError{Messages: dropped})
		}
	}
}

// handle handles a part of a batch, and clears it: a long batch must not keep all its messages in
// memory.
func (r *receiver) handle(ctx context.Context, part []*packets.Publish) error {
	var acks []byte
	for i, p := range part {
		if ctx.Err() != nil {
			return nil
		}
		part[i] = nil
		if e, err := decode(p); err != nil {
			r.options.Refuse(p.Topic, err)
		} else {
			r.options.Receive(cloudevents.Message{Topic: p.Topic, Event: e})
		}
		r.inbox.release(size(p))
		if p.QoS == 0 {
			continue
		}
		// The short form of PUBACK: success, no properties.
		ack := [4]byte{packets.PUBACK << 4, 2, byte(p.PacketID >> 8), byte(p.PacketID)}
		if r.options.Commit == nil {
			r.acknowledge(ack[:])
		} else {
			acks = append(acks, ack[:]...)
		}
	}
	if r.options.Commit == nil {
		return nil
	}
	if err := r.options.Commit(ctx); err != nil {
		return fmt.Errorf("commit received messages: %w", err)
	}
	r.acknowledge(acks)
	return nil
}

// acknowledge writes acknowledgements. An error means that the connection has ended.
func (r *receiver) acknowledge(acks []byte) {
	r.wire.Lock()
	defer r.wire.Unlock()
	_, _ = r.wire.Write(acks)
}
