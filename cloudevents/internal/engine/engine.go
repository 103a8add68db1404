// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/internal/quietlog"
	"github.com/spokewire/sdk-go/internal/wait"
)

// Handler is the protocol that an [Engine] runs: that of a source or an agent. The engine calls its
// methods one at a time for each connection, never after the connection's Disconnected.
type Handler interface {
	// Connected is called when the broker has granted all subscriptions. Requests that it puts into
	// [LaneControl] are sent before any other item.
	Connected(ctx context.Context)
	// Disconnected is called when the connection has ended.
	Disconnected()
	// Received handles an event. The event is acknowledged to the broker after Received, and after
	// it [Options].Commit, have returned, so by then its content must be in a store. The first
	// events may arrive before Connected.
	Received(m cloudevents.Message)
	// Refused is called for a message that is not a CloudEvent.
	Refused(topic string, err error)
}

// Options configures an [Engine]. Packages that make one validate their own options first.
type Options struct {
	// Name is the client's name for the transport and the log: a source or agent ID.
	Name string
	// Kind is the value of the label kind of the metrics.
	Kind string
	// Filters are the topic filters to subscribe to.
	Filters []string
	// Optional, Denied, Binary and Commit are as in [cloudevents.ConnectOptions].
	Optional []string
	Denied   func(filter string, err error)
	Binary   bool
	Commit   func(ctx context.Context) error
	// Handler is the protocol to serve.
	Handler Handler
	// QPS limits published events per second, Burst how many may be sent at once. QPS 0 means no
	// limit; Burst defaults to QPS, rounded up.
	QPS   float32
	Burst int
	// DrainTimeout bounds how long Start keeps publishing items of [LaneLive] after its context has
	// ended. 0 or less disables it.
	DrainTimeout time.Duration
	// MetricsRegisterer registers the engine's metrics until Start has returned. Their label client
	// is the Name. Nil disables metrics.
	MetricsRegisterer prometheus.Registerer
	// Clock is required.
	Clock clock.WithTicker
}

// limiter returns nil without a limit.
func (o *Options) limiter() *rate.Limiter {
	if o.QPS <= 0 {
		return nil
	}
	burst := o.Burst
	if burst <= 0 {
		burst = int(min(math.Ceil(float64(o.QPS)), math.MaxInt32))
	}
	return rate.NewLimiter(rate.Limit(o.QPS), burst)
}

type state int

const (
	stateNew state = iota
	stateConnecting
	stateConnected
	stateStopped
)

// Engine keeps one client connected over a [cloudevents.Transport]. All methods may be called from
// any goroutine.
type Engine struct {
	transport cloudevents.Transport
	options   Options
	outbox    *outbox
	limiter   *rate.Limiter
	metrics   *metrics // nil without a registerer
	unsent    *quietlog.Log
	ready     chan struct{}
	readyOnce sync.Once

	mu        sync.Mutex // locked alone, as the outbox's; callbacks are called without either
	state     state
	since     time.Time // of the last change of state
	maxPacket int
	lastErr   error
	refused   error     // why the broker refuses a Requirement of this connection
	down      bool      // a lost or failed connection was logged
	lost      time.Time // when a lost connection was last logged
}

// New claims the transport and returns an engine that is not started. It returns
// [cloudevents.ErrClaimed] if the transport already serves another client. It returns an error if
// the registerer has metrics of another client with this kind and name.
func New(t cloudevents.Transport, o Options) (*Engine, error) {
	e := &Engine{
		transport: t,
		options:   o,
		outbox:    newOutbox(o.Clock),
		limiter:   o.limiter(),
		unsent:    quietlog.New("Failed to publish an event", "topic", o.Clock),
		ready:     make(chan struct{}),
		since:     o.Clock.Now(),
	}
	if err := e.measure(); err != nil {
		return nil, err
	}
	if err := t.Claim(o.Name); err != nil {
		e.metrics.unregister()
		return nil, err
	}
	return e, nil
}

// Enqueue puts an item into a lane. It does not block and works at any time, also before Start.
func (e *Engine) Enqueue(lane Lane, it Item) { e.outbox.add(lane, it) }

// Admits reports whether an item of [LaneLive] may be added within a limit: it is in the outbox
// already, or fewer than limit items are unacknowledged. Items that the broker refuses do not
// count, so that forbidden items never keep out allowed ones.
func (e *Engine) Admits(it Item, limit int) bool { return e.outbox.admits(it, limit) }

// Pending returns how many items of [LaneLive] the broker has not acknowledged, including those that
// it refuses.
func (e *Engine) Pending() int { return e.outbox.pending() }

// Ready returns a channel that is closed when the engine is ready for the first time: it is
// connected and subscribed, and the broker has answered the requests of [Handler.Connected]. The
// broker must have accepted each [Requirement] among them.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Refused returns the broker's reason to refuse a [Requirement] of the current connection: the
// engine is connected, but receives nothing. Otherwise it returns nil.
func (e *Engine) Refused() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refused == nil {
		return nil
	}
	return fmt.Errorf("%s: connected, but the broker refuses the first request: %w", e.options.Name, e.refused)
}

func (e *Engine) setRefused(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refused = err
}

// Connected reports whether the engine is connected.
func (e *Engine) Connected() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state == stateConnected
}

// MaxPacketSize returns the broker's limit of a message in bytes, as last announced; 0 means that
// no limit is known.
func (e *Engine) MaxPacketSize() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.maxPacket
}

// Healthy returns nil while connected. Otherwise the error contains the reason and since when.
func (e *Engine) Healthy() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == stateConnected {
		return nil
	}
	since := e.since.UTC().Format(time.RFC3339)
	switch {
	case e.state == stateNew:
		return fmt.Errorf("%s: not started", e.options.Name)
	case e.state == stateStopped:
		return fmt.Errorf("%s: stopped since %s", e.options.Name, since)
	case e.lastErr == nil:
		return disconnected{fmt.Errorf("%s: connecting since %s", e.options.Name, since)}
	}
	return disconnected{fmt.Errorf("%s: not connected since %s: %w", e.options.Name, since, e.lastErr)}
}

// disconnected is an error of Healthy between Start and its end.
type disconnected struct{ error }

// Unwrap is for [errors.Is].
func (d disconnected) Unwrap() error { return d.error }

// IsDisconnected reports whether err is the error of Healthy of a running engine without a
// connection. If err joins errors, all of them must be.
func IsDisconnected(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // errors.As would find one of several
		return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !IsDisconnected(err) })
	}
	_, ok := err.(disconnected) //nolint:errorlint // a wrapped one is part of another error
	return ok
}

// Start connects and serves until ctx ends. It then flushes the outbox for at most DrainTimeout,
// closes the connection and returns nil when every goroutine has ended. An unreachable broker is no
// error: Healthy reports it, and Start keeps trying, with delays that grow from 100 ms to 10 s.
func (e *Engine) Start(ctx context.Context) error {
	e.mu.Lock()
	if e.state != stateNew {
		e.mu.Unlock()
		return cloudevents.ErrStarted
	}
	e.setStateLocked(stateConnecting)
	e.mu.Unlock()

	delay := newBackoff()
	for ctx.Err() == nil {
		e.outbox.connecting() // items for the first events may arrive before Connect returns
		conn, err := e.connect(ctx)
		if err == nil {
			began := e.options.Clock.Now()
			e.serve(ctx, conn)
			if e.options.Clock.Since(began) >= stableAfter {
				delay = newBackoff()
			}
		} else {
			e.outbox.disconnected()
			e.failed(ctx, err)
		}
		pause := delay()
		if _, permanent := errors.AsType[*cloudevents.PermanentError](err); permanent {
			pause = slowest()
		}
		_ = wait.Sleep(ctx, e.options.Clock, pause)
	}
	e.unsent.Flush(e.logger(ctx))
	if n := e.Pending(); n > 0 {
		e.logger(ctx).Info("Stopped with unpublished events", "events", n)
	}
	e.metrics.unregister()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setStateLocked(stateStopped)
	return nil
}

func (e *Engine) connect(ctx context.Context) (cloudevents.Conn, error) {
	return e.transport.Connect(ctx, cloudevents.ConnectOptions{
		Filters: e.options.Filters, Optional: e.options.Optional, Denied: e.options.Denied,
		Binary: e.options.Binary, Commit: e.options.Commit,
		Receive: e.options.Handler.Received, Refuse: e.options.Handler.Refused,
	})
}

func (e *Engine) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	e.metrics.connectFailed(err)
	e.mu.Lock()
	log := e.lastErr == nil || wording(e.lastErr) != wording(err)
	e.lastErr = err
	e.down = e.down || log
	e.mu.Unlock()
	if log {
		e.logger(ctx).Error(err, "Failed to connect to the broker, trying again")
	}
}

// wording returns the text of an error without the local port, which differs for each attempt.
func wording(err error) string {
	var network *net.OpError
	if !errors.As(err, &network) || network.Source == nil {
		return err.Error()
	}
	return strings.Replace(err.Error(), network.Source.String(), "", 1)
}

// logConnected logs a connection: with level Info if the log has reported that there was none.
func (e *Engine) logConnected(ctx context.Context) {
	e.mu.Lock()
	again := e.down
	e.down = false
	e.mu.Unlock()
	if again {
		e.logger(ctx).Info("Connected to the broker again")
		return
	}
	e.logger(ctx).V(2).Info("Connected to the broker")
}

// logLost logs the end of a connection, once a minute at most: a client that the broker disconnects
// right after each connection would fill the log.
func (e *Engine) logLost(ctx context.Context, err error) {
	e.mu.Lock()
	now := e.options.Clock.Now()
	log := e.lost.IsZero() || now.Sub(e.lost) >= quietlog.Interval
	if log {
		e.down, e.lost = true, now
	}
	e.mu.Unlock()
	if log {
		e.logger(ctx).Info("Lost the connection to the broker, connecting again", "reason", err)
	}
}

// setStateLocked changes the state, and clears the errors of the previous one.
func (e *Engine) setStateLocked(s state) {
	e.state, e.since = s, e.options.Clock.Now()
	e.lastErr, e.refused = nil, nil
}

func (e *Engine) setConnected(maxPacket int) {
	e.metrics.connected()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setStateLocked(stateConnected)
	e.maxPacket = maxPacket
}

func (e *Engine) setDisconnected(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setStateLocked(stateConnecting)
	e.lastErr = err
}
