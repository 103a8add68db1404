// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/spokewire/sdk-go/codec"
)

// raw is a plain MQTT client, independent of package work.
type raw struct {
	t      *testing.T
	client *paho.Client
}

// dialRaw connects a client. user may be empty. receive is called with the messages that match
// filters.
func dialRaw(t *testing.T, addr, user string, receive func(*paho.Publish), filters ...string) (*raw, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	client := paho.NewClient(paho.ClientConfig{
		Conn: conn,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(r paho.PublishReceived) (bool, error) {
			receive(r.Packet)
			return true, nil
		}},
	})
	request := &paho.Connect{CleanStart: true, KeepAlive: 60}
	if user != "" {
		request.Username, request.UsernameFlag = user, true
		request.Password, request.PasswordFlag = []byte(user), true
	}
	if _, err := client.Connect(ctx, request); err != nil {
		_ = conn.Close()
		return nil, err
	}
	r := &raw{t: t, client: client}
	if len(filters) == 0 {
		return r, nil
	}
	subscribe := &paho.Subscribe{}
	for _, filter := range filters {
		subscribe.Subscriptions = append(subscribe.Subscriptions, paho.SubscribeOptions{Topic: filter, QoS: 1})
	}
	if _, err := client.Subscribe(ctx, subscribe); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *raw) close() {
	_ = r.client.Disconnect(&paho.Disconnect{})
	<-r.client.Done()
}

// again marks messages that this package has sent again.
const again = "sent-again"

// publish sends a payload and waits until the broker has it. Messages that any client sends
// afterwards follow it. It returns the broker's reason code. It is safe for concurrent use.
func (r *raw) publish(topic string, payload []byte) byte {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	ack, err := r.client.Publish(ctx, &paho.Publish{
		Topic: topic, QoS: 1, Payload: payload,
		Properties: &paho.PublishProperties{
			ContentType: "application/cloudevents+json",
			User:        paho.UserProperties{{Key: again, Value: "true"}},
		},
	})
	switch {
	case r.t.Context().Err() != nil: // the test is over
		return 0
	case ack == nil:
		r.t.Errorf("publish on %s: %v", topic, err)
		return 0xff
	}
	return ack.ReasonCode
}

func encode(t *testing.T, m codec.Message) (topic string, payload []byte) {
	t.Helper()
	topic, event, err := codec.ManifestWork.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	payload, err = codec.AppendStructured(nil, event)
	if err != nil {
		t.Fatal(err)
	}
	return topic, payload
}

// edited returns an event with changed members.
func edited(t *testing.T, payload []byte, set map[string]any) []byte {
	t.Helper()
	var event map[string]any
	if err := json.Unmarshal(payload, &event); err != nil {
		t.Fatal(err)
	}
	maps.Copy(event, set)
	out, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// tap reads all messages on the broker, and reconnects after a restart of the broker.
type tap struct {
	t       *testing.T
	addr    string
	user    string
	mu      sync.Mutex
	heard   []heard
	current *raw
	onHeard func(heard) // called in order of arrival
}

// heard is one message on the wire.
type heard struct {
	topic   string
	payload []byte
	message codec.Message
}

// spec, status, list and hashes return the message if it has that type, otherwise nil.
func (h heard) spec() *codec.Spec           { m, _ := h.message.(*codec.Spec); return m }
func (h heard) status() *codec.Status       { m, _ := h.message.(*codec.Status); return m }
func (h heard) list() *codec.SpecResync     { m, _ := h.message.(*codec.SpecResync); return m }
func (h heard) hashes() *codec.StatusResync { m, _ := h.message.(*codec.StatusResync); return m }

// newTap starts a tap, and returns when it reads.
func newTap(s *scene, onHeard func(heard)) *tap {
	s.t.Helper()
	p := &tap{t: s.t, addr: s.broker.Addr(), user: s.tapUser, onHeard: onHeard}
	client, err := p.dial()
	if err != nil {
		s.t.Fatal(err)
	}
	p.current = client
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.run(ctx, client)
	}()
	s.t.Cleanup(func() {
		cancel()
		<-ended
	})
	return p
}

func (p *tap) dial() (*raw, error) { return dialRaw(p.t, p.addr, p.user, p.receive, "#") }

func (p *tap) run(ctx context.Context, client *raw) {
	for {
		select {
		case <-ctx.Done():
			client.close()
			return
		case <-client.client.Done():
		}
		for {
			next, err := p.dial()
			if err == nil {
				client = next
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
		p.mu.Lock()
		p.current = client
		p.mu.Unlock()
	}
}

// raw returns the tap's own connection.
func (p *tap) raw() *raw {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

func (p *tap) receive(m *paho.Publish) {
	if m.Properties != nil && m.Properties.User.Get(again) != "" {
		return
	}
	h := heard{topic: m.Topic, payload: m.Payload}
	event, err := codec.ParseStructured(m.Payload)
	if err == nil {
		h.message, err = codec.ManifestWork.Decode(m.Topic, event)
	}
	if err != nil {
		p.t.Errorf("on the wire: %s: %v", m.Topic, err)
		return
	}
	p.mu.Lock()
	p.heard = append(p.heard, h)
	p.mu.Unlock()
	if p.onHeard != nil {
		p.onHeard(h)
	}
}

// that returns the messages that f accepts.
func (p *tap) that(f func(heard) bool) []heard {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []heard
	for _, h := range p.heard {
		if f(h) {
			out = append(out, h)
		}
	}
	return out
}

// hears waits until a message that f accepts has arrived.
func (p *tap) hears(what string, f func(heard) bool) heard {
	p.t.Helper()
	var found []heard
	eventually(p.t, "on the wire: "+what, func() string {
		found = p.that(f)
		return unless(len(found) > 0, "not heard")
	})
	return found[0]
}
