// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// patience limits every wait for an expected event. It is long, because other tests may use the
// machine.
const patience = 45 * time.Second

// eventually waits until wrong returns no text.
func eventually(t *testing.T, what string, wrong func() string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		got := wrong()
		if got == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in %v: %s", what, patience, got)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// unless returns wrong if ok is false.
func unless(ok bool, wrong string) string {
	if ok {
		return ""
	}
	return wrong
}

// closed waits for the end of a channel.
func closed(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s: not in %v", what, patience)
	}
}

// scene is a broker and its clients.
type scene struct {
	t       *testing.T
	broker  *mosquitto.Broker
	tapUser string // the user that may read everything; empty if every user may
}

func newScene(t *testing.T, options mosquitto.Options) *scene {
	t.Helper()
	return &scene{t: t, broker: mosquitto.Start(t, options)}
}

// client is the common part of a source and an agent: its own link to the broker, its log, and its
// context.
type client struct {
	t       *testing.T
	proxy   *tcpproxy.Proxy
	log     *logbook
	healthy func() error
	cancel  context.CancelFunc
	done    chan struct{}
}

// process is a source or an agent.
type process interface {
	Start(ctx context.Context) error
	Ready() <-chan struct{}
	Healthy() error
}

// newClient creates a link with a transport for one process.
func (s *scene) newClient(o mqtt.Options) (*client, *mqtt.Transport) {
	s.t.Helper()
	c := &client{t: s.t, proxy: tcpproxy.Start(s.t, s.broker.Addr()), log: &logbook{}}
	if o.BrokerURL == "" {
		o.BrokerURL = "mqtt"
	}
	o.BrokerURL += "://" + c.proxy.Addr()
	transport, err := mqtt.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return c, transport
}

// start runs the process until the end of the test or until stop.
func (c *client) start(p process) {
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(c.log)))
	ctx, cancel := context.WithCancel(klog.NewContext(c.t.Context(), logger))
	c.healthy, c.cancel, c.done = p.Healthy, cancel, make(chan struct{})
	go func() {
		defer close(c.done)
		if err := p.Start(ctx); err != nil {
			c.t.Errorf("Start: %v", err)
		}
	}()
	c.t.Cleanup(c.stop)
}

// stop ends the process gracefully.
func (c *client) stop() {
	c.t.Helper()
	c.cancel()
	closed(c.t, "the end of Start", c.done)
}

// crash ends the process. It sends no further messages.
func (c *client) crash() {
	c.t.Helper()
	c.proxy.Block()
	c.proxy.Cut()
	c.stop()
}

// leave cuts the link, and returns when the process has noticed it.
func (c *client) leave() {
	c.t.Helper()
	c.proxy.Block()
	c.proxy.Cut()
	eventually(c.t, "the loss of the connection", func() string { return unless(c.healthy() != nil, "still connected") })
}

// comeBack restores the link, and returns when the process is connected.
func (c *client) comeBack() {
	c.t.Helper()
	c.proxy.Unblock()
	c.connected()
}

func (c *client) connected() {
	c.t.Helper()
	eventually(c.t, "the connection", func() string {
		if err := c.healthy(); err != nil {
			return err.Error()
		}
		return ""
	})
}

// hub is a source.
type hub struct {
	*client
	*work.Source
	id string
}

// newSource creates a source that is not started.
func (s *scene) newSource(o work.SourceOptions, transport ...mqtt.Options) *hub {
	s.t.Helper()
	if o.SourceID == "" {
		o.SourceID = "hub"
	}
	c, t := s.newClient(first(transport))
	source, err := work.NewSource(t, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return &hub{client: c, Source: source, id: o.SourceID}
}

// source starts a source and waits until it is connected.
func (s *scene) source(o work.SourceOptions, transport ...mqtt.Options) *hub {
	s.t.Helper()
	h := s.newSource(o, transport...)
	h.start(h.Source)
	closed(s.t, "the source's first connection", h.Ready())
	return h
}

// spoke is an agent and, after apply, its work controller.
type spoke struct {
	*client
	*work.Agent
	cluster string
}

// newAgent creates an agent that is not started.
func (s *scene) newAgent(o work.AgentOptions, transport ...mqtt.Options) *spoke {
	s.t.Helper()
	if o.ClusterName == "" {
		o.ClusterName = "cluster1"
	}
	if o.InitialSyncTimeout == 0 && o.Sources == nil {
		o.InitialSyncTimeout = 200 * time.Millisecond // tests of this timeout set it
	}
	c, t := s.newClient(first(transport))
	agent, err := work.NewAgent(t, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return &spoke{client: c, Agent: agent, cluster: o.ClusterName}
}

// agent starts an agent and waits until it is connected.
func (s *scene) agent(o work.AgentOptions, transport ...mqtt.Options) *spoke {
	s.t.Helper()
	a := s.newAgent(o, transport...)
	a.start(a.Agent)
	closed(s.t, "the agent's first connection", a.Ready())
	return a
}

func first[T any](list []T) (one T) {
	if len(list) > 0 {
		one = list[0]
	}
	return one
}

func (h *hub) works(cluster string) worktyped.ManifestWorkInterface {
	return h.Clientset().WorkV1().ManifestWorks(cluster)
}

func (a *spoke) works() worktyped.ManifestWorkInterface {
	return a.Clientset().WorkV1().ManifestWorks(a.cluster)
}

// logbook is the log of one process.
type logbook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			return true
		}
	}
	return false
}

func (l *logbook) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
