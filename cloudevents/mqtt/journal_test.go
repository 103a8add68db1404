// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

// journal collects all output of a client: its log at the highest verbosity, its errors, and its
// printed parts. It is a writer for loggers.
type journal struct {
	mu      sync.Mutex
	text    strings.Builder
	secrets []string
}

// Write implements [io.Writer].
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// print adds values in all ways in which they can be printed.
func (j *journal) print(values ...any) {
	logger := slog.New(slog.NewJSONHandler(j, nil))
	for _, value := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			_, _ = fmt.Fprintf(j, verb+"\n", value)
		}
		logger.Info("value", "value", value)
		if encoded, err := json.Marshal(value); err == nil {
			_, _ = j.Write(append(encoded, '\n'))
		}
	}
}

// secret adds texts that must not be in the journal, in all forms that they may have.
func (j *journal) secret(values ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, value := range values {
		quoted := strings.Trim(fmt.Sprintf("%q", value), `"`)
		j.secrets = append(j.secrets, value, quoted, hex.EncodeToString([]byte(value)),
			base64.StdEncoding.EncodeToString([]byte(value)), strings.Trim(fmt.Sprint([]byte(value)), "[]"))
	}
}

// count returns the number of times that a text is in the journal.
func (j *journal) count(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), text)
}

// verify fails the test if a secret is in the journal.
func (j *journal) verify(t *testing.T) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	text := j.text.String()
	for _, secret := range j.secrets {
		if at := strings.Index(text, secret); at >= 0 {
			t.Errorf("the secret %q was logged or printed: …%s…", secret, text[max(0, at-200):min(len(text), at+len(secret)+20)])
		}
	}
}

// attempts is a transport that reports the results of its attempts to connect.
type attempts struct {
	*mqtt.Transport
	journal *journal
	results chan error
}

func (a *attempts) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	conn, err := a.Transport.Connect(ctx, o)
	a.journal.print(conn, err)
	if ctx.Err() == nil {
		a.results <- err
	}
	return conn, err
}

// next waits for the next attempt to connect and returns its error.
func (a *attempts) next(t *testing.T) error {
	t.Helper()
	select {
	case err := <-a.results:
		return err
	case <-time.After(patience):
		t.Fatalf("no attempt to connect in %v", patience)
		return nil
	}
}

// loop is a client that receives its own events: an engine, a topic, and the received messages.
type loop struct {
	t        *testing.T
	engine   *engine.Engine
	attempts *attempts
	clock    *clocktesting.FakeClock // of the engine's backoff; nil for the real one
	topic    string
	received chan cloudevents.Message
}

// startLoop runs an engine until the end of the test. With a fake clock, retry ends its backoff.
func startLoop(t *testing.T, j *journal, o mqtt.Options, clk clock.WithTicker) *loop {
	t.Helper()
	transport := newTransport(t, o)
	j.print(o, &o, transport, transport.Settings())
	l := &loop{t: t, attempts: &attempts{transport, j, make(chan error, 1000)}, topic: "loop/" + uuid.NewString(),
		received: make(chan cloudevents.Message, 10)}
	l.clock, _ = clk.(*clocktesting.FakeClock)
	e, err := engine.New(l.attempts, engine.Options{
		Name: "loop", Filters: []string{l.topic}, Handler: (*loopHandler)(l), DrainTimeout: -1, Clock: clk,
	})
	if err != nil {
		t.Fatal(err)
	}
	l.engine = e
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(j), textlogger.Verbosity(99)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	done := make(chan error)
	go func() { done <- e.Start(ctx) }()
	t.Cleanup(func() {
		j.print(e.Healthy())
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
		j.print(e, transport) // nothing changes them any more
	})
	return l
}

// retry waits until the backoff has begun, and ends it.
func (l *loop) retry() {
	l.t.Helper()
	waitFor(l.t, "the backoff", l.clock.HasWaiters)
	l.clock.Step(15 * time.Second)
}

// roundTrip sends an event through the broker and waits until it is received.
func (l *loop) roundTrip() {
	l.t.Helper()
	e := sampleEvent()
	e.SetID(uuid.NewString())
	l.engine.Enqueue(engine.LaneLive, &loopItem{cloudevents.Message{Topic: l.topic, Event: e}})
	timeout := time.After(patience)
	for {
		select {
		case m := <-l.received:
			if m.Event.ID() == e.ID() { // otherwise an event that was published twice
				return
			}
		case <-timeout:
			l.t.Fatalf("no event came back in %v: %v", patience, l.engine.Healthy())
		}
	}
}

type loopItem struct{ message cloudevents.Message }

func (i *loopItem) Message() (cloudevents.Message, error) { return i.message, nil }
func (i *loopItem) Settled(error)                         {}

type loopHandler loop

func (h *loopHandler) Connected(context.Context)       {}
func (h *loopHandler) Disconnected()                   {}
func (h *loopHandler) Received(m cloudevents.Message)  { h.received <- m }
func (h *loopHandler) Refused(topic string, err error) { h.t.Errorf("refused on %q: %v", topic, err) }
