// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/packets"

	"github.com/spokewire/sdk-go/codec"
)

// relay forwards the connections of a client to the broker, one after the other. It records the
// messages that the client has acknowledged and published.
type relay struct {
	t        *testing.T
	broker   string
	listener net.Listener
	group    sync.WaitGroup

	mu        sync.Mutex
	conns     map[net.Conn]struct{}
	delivered map[uint16]*packets.Publish // to the current client, by packet ID
	acked     []codec.Message
	published []codec.Message
}

func newRelay(s *scene) *relay {
	s.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	r := &relay{t: s.t, broker: s.broker.Addr(), listener: listener, conns: map[net.Conn]struct{}{}}
	r.group.Go(r.accept)
	s.t.Cleanup(func() {
		_ = listener.Close()
		r.mu.Lock()
		for conn := range r.conns {
			_ = conn.Close()
		}
		r.mu.Unlock()
		r.group.Wait()
	})
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		broker, err := net.Dial("tcp", r.broker)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		r.conns[client], r.conns[broker] = struct{}{}, struct{}{}
		r.delivered = map[uint16]*packets.Publish{}
		r.mu.Unlock()
		r.group.Go(func() { r.forward(client, broker, r.fromBroker, broker) })
		r.group.Go(func() { r.forward(broker, client, r.fromClient, client) })
	}
}

// forward forwards packets until either side ends. It also processes the last packets of a sender
// that has ended.
func (r *relay) forward(to, from net.Conn, look func(*packets.ControlPacket), owned net.Conn) {
	defer func() {
		_ = to.Close()
		r.mu.Lock()
		delete(r.conns, owned)
		r.mu.Unlock()
	}()
	for alive := true; ; {
		p, err := packets.ReadPacket(from)
		if err != nil {
			return
		}
		look(p)
		if alive {
			_, err = p.WriteTo(to)
			alive = err == nil
		}
	}
}

func (r *relay) fromBroker(p *packets.ControlPacket) {
	if m, ok := p.Content.(*packets.Publish); ok && m.QoS > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.delivered[m.PacketID] = m
	}
}

func (r *relay) fromClient(p *packets.ControlPacket) {
	switch m := p.Content.(type) {
	case *packets.Publish:
		r.note(&r.published, m)
	case *packets.Puback:
		r.mu.Lock()
		delivered := r.delivered[m.PacketID]
		delete(r.delivered, m.PacketID)
		r.mu.Unlock()
		if delivered != nil {
			r.note(&r.acked, delivered)
		}
	}
}

func (r *relay) note(list *[]codec.Message, p *packets.Publish) {
	event, err := codec.ParseStructured(p.Payload)
	if err != nil {
		r.t.Errorf("on the wire: %s: %v", p.Topic, err)
		return
	}
	m, err := codec.ManifestWork.Decode(p.Topic, event)
	if err != nil {
		r.t.Errorf("on the wire: %s: %v", p.Topic, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, m)
}

// seen returns the number of messages about works that the client has acknowledged or published.
func (r *relay) seen() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.acked) + len(r.published)
}

// reported reports whether the client has published a status with conditions.
func (r *relay) reported() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.published, func(m codec.Message) bool {
		status, ok := m.(*codec.Status)
		return ok && status.Status != nil && len(status.Status.Conditions) > 0
	})
}

// ended waits until a killed client has no connection. It returns the messages that the client had
// acknowledged and published.
func (r *relay) ended() (acked, published []codec.Message) {
	r.t.Helper()
	eventually(r.t, "the end of a killed client's connection", func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		return unless(len(r.conns) == 0, "open")
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acked, r.published
}
