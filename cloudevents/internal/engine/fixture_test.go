// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeTransport is a broker that a test controls. Unless held, it acknowledges immediately.
type fakeTransport struct {
	mu       sync.Mutex
	claimed  bool
	refuse   error  // of Connect
	early    func() // called by Connect before it returns, like an early event
	attempts []time.Time
	conn     *fakeConn
	hold     bool
	reject   map[string]error // by topic: the error that Publish returns
	fatal    map[string]bool  // by topic: whether Publish ends the connection
	nack     map[string]error // by topic: the argument of done
	sent     []string         // topics, over all connections
}

func (f *fakeTransport) Claim(string) error {
	if f.claimed {
		return cloudevents.ErrClaimed
	}
	f.claimed = true
	return nil
}

func (f *fakeTransport) Connect(_ context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attempts = append(f.attempts, time.Now())
	if f.early != nil {
		f.early()
	}
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.conn = &fakeConn{transport: f, options: o, done: make(chan struct{})}
	return f.conn, nil
}

func (f *fakeTransport) setRefuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = err
}

// setNack makes the broker refuse messages on a topic; nil makes it accept them again.
func (f *fakeTransport) setNack(topic string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nack == nil {
		f.nack = map[string]error{}
	}
	f.nack[topic] = err
}

func (f *fakeTransport) topics() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.sent...)
}

func (f *fakeTransport) attempted() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Time{}, f.attempts...)
}

func (f *fakeTransport) setHold(hold bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hold = hold
}

// current returns the open connection.
func (f *fakeTransport) current() *fakeConn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conn
}

type fakeConn struct {
	transport *fakeTransport
	options   cloudevents.ConnectOptions
	done      chan struct{}
	once      sync.Once
	err       error
	held      []func(error)
}

func (c *fakeConn) Publish(ctx context.Context, m cloudevents.Message, done func(error)) error {
	f := c.transport
	f.mu.Lock()
	if ctx.Err() != nil {
		f.mu.Unlock()
		return ctx.Err()
	}
	if err := f.reject[m.Topic]; err != nil {
		f.mu.Unlock()
		return err
	}
	if f.fatal[m.Topic] {
		f.mu.Unlock()
		c.cut(errTest)
		return cloudevents.ErrConnectionLost
	}
	f.sent = append(f.sent, m.Topic)
	if f.hold {
		c.held = append(c.held, done)
		f.mu.Unlock()
		return nil
	}
	err := f.nack[m.Topic]
	f.mu.Unlock()
	done(err)
	return nil
}

func (c *fakeConn) MaxPacketSize() int    { return 1000 }
func (c *fakeConn) Done() <-chan struct{} { return c.done }
func (c *fakeConn) Err() error            { return c.err }

func (c *fakeConn) Close() error {
	c.cut(nil)
	c.settleHeld(cloudevents.ErrConnectionLost)
	return nil
}

// cut ends the connection.
func (c *fakeConn) cut(err error) {
	c.once.Do(func() {
		c.err = err
		close(c.done)
	})
}

// settleHeld calls done for all unacknowledged messages.
func (c *fakeConn) settleHeld(err error) {
	for _, done := range c.takeHeld() {
		done(err)
	}
}

// takeHeld removes and returns the done functions of unacknowledged messages, in order.
func (c *fakeConn) takeHeld() []func(error) {
	f := c.transport
	f.mu.Lock()
	defer f.mu.Unlock()
	held := c.held
	c.held = nil
	return held
}

// note is an item that records its results.
type note struct {
	topic string
	size  int   // of the event's data
	err   error // returned by Message
	empty bool
	then  func() // called by Settled

	mu      sync.Mutex
	settled []error
}

func (n *note) Message() (cloudevents.Message, error) {
	if n.err != nil || n.empty {
		return cloudevents.Message{}, n.err
	}
	e := ce.New()
	e.DataEncoded = make([]byte, n.size)
	return cloudevents.Message{Topic: n.topic, Event: &e}, nil
}

func (n *note) Settled(err error) {
	n.mu.Lock()
	n.settled = append(n.settled, err)
	n.mu.Unlock()
	if n.then != nil {
		n.then()
	}
}

func (n *note) ends() []error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]error{}, n.settled...)
}

// handler counts connections, and enqueues requests when connected.
type handler struct {
	engine       *engine.Engine
	requests     []engine.Item
	connected    int
	disconnected int
}

func (h *handler) Connected(context.Context) {
	h.connected++
	for _, it := range h.requests {
		h.engine.Enqueue(engine.LaneControl, it)
	}
}
func (h *handler) Disconnected()                  { h.disconnected++ }
func (h *handler) Received(m cloudevents.Message) {}
func (h *handler) Refused(string, error)          {}

// rig is an engine on a fake transport, in a synctest bubble that ends only after all of its
// goroutines.
type rig struct {
	t         *testing.T
	transport *fakeTransport
	handler   *handler
	engine    *engine.Engine
	log       lines
	stop      context.CancelFunc
	done      chan error
}

// options returns the least options of an engine.
func options(name string) engine.Options {
	return engine.Options{Name: name, Kind: "client", Filters: []string{"/f"}, Handler: &handler{},
		Clock: clock.RealClock{}}
}

func withRig(t *testing.T, o engine.Options, script func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, transport: &fakeTransport{}, handler: &handler{}, done: make(chan error, 1)}
		o.Name, o.Kind, o.Filters, o.Handler, o.Clock = "client", "client", []string{"/filter"}, r.handler, clock.RealClock{}
		o.DrainTimeout = cmp.Or(o.DrainTimeout, 2*time.Second)
		e, err := engine.New(r.transport, o)
		if err != nil {
			t.Fatal(err)
		}
		r.engine, r.handler.engine = e, e
		script(r)
		r.end()
	})
}

// lines is a log that is safe for concurrent reads and writes.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start runs the engine until the script ends.
func (r *rig) start() {
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&r.log), textlogger.Verbosity(10)))
	ctx, cancel := context.WithCancel(klog.NewContext(r.t.Context(), logger))
	r.stop = cancel
	go func() { r.done <- r.engine.Start(ctx) }()
	synctest.Wait()
}

// end stops the engine; Start must return nil.
func (r *rig) end() {
	r.t.Helper()
	r.stop()
	if err := <-r.done; err != nil {
		r.t.Errorf("Start returned %v", err)
	}
	r.done <- nil
}

var errTest = errors.New("test")

func expectTopics(t *testing.T, f *fakeTransport, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := gocmp.Diff(want, f.topics(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("published topics (-want +got):\n%s", diff)
	}
}

func expectEnds(t *testing.T, n *note, want ...error) {
	t.Helper()
	synctest.Wait()
	if diff := gocmp.Diff(want, n.ends(), cmpopts.EquateErrors(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s settled with (-want +got):\n%s", n.topic, diff)
	}
}
