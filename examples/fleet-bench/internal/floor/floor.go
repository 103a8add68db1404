// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package floor measures a broker with a plain MQTT client: messages of the same sizes make round
// trips, without events, caches and informers.
package floor

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"github.com/google/uuid"

	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/measure"
)

const (
	echoes     = 4
	publishers = 16
	backSize   = 700 // bytes
	perEcho    = 512 // limit of messages that wait for the echo
)

// Options configures [Run].
type Options struct {
	// Broker is the broker's URL. Only mqtt:// is supported. See [Check].
	Broker string
	// Trips is the number of messages, Size their size in bytes, and UnderWay the limit of
	// concurrent round trips.
	Trips, Size, UnderWay int
}

// Check returns an error if the floor cannot be measured over a broker.
func Check(broker string) error {
	if u, err := url.Parse(broker); err != nil || u.Scheme != "mqtt" {
		return fmt.Errorf("the floor is measured over mqtt:// only, not %s", broker)
	}
	return nil
}

// echo is one run.
type echo struct {
	options Options
	prefix  string
	began   []atomic.Int64
	latency *measure.Histogram
	series  *measure.Series
	ahead   chan struct{}
	back    chan struct{} // closed after the last round trip
	left    atomic.Int64
	clients []*paho.Client
	errs    chan error
}

// Run sends all messages and waits for the end of their round trips.
func Run(ctx context.Context, o Options) (*measure.Histogram, *measure.Series, time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e := &echo{
		options: o, prefix: "fleet-bench-" + uuid.NewString(), began: make([]atomic.Int64, o.Trips),
		latency: &measure.Histogram{}, series: measure.NewSeries(), ahead: make(chan struct{}, o.UnderWay),
		back: make(chan struct{}), errs: make(chan error, 1),
	}
	e.left.Store(int64(o.Trips))
	var running sync.WaitGroup
	defer running.Wait()
	defer func() {
		cancel()
		for _, c := range e.clients {
			_ = c.Disconnect(&paho.Disconnect{})
		}
	}()
	for i := range echoes {
		if err := e.startEcho(ctx, i, &running); err != nil {
			return nil, nil, 0, err
		}
	}
	hub, err := e.dial(ctx, e.prefix+"/back", e.returned)
	if err != nil {
		return nil, nil, 0, err
	}
	begin := time.Now()
	jobs := make(chan int)
	for range publishers {
		running.Go(func() { e.publish(ctx, hub, jobs) })
	}
	running.Go(func() { e.feed(ctx, jobs) })
	select {
	case <-e.back:
		return e.latency, e.series, time.Since(begin), nil
	case err := <-e.errs:
		return nil, nil, 0, err
	case <-ctx.Done():
		return nil, nil, 0, context.Cause(ctx)
	}
}

func (e *echo) fail(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	select {
	case e.errs <- fmt.Errorf("floor: %w", err):
	default:
	}
}

func (e *echo) dial(ctx context.Context, filter string, receive func(*paho.Publish)) (*paho.Client, error) {
	u, err := url.Parse(e.options.Broker)
	if err != nil {
		return nil, err
	}
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), "1883")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	client := paho.NewClient(paho.ClientConfig{
		Conn: packets.NewThreadSafeConn(conn),
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			receive(p.Packet)
			return true, nil
		}},
		OnClientError: func(err error) { e.fail(ctx, err) },
		OnServerDisconnect: func(d *paho.Disconnect) {
			e.fail(ctx, fmt.Errorf("the broker ended the connection: reason %d", d.ReasonCode))
		},
	})
	connect := &paho.Connect{ClientID: uuid.NewString(), CleanStart: true, KeepAlive: 30}
	if _, err := client.Connect(ctx, connect); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("floor: %w", err)
	}
	e.clients = append(e.clients, client)
	subscribe := &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}}
	if _, err := client.Subscribe(ctx, subscribe); err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	return client, nil
}

// startEcho starts a client that answers each message with a message of backSize bytes. It begins
// with the same eight bytes.
func (e *echo) startEcho(ctx context.Context, i int, running *sync.WaitGroup) error {
	received := make(chan []byte, perEcho)
	client, err := e.dial(ctx, fmt.Sprintf("%s/out/%d", e.prefix, i), func(p *paho.Publish) {
		select {
		case received <- p.Payload[:8]:
		case <-ctx.Done():
		}
	})
	if err != nil {
		return err
	}
	for range publishers / echoes {
		running.Go(func() {
			for {
				select {
				case index := <-received:
					back := append(bytes.Clone(index), make([]byte, backSize-8)...)
					_, err := client.Publish(ctx, &paho.Publish{QoS: 1, Topic: e.prefix + "/back", Payload: back})
					e.fail(ctx, err)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return nil
}

func (e *echo) returned(p *paho.Publish) {
	i := binary.BigEndian.Uint64(p.Payload)
	e.latency.Add(time.Duration(time.Now().UnixNano() - e.began[i].Load()))
	e.series.Add()
	<-e.ahead
	if e.left.Add(-1) == 0 {
		close(e.back)
	}
}

func (e *echo) feed(ctx context.Context, jobs chan<- int) {
	defer close(jobs)
	for i := range e.options.Trips {
		select {
		case e.ahead <- struct{}{}:
		case <-ctx.Done():
			return
		}
		select {
		case jobs <- i:
		case <-ctx.Done():
			return
		}
	}
}

func (e *echo) publish(ctx context.Context, hub *paho.Client, jobs <-chan int) {
	for i := range jobs {
		out := make([]byte, max(e.options.Size, 8))
		binary.BigEndian.PutUint64(out, uint64(i))
		e.began[i].Store(time.Now().UnixNano())
		topic := fmt.Sprintf("%s/out/%d", e.prefix, i%echoes)
		_, err := hub.Publish(ctx, &paho.Publish{QoS: 1, Topic: topic, Payload: out})
		e.fail(ctx, err)
	}
}
