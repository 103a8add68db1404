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
	// Event is the event. Its data must not change after the message was passed on.
	Event *ce.Event
}

// Transport is the driver of a broker: it opens connections that publish and receive events. It
// serves one client, which is a source or an agent of package work. Package transporttest checks
// its duties:
//
//   - Delivery is at least once. A message is acknowledged to the broker only after Receive and
//     Commit returned, so the broker sends it again after a crash in between.
//   - Order is kept: messages published on one connection to one topic arrive in the order of
//     Publish.
//   - Messages are not retained: a subscriber receives messages that are published while it is
//     connected. If the broker keeps a session for it, it also receives those published while it
//     was away.
//   - No goroutine, socket or timer outlives its connection.
//
// Methods may be called from any goroutine.
type Transport interface {
	// Claim reserves the transport for one client. If the user configured no client ID, the
	// transport makes one from client. A second call returns [ErrClaimed].
	Claim(client string) error

	// Connect opens a connection, subscribes to every filter of o and returns when the broker has
	// granted them all, except those in o.Optional, or when ctx ends. It returns a
	// [*PermanentError] for a failure that a retry will not fix. The end of ctx does not close the
	// connection: the caller does.
	Connect(ctx context.Context, o ConnectOptions) (Conn, error)
}

// ConnectOptions configures a connection: its subscriptions and its callbacks.
type ConnectOptions struct {
	// Filters are the topic filters to subscribe to, in MQTT's syntax (`+` one level, `#` the
	// rest). With the prefix `$share/<group>/` each message goes to one member of the group.
	Filters []string
	// Optional are filters that the connection can do without. Before Connect returns, Denied is
	// called for each of them that the broker refuses. Denied must not be nil if there are optional
	// filters.
	Optional []string
	Denied   func(filter string, err error)
	// Binary selects the binary content mode, if the transport has two: CloudEvents attributes are
	// sent next to the payload instead of around it. Both modes are always read.
	Binary bool
	// Receive handles one message. It is called one at a time, in order of arrival; the message is
	// acknowledged to the broker after it returns. Required.
	Receive func(Message)
	// Commit, if it is not nil, durably stores all messages that Receive has handled, before they
	// are acknowledged. If Commit fails, the messages are not acknowledged, and the connection ends
	// with its error. ctx ends with the connection.
	Commit func(ctx context.Context) error
	// Refuse is called for a message that is not a CloudEvent, with its topic and the reason. The
	// message is acknowledged all the same, since another delivery would not help. Refuse is also
	// called with an [*OverrunError]. Required.
	Refuse func(topic string, err error)
}

// Conn is one connection to the broker. It ends once; the client then opens another.
type Conn interface {
	// Publish writes a message to the broker and returns; many messages may be in flight. If the
	// broker's window is full, it waits for room, or for ctx. If it returns nil, done is called
	// exactly once, from any goroutine and possibly before Publish returns. done must not block. Its
	// argument is nil when the broker has acknowledged the message, [ErrConnectionLost] when the
	// connection ended first, and otherwise the broker's reason to refuse the message: a
	// [*TooLargeError], a [*TemporaryError], or any other error. Close returns after all calls with
	// ErrConnectionLost. After any other error, the client publishes the message again on the next
	// connection.
	//
	// If it returns an error, done is not called. The error is ctx's if ctx has ended, and wraps
	// [ErrConnectionLost] if the connection has. Any other error concerns this message alone, such
	// as a [*TooLargeError] or an invalid topic, and the connection stays usable. The client then
	// drops the message and continues with the next.
	Publish(ctx context.Context, m Message, done func(error)) error

	// MaxPacketSize returns the largest message that the broker accepts, in bytes, including topic
	// and attributes; 0 means no limit.
	MaxPacketSize() int

	// Done returns a channel that is closed when the connection has ended, for any reason.
	Done() <-chan struct{}

	// Err returns the reason for the end of the connection. It is nil before Done is closed and
	// after Close.
	Err() error

	// Close ends the connection in an orderly way, drops unacknowledged messages and returns when
	// its goroutines have ended. It may be called more than once, but not from within Receive.
	Close() error
}

// ErrClaimed is returned by [Transport.Claim] when the transport already serves a client.
var ErrClaimed = errors.New("the transport already serves a source or an agent: make one transport for each")

// ErrStarted is returned by a second call of a source's or an agent's Start.
var ErrStarted = errors.New("already started: a source or an agent is started once")

// ErrConnectionLost is the argument of done, in [Conn].Publish, for messages that were not
// acknowledged when their connection ended.
var ErrConnectionLost = errors.New("connection lost before the broker acknowledged the message")

// PermanentError wraps a failure to connect that another attempt with the same options will not
// fix, such as a missing certificate file. The client reports it and keeps trying with its longest
// delay, 10 s, since files can be corrected while it runs.
type PermanentError struct {
	// Err is the cause.
	Err error
}

// Error returns the text of the cause.
func (e *PermanentError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PermanentError) Unwrap() error { return e.Err }

// TemporaryError wraps a broker's temporary refusal of a message, such as for an exceeded quota.
// The client publishes the message again on the same connection, with delays that grow from 100 ms
// to 10 s.
type TemporaryError struct {
	// Err is the broker's reason.
	Err error
}

// Error returns the text of the reason.
func (e *TemporaryError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *TemporaryError) Unwrap() error { return e.Err }

// TooLargeError reports a message that exceeds the broker's packet limit.
type TooLargeError struct {
	// Topic is the topic of the message.
	Topic string
	// Size is the size of the packet in bytes, Limit the broker's limit.
	Size, Limit int
}

// Error returns a message with the topic, the size and the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("message of %d bytes on topic %q is over the broker's packet limit of %d bytes",
		e.Size, e.Topic, e.Limit)
}

// OverrunError is passed to Refuse for messages that a transport dropped because they arrived
// faster than Receive handled them. A transport may drop messages of QoS 0 only.
type OverrunError struct {
	// Messages is the number of dropped messages.
	Messages int
}

// Error returns a message with the number of messages.
func (e *OverrunError) Error() string {
	return fmt.Sprintf("%d messages of QoS 0 were dropped: the receiver is behind", e.Messages)
}
