// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"fmt"
	"sync"

	"github.com/eclipse/paho.golang/packets"

	"github.com/spokewire/sdk-go/cloudevents"
)

const (
	// pahoReserve is for how many messages of QoS 0 paho reserves room.
	pahoReserve = 16

	// mostUnreliable is how many messages may wait when another of QoS 0 comes. Those have no window; to wait for
	// room would keep paho from reading acknowledgements, for which Receive may be waiting, so they are
	// dropped, as QoS 0 allows. Ours are all QoS 1: for them the broker's window is the bound.
	mostUnreliable = 512
)

// inbox is the queue between paho's reading goroutine, which must not wait, and the receiver.
type inbox struct {
	wake chan struct{} // holds a token while there may be something to take

	mu           sync.Mutex
	waiting      []*packets.Publish
	dropped      int // messages of QoS 0, since the last take
	droppedTopic string
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// push takes a message. It never waits.
func (q *inbox) push(p *packets.Publish) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.QoS == 0 && len(q.waiting) >= mostUnreliable {
		q.dropped++
		q.droppedTopic = p.Topic
		return
	}
	q.waiting = append(q.waiting, p)
	if len(q.waiting) == 1 {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
}

// take returns all that waits and reuses buf, which it returned before, for what comes.
func (q *inbox) take(buf []*packets.Publish) (batch []*packets.Publish, dropped int, topic string) {
	clear(buf)
	q.mu.Lock()
	defer q.mu.Unlock()
	batch, dropped, topic = q.waiting, q.dropped, q.droppedTopic
	q.waiting, q.dropped, q.droppedTopic = buf[:0], 0, ""
	return batch, dropped, topic
}

// receiver hands messages to the user, one at a time, and acknowledges each.
type receiver struct {
	options cloudevents.ConnectOptions
	inbox   *inbox
	wire    *wire
}

// run works until ended is closed. What waits then is dropped: without an acknowledgement it is still the
// broker's.
func (r *receiver) run(ended <-chan struct{}) {
	var batch []*packets.Publish
	for {
		select {
		case <-ended:
			return
		case <-r.inbox.wake:
		}
		var dropped int
		var topic string
		batch, dropped, topic = r.inbox.take(batch)
		for i, p := range batch {
			select {
			case <-ended:
				return
			default:
			}
			r.handle(p)
			batch[i] = nil // a long batch must not keep all its messages alive
		}
		if dropped > 0 {
			r.options.Refuse(topic, fmt.Errorf("%d messages of QoS 0 were dropped: the receiver is behind", dropped))
		}
	}
}

func (r *receiver) handle(p *packets.Publish) {
	if e, err := decode(p); err != nil {
		r.options.Refuse(p.Topic, err)
	} else {
		r.options.Receive(cloudevents.Message{Topic: p.Topic, Event: e})
	}
	if p.QoS == 0 {
		return
	}
	// The short form of PUBACK: success, no properties. An error means that the connection has ended.
	ack := [4]byte{packets.PUBACK << 4, 2, byte(p.PacketID >> 8), byte(p.PacketID)}
	r.wire.Lock()
	defer r.wire.Unlock()
	_, _ = r.wire.Write(ack[:])
}
