// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/cloudevents"
)

// Harness opens transports to one broker. Start the broker before [Run] and stop it afterwards.
type Harness interface {
	// Transport returns a new, unclaimed transport. All transports reach the same broker.
	Transport(t *testing.T) cloudevents.Transport
}

// BinaryMode is an optional part of a [Harness] for a run that publishes all events in binary mode.
type BinaryMode interface {
	// Binary returns the value of ConnectOptions.Binary for all connections.
	Binary() bool
}

// Exact is an optional part of a [Harness] for a broker that has no wildcards in topic filters, and
// one filter for each connection. Checks that need more are skipped.
type Exact interface {
	Exact() bool
}

// Cutter is an optional ability of a [Harness].
type Cutter interface {
	// Cut ends the link of every connection, as a failing network does. New connections are
	// possible immediately.
	Cut(t *testing.T)
}

// Staller is an optional ability of a [Harness].
type Staller interface {
	// Stall makes the broker neither acknowledge nor deliver messages that are published from now
	// on, until resume is called. Links stay open. resume may be called more than once.
	Stall(t *testing.T) (resume func())
}

// Limiter is an optional ability of a [Harness].
type Limiter interface {
	// Limited returns a transport to a broker that accepts packets of at most limit bytes and
	// announces this limit.
	Limited(t *testing.T, limit int) cloudevents.Transport
}

// SessionKeeper is an optional ability of a [Harness].
type SessionKeeper interface {
	// Session returns a transport for which the broker keeps a session while it is disconnected.
	// Another call with the same name returns a transport that continues the session.
	Session(t *testing.T, name string) cloudevents.Transport
}

// RawPublisher is an optional ability of a [Harness].
type RawPublisher interface {
	// PublishRaw publishes the unchanged payload without the transport.
	PublishRaw(t *testing.T, topic string, payload []byte)
}

type suite struct {
	harness       Harness
	binary, exact bool
}

// Run runs every check in its own subtest.
func Run(t *testing.T, h Harness) {
	s := &suite{harness: h}
	if b, ok := h.(BinaryMode); ok {
		s.binary = b.Binary()
	}
	if e, ok := h.(Exact); ok {
		s.exact = e.Exact()
	}
	for _, group := range [][]check{s.deliveryChecks(), s.publishChecks(), s.lifecycleChecks(), s.troubleChecks()} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				before := goleak.IgnoreCurrent()
				t.Run("check", c.run) // an inner test: its cleanup ends before goroutines are counted
				if err := left(before); err != nil {
					t.Errorf("goroutines are left %v after the connections were closed: %v", closing, err)
				}
			})
		}
	}
}

// closing is the time limit for the goroutines of a closed connection to end. On a busy machine, a
// proxy of the harness may still forward messages of the broker.
const closing = 10 * time.Second

func left(before goleak.Option) (err error) {
	for end := time.Now().Add(closing); time.Now().Before(end); { // goleak waits up to one second
		if err = goleak.Find(before); err == nil {
			return nil
		}
	}
	return err
}

type check struct {
	name string
	run  func(t *testing.T)
}

// need returns the harness as the ability A, or skips the test.
func need[A any](t *testing.T, s *suite) A {
	t.Helper()
	ability, ok := s.harness.(A)
	if !ok {
		t.Skipf("the harness lacks the ability %T", (*A)(nil))
	}
	return ability
}
