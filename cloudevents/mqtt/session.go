// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/eclipse/paho.golang/packets"
	paholog "github.com/eclipse/paho.golang/paho/log"
	pahosession "github.com/eclipse/paho.golang/paho/session"

	"github.com/spokewire/sdk-go/cloudevents"
)

// session assigns packet identifiers and handles acknowledgements for paho, for one connection.
//
// It stores no messages. A client that resumes a session must send unacknowledged messages again,
// under the same identifiers. Here done receives ErrConnectionLost, and the client publishes again
// under new ones, as if it had lost its half of the session. For QoS 1 the broker keeps no state.
type session struct {
	queue *inbox // receives messages

	window chan struct{} // has a token for each PUBLISH in flight; made by ConAckReceived

	mu    sync.Mutex
	ended bool
	// requests is ordered by packet identifier, from the highest down: brokers assign their own
	// from one up, and mochi 2.7.9 keeps both directions in one map.
	requests   []request
	free       []int // unused indexes of requests
	disconnect *packets.Disconnect
}

var _ pahosession.SessionManager = (*session)(nil)

type request struct {
	topic    string
	size     int
	done     func(error)
	response chan<- packets.ControlPacket
}

// ConAckReceived sets the window to the broker's Receive Maximum.
func (s *session) ConAckReceived(_ io.Writer, _ *packets.Connect, ack *packets.Connack) error {
	receiveMaximum := uint16(math.MaxUint16)
	if p := ack.Properties; p != nil && p.ReceiveMaximum != nil {
		receiveMaximum = *p.ReceiveMaximum
	}
	if receiveMaximum == 0 {
		return errors.New("the broker announced a Receive Maximum of 0, which MQTT does not allow")
	}
	s.window = make(chan struct{}, receiveMaximum)
	return nil
}

// acquire waits for room in the broker's window. AddToSession cannot wait, because paho limits its
// time.
func (s *session) acquire(ctx context.Context, ended <-chan struct{}) error {
	select {
	case s.window <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.window <- struct{}{}:
		return nil
	case <-ended:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) release() { <-s.window }

// AddToSession assigns an identifier to a packet. The request of a PUBLISH is in ctx.
func (s *session) AddToSession(
	ctx context.Context, packet pahosession.Packet, response chan<- packets.ControlPacket,
) error {
	r := request{response: response}
	var publish *publishContext
	if packet.Type() == packets.PUBLISH {
		publish, _ = ctx.Value(publishKey{}).(*publishContext)
		if publish == nil {
			return errors.New("a PUBLISH without a request")
		}
		r = publish.request
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return pahosession.ErrNoConnection
	}
	var i int
	switch {
	case len(s.free) > 0:
		i = s.free[len(s.free)-1]
		s.free = s.free[:len(s.free)-1]
		s.requests[i] = r
	case len(s.requests) < math.MaxUint16:
		i = len(s.requests)
		s.requests = append(s.requests, r)
	default:
		return pahosession.ErrPacketIdentifiersExhausted
	}
	packet.SetIdentifier(uint16(math.MaxUint16 - i))
	s.queue.await()
	if publish != nil {
		publish.added = true
	}
	return nil
}

// take ends the request with an identifier. It ignores unused identifiers, as paho does.
func (s *session) take(id uint16) (request, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := math.MaxUint16 - int(id)
	if i >= len(s.requests) || s.requests[i].done == nil && s.requests[i].response == nil {
		return request{}, false
	}
	r := s.requests[i]
	s.requests[i] = request{}
	s.free = append(s.free, i)
	s.queue.answered()
	return r, true
}

// PacketReceived handles messages and acknowledgements. Messages bypass paho's own channel and
// goroutine: with these, paho would stop reading, including acknowledgements, when Receive is slow.
func (s *session) PacketReceived(packet *packets.ControlPacket, _ chan<- *packets.Publish) error {
	switch p := packet.Content.(type) {
	case *packets.Publish:
		s.queue.push(p)
	case *packets.Puback:
		s.acknowledged(p)
	case *packets.Suback, *packets.Unsuback:
		if r, ok := s.take(packet.PacketID()); ok && r.response != nil {
			r.response <- *packet // has room for one
		}
	}
	return nil
}

func (s *session) acknowledged(p *packets.Puback) {
	r, ok := s.take(p.PacketID)
	if !ok || r.done == nil {
		return
	}
	s.release()
	switch {
	case p.ReasonCode < 0x80:
		r.done(nil)
	case p.ReasonCode == packets.ConnackPacketTooLarge:
		// Mosquitto does not announce its message_size_limit: it is only known to be lower.
		r.done(&cloudevents.TooLargeError{Topic: r.topic, Size: r.size, Limit: r.size - 1})
	default:
		reason := &ReasonError{Packet: "PUBACK", Code: p.ReasonCode, Reason: reasonString(p.Properties)}
		err := fmt.Errorf("the broker refused a message on topic %q: %w", r.topic, reason)
		if reason.temporary() {
			err = &cloudevents.TemporaryError{Err: err}
		}
		r.done(err)
	}
}

// ConnectionLost ends all requests without an acknowledgement.
func (s *session) ConnectionLost(disconnect *packets.Disconnect) error {
	s.mu.Lock()
	if disconnect != nil && s.disconnect == nil {
		s.disconnect = disconnect
	}
	s.ended = true
	left := s.requests
	s.requests, s.free = nil, nil
	s.mu.Unlock()
	for _, r := range left {
		switch {
		case r.done != nil:
			r.done(cloudevents.ErrConnectionLost)
		case r.response != nil:
			r.response <- packets.ControlPacket{} // has room for one; an empty packet reports the loss to paho
		}
	}
	return nil
}

func (s *session) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.disconnect
	if d == nil {
		return nil
	}
	return &ReasonError{Packet: "DISCONNECT", Code: d.ReasonCode, Reason: reasonString(d.Properties)}
}

func reasonString(p *packets.Properties) string {
	if p == nil {
		return ""
	}
	return p.ReasonString
}

// Ack does nothing: receiver acknowledges.
func (s *session) Ack(*packets.Publish) error { return nil }

// Close does nothing: ConnectionLost is called before.
func (s *session) Close() error { return nil }

// SetErrorLogger does nothing: errors are returned.
func (s *session) SetErrorLogger(paholog.Logger) {}

// SetDebugLogger does nothing.
func (s *session) SetDebugLogger(paholog.Logger) {}

// publishContext carries a request through paho's Publish to AddToSession. It never ends: send has
// already waited.
type publishContext struct {
	context.Context
	request request
	added   bool // AddToSession took the request: done will be called
}

type publishKey struct{}

// Value implements [context.Context].
func (c *publishContext) Value(key any) any {
	if key == (publishKey{}) {
		return c
	}
	return c.Context.Value(key)
}
