// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cloudevents

import (
	"context"
	"errors"
	"fmt"

	ce "github.com/cloudevents/sdk-go/v2/event"
)

// Message is one CloudEvent on one topic.
type Message struct {
	// Topic is the full topic name, without wildcards.
	Topic string
	// Event is the event. Its data must not be changed after the message was handed over.
	Event *ce.Event
}

// Transport is the driver interface: how events reach a broker. An implementation dials and moves bytes;
// reconnecting, backoff, the outbox, rate limits and metrics are the [Engine]'s.
//
// A Transport serves one client (a source or an agent). Its duties are checked by package transporttest:
//
//   - Delivery is at least once. A message is acknowledged to the broker only after Receive and Commit
//     returned, so that what a crash interrupts is sent again.
//   - Order is kept: messages published on one connection to one topic arrive in the order of Publish.
//   - Nothing is retained: a subscriber gets what is published while it is connected, and, where the
//     broker keeps a session for it, what was published while it was away.
//   - No goroutine, socket or timer outlives its connection.
//
// Methods may be called from any goroutine.
type Transport interface {
	// Claim reserves the transport for one client. The client's name serves as the base of a connection's
	// identity towards the broker where the user configured none. A second call returns [ErrClaimed].
	Claim(client string) error

	// Connect opens a connection, subscribes to every filter of o and returns when the broker has
	// granted them all, except those in o.Optional. It gives up when ctx ends. It returns a
	// [*PermanentError] for what no retry will mend. The connection's life is bound to neither ctx
	// nor the Transport: the caller closes it.
	Connect(ctx context.Context, o ConnectOptions) (Conn, error)
}

// ConnectOptions says what a connection receives and to whom it hands it.
type ConnectOptions struct {
	// Filters are the topic filters to subscribe to, in MQTT's syntax (`+` one level, `#` the rest). A
	// filter may begin with `$share/<group>/`: then each message goes to one member of the group.
	Filters []string
	// Optional are filters that the connection can do without. Denied, which must not be nil where there are any, is
	// called before Connect returns for each of them that the broker refuses.
	Optional []string
	Denied   func(filter string, err error)
	// Binary asks for the binary content mode where the transport has two (CloudEvents attributes beside
	// the payload instead of around it). Both are always read.
	Binary bool
	// Receive takes one message. It is called one at a time, in order of arrival, from a goroutine of the
	// connection; the message is acknowledged to the broker when it returns. Required.
	Receive func(Message)
	// Commit, if it is not nil, is called after Receive has taken one or more messages and before any of them
	// is acknowledged, to make what they said durable. If it fails, none of them is acknowledged and the
	// connection ends with its error. ctx ends with the connection.
	Commit func(ctx context.Context) error
	// Refuse takes what is not a CloudEvent: the topic and the reason. The message is acknowledged all
	// the same, since another delivery would not mend it. Required.
	Refuse func(topic string, err error)
}

// Conn is one connection to the broker. It ends once and for all; the [Engine] then opens another.
type Conn interface {
	// Publish hands a message to the broker and returns as soon as it is written; many may be under way.
	// Where the broker's window is full it waits for room, or for ctx. If it returns nil, done is called
	// exactly once, from any goroutine and possibly before Publish returns: with nil when the broker has
	// acknowledged the message, with [ErrConnectionLost] when the connection ended first (before Close
	// returns), else with the broker's reason to refuse it: a [*TooLargeError], a [*TemporaryError], or
	// any other for a refusal that the next connection may or may not get again. done must not block.
	//
	// If it returns an error, done is not called. The error is ctx's where ctx has ended, and wraps
	// [ErrConnectionLost] where the connection has. Any other is about this message alone, such as a
	// [*TooLargeError] for one over the broker's limit or a topic that cannot be, and leaves the
	// connection as it was; the [Engine] then gives the message up and goes on with the next.
	Publish(ctx context.Context, m Message, done func(error)) error

	// MaxPacketSize is the largest message in bytes, topic and attributes included, that the broker takes;
	// 0 means no limit.
	MaxPacketSize() int

	// Done is closed when the connection has ended, for whatever reason.
	Done() <-chan struct{}

	// Err returns why the connection ended: nil before Done is closed and after Close.
	Err() error

	// Close ends the connection in an orderly way, gives up on what is not acknowledged and returns when
	// its goroutines have ended. It may be called more than once, but not from within Receive.
	Close() error
}

// ErrClaimed is returned by [Transport.Claim] when the transport already serves a client.
var ErrClaimed = errors.New("the transport already serves a source or an agent: make one transport for each")

// ErrConnectionLost is given to done for messages that were not acknowledged when their connection ended.
var ErrConnectionLost = errors.New("connection lost before the broker acknowledged the message")

// PermanentError wraps a failure to connect that another attempt with the same options will not mend, such
// as a missing certificate file. The [Engine] reports it and goes on trying at its slowest pace, since
// files can be put right while it runs.
type PermanentError struct {
	// Err is the cause.
	Err error
}

// Error names the cause.
func (e *PermanentError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PermanentError) Unwrap() error { return e.Err }

// TemporaryError wraps a broker's refusal of a message that may be over in a while, such as a quota that is used up.
// The [Engine] publishes the message again on the same connection, after 100 ms at first and every 10 s at last.
type TemporaryError struct {
	// Err is the broker's reason.
	Err error
}

// Error names the reason.
func (e *TemporaryError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *TemporaryError) Unwrap() error { return e.Err }

// TooLargeError reports a message that is over the broker's packet limit.
type TooLargeError struct {
	// Topic is where the message was to go.
	Topic string
	// Size is the size of the packet in bytes, Limit what the broker takes.
	Size, Limit int
}

// Error says by how much the limit is exceeded.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("message of %d bytes on topic %q is over the broker's packet limit of %d bytes", e.Size, e.Topic, e.Limit)
}

// OverrunError is given to Refuse for messages that a transport threw away because they came faster than Receive took
// them, which it may with messages of QoS 0 only.
type OverrunError struct {
	// Messages is how many there were.
	Messages int
}

// Error says how many.
func (e *OverrunError) Error() string {
	return fmt.Sprintf("%d messages of QoS 0 were dropped: the receiver is behind", e.Messages)
}
