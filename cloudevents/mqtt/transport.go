// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/internal/admission"
	"github.com/spokewire/sdk-go/internal/tlsfiles"
)

// Transport connects one source or agent to a broker. Its methods may be called from any goroutine.
type Transport struct {
	settings settings

	mu       sync.Mutex
	claimed  bool
	clientID string // for the broker; empty until it is known
}

var _ cloudevents.Transport = (*Transport)(nil)

// New returns a transport. It validates the options and starts nothing; files are read when a
// connection is opened. Errors contain the field and a solution.
func New(o Options) (*Transport, error) {
	s, err := o.settings()
	if err != nil {
		return nil, tlsfiles.OptionNames(o.OptionNames).Invalid("MQTT options", err)
	}
	return &Transport{settings: s, clientID: s.clientID}, nil
}

// CheckFiles reads the files of the options once. A program that calls it at its start reports wrong
// files before the first connection, which reads them again.
func (t *Transport) CheckFiles() error {
	_, err := t.settings.password()
	if err == nil && t.settings.tls != nil {
		_, err = t.settings.tls()
	}
	return t.settings.names.Error(err)
}

// String returns the name of the broker, without secrets.
func (t *Transport) String() string { return "MQTT transport to " + t.settings.endpoint.String() }

// Claim reserves the transport. Without Options.ClientID, client and a random suffix become the
// client ID. A second call returns [cloudevents.ErrClaimed].
func (t *Transport) Claim(client string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.claimed {
		return cloudevents.ErrClaimed
	}
	t.claimed = true
	t.identityLocked(client)
	return nil
}

// identity returns the client ID, also for a transport that was not claimed.
func (t *Transport) identity() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.identityLocked("client")
}

// identityLocked returns the client ID. Its random suffix distinguishes clients with the same name,
// such as an old and a new instance in a rollout.
func (t *Transport) identityLocked(name string) string {
	if t.clientID == "" {
		var random [6]byte
		_, _ = rand.Read(random[:]) // never fails
		t.clientID = fmt.Sprintf("%s-%x", name, random)
	}
	return t.clientID
}

// Connect implements [cloudevents.Transport]. Receive may be called before Connect returns.
//
// It returns a [*cloudevents.PermanentError] for an unreadable file, a certificate that is not
// accepted, a malformed filter, and a refusal that would be repeated. Invalid content of a file is
// no PermanentError: the file may be in the middle of a replacement. Refusals of the broker wrap a
// [*ReasonError]. The error after Options.ConnectTimeout wraps [context.DeadlineExceeded].
func (t *Transport) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	s := &t.settings
	waitingFor := "other clients of this process to connect"
	fail := func(err error) (cloudevents.Conn, error) {
		return nil, s.names.Error(s.connectError(ctx, waitingFor, err))
	}
	for _, filter := range slices.Concat(o.Filters, o.Optional) {
		if err := checkFilter(filter); err != nil {
			return fail(&cloudevents.PermanentError{Err: err})
		}
	}
	leave, err := admission.Enter(ctx, s.endpoint.addr)
	if err != nil {
		return fail(err)
	}
	defer leave()
	timed, cancel := context.WithTimeout(ctx, s.connectTimeout)
	defer cancel()
	request, err := s.connectRequest(t.identity())
	if err != nil {
		return fail(fileError(err))
	}
	w, err := s.dial(timed, greeting(request), func(step string) { waitingFor = step })
	if err != nil {
		return fail(err)
	}
	c := s.newConn(w, o)
	waitingFor = "the broker to accept the connection (CONNACK)"
	if err := c.open(timed, request); err != nil {
		_ = w.Close()
		return fail(err)
	}
	waitingFor = "the broker to grant the subscriptions (SUBACK)"
	if err := c.subscribe(timed, &o); err != nil {
		if errors.Is(err, paho.ErrConnectionLost) || w.broken() != nil {
			<-c.Done() // soon: paho is shutting down
			err = errors.Unwrap(context.Cause(c.life))
		}
		_ = c.Close()
		return fail(err)
	}
	c.goroutines.Go(func() {
		if err := c.receiver.run(c.life); err != nil {
			c.end(err)
		}
	})
	return c, nil
}

func (s *settings) connectError(ctx context.Context, waitingFor string, err error) error {
	var permanent *cloudevents.PermanentError
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("gave up waiting for %s: %w", waitingFor, ctx.Err())
	case errors.As(err, &permanent):
		return &cloudevents.PermanentError{Err: fmt.Errorf("connect to %s: %w", s.endpoint, permanent.Err)}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded): // a socket may end first
		err = fmt.Errorf("waited %v for %s: %w", s.connectTimeout, waitingFor, context.DeadlineExceeded)
	}
	return fmt.Errorf("connect to %s: %w", s.endpoint, err)
}

// connectRequest makes the CONNECT packet. It reads the password file.
func (s *settings) connectRequest(clientID string) (*paho.Connect, error) {
	reserved, largest := uint16(pahoReserve), uint32(largestPacket)
	request := &paho.Connect{
		ClientID:     clientID,
		CleanStart:   s.sessionExpiry == 0,
		KeepAlive:    s.keepAlive,
		Username:     s.username,
		UsernameFlag: s.username != "",
		Properties: &paho.ConnectProperties{
			ReceiveMaximum: &reserved, MaximumPacketSize: &largest, RequestProblemInfo: true,
		},
	}
	if s.sessionExpiry > 0 {
		request.Properties.SessionExpiryInterval = &s.sessionExpiry
	}
	if s.hasPassword {
		password, err := s.password()
		if err != nil {
			return nil, err
		}
		request.Password, request.PasswordFlag = []byte(password), true
	}
	return request, nil
}

// greeting encodes the CONNECT packet for the broker: request without its Receive Maximum, which is
// then 65,535. Brokers have a lower limit of their own (Mosquitto 20, EMQX 32, NATS 1,024), and mochi
// 2.7.9 loses messages with a Receive Maximum. The request to paho has one, because paho allocates 8
// bytes for each message of it, for a queue that only messages of QoS 0 use here.
func greeting(request *paho.Connect) []byte {
	packet := request.Packet()
	packet.ProtocolName, packet.ProtocolVersion = "MQTT", 5 // as Client.Connect does
	packet.Properties.ReceiveMaximum = nil
	var encoded bytes.Buffer
	_, _ = packet.WriteTo(&encoded) // writing to a buffer never fails
	return encoded.Bytes()
}

func (s *settings) newConn(w *wire, o cloudevents.ConnectOptions) *conn {
	queue := newInbox(w.gone)
	c := &conn{
		endpoint: s.endpoint,
		binary:   s.binary || o.Binary,
		limit:    s.maxPacketSize,
		wire:     w,
		session:  &session{queue: queue},
		receiver: receiver{options: o, inbox: queue, wire: w},
	}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.client = paho.NewClient(paho.ClientConfig{
		Conn:        w,
		Session:     c.session,
		PingHandler: &pinger{wire: w},
		// Only messages of QoS 0 are received here, see session.PacketReceived.
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(r paho.PublishReceived) (bool, error) {
			queue.push(r.Packet.Packet())
			return true, nil
		}},
		OnClientError:      c.lost,
		OnServerDisconnect: func(*paho.Disconnect) { c.lost(nil) },
		// Longer than any context that is passed in, so that the contexts decide.
		PacketTimeout: s.connectTimeout + drainTimeout,
	})
	return c
}

const needQoS1 = "delivery at least once needs QoS 1"

func (c *conn) open(ctx context.Context, request *paho.Connect) error {
	ack, err := c.client.Connect(ctx, request)
	if ack != nil && ack.Properties == nil {
		ack.Properties = &paho.ConnackProperties{}
	}
	if ack != nil && ack.ReasonCode >= 0x80 {
		reason := &ReasonError{Packet: "CONNACK", Code: ack.ReasonCode, Reason: ack.Properties.ReasonString}
		return refusal(reason, reason)
	}
	if err != nil {
		broken := c.wire.broken()
		if broken == nil || ctx.Err() != nil {
			return err
		}
		if advised := adviseTLS(broken); advised != broken { //nolint:errorlint // whether it was wrapped
			return advised
		}
		if c.endpoint.secure() {
			return fmt.Errorf("%w before CONNACK: is it an MQTT v5 broker that accepts the client certificate?", broken)
		}
		return fmt.Errorf("%w before CONNACK: is it an MQTT v5 broker? If this port uses TLS, write mqtts:// in BrokerURL",
			broken)
	}
	if q := ack.Properties.MaximumQoS; q != nil && *q == 0 {
		_ = c.Close()
		return &cloudevents.PermanentError{Err: errors.New("the broker supports only QoS 0: " + needQoS1)}
	}
	if m := ack.Properties.MaximumPacketSize; m != nil {
		c.limit = min(c.limit, int(*m))
	}
	return nil
}

// subscribe subscribes to all filters and returns when the broker has granted all required ones.
func (c *conn) subscribe(ctx context.Context, o *cloudevents.ConnectOptions) error {
	filters := slices.Concat(o.Filters, o.Optional)
	if len(filters) == 0 {
		return nil
	}
	request := &paho.Subscribe{Subscriptions: make([]paho.SubscribeOptions, len(filters))}
	for i, filter := range filters {
		request.Subscriptions[i] = paho.SubscribeOptions{Topic: filter, QoS: 1, RetainHandling: packets.RetainDoNotSend}
	}
	ack, err := c.client.Subscribe(ctx, request)
	if ack == nil {
		if errors.Is(err, paho.ErrInvalidArguments) { // by CONNACK the broker does not support such subscriptions
			err = &cloudevents.PermanentError{Err: err}
		}
		return err
	}
	if len(ack.Reasons) != len(filters) {
		return fmt.Errorf("the broker answered %d filters with %d reason codes", len(filters), len(ack.Reasons))
	}
	for i, filter := range filters {
		err := granted(ack, i, filter)
		if err != nil && i < len(o.Filters) {
			return err
		}
		if err != nil {
			o.Denied(filter, err)
		}
	}
	return nil
}

func granted(ack *paho.Suback, i int, filter string) error {
	switch code := ack.Reasons[i]; {
	case code >= 0x80:
		reason := &ReasonError{Packet: "SUBACK", Code: code}
		if ack.Properties != nil {
			reason.Reason = ack.Properties.ReasonString
		}
		return refusal(reason, fmt.Errorf("topic filter %q: %w", filter, reason))
	case code == 0:
		return &cloudevents.PermanentError{Err: fmt.Errorf("topic filter %q: granted only QoS 0: %s", filter, needQoS1)}
	}
	return nil
}

func refusal(reason *ReasonError, err error) error {
	if reason.permanent() {
		return &cloudevents.PermanentError{Err: err}
	}
	return err
}
