// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/cloudevents"
)

// Harness opens transports to one broker, which it starts beforehand and stops after [Run].
type Harness interface {
	// Transport returns a new transport that nobody has claimed. All transports reach the same broker.
	Transport(t *testing.T) cloudevents.Transport
}

// BinaryMode is an optional part of a [Harness] for a run in which everything is published in binary mode.
type BinaryMode interface {
	// Binary is the value of ConnectOptions.Binary for all connections.
	Binary() bool
}

// Cutter is an optional ability of a [Harness].
type Cutter interface {
	// Cut ends the link of every connection as a failing network does. New ones are possible at once.
	Cut(t *testing.T)
}

// Staller is an optional ability of a [Harness].
type Staller interface {
	// Stall makes the broker fall silent: it neither acknowledges nor delivers what is published from now
	// on, and links stay open, until resume is called. resume may be called more than once.
	Stall(t *testing.T) (resume func())
}

// Limiter is an optional ability of a [Harness].
type Limiter interface {
	// Limited returns a transport to a broker that takes packets of at most limit bytes and says so.
	Limited(t *testing.T, limit int) cloudevents.Transport
}

// SessionKeeper is an optional ability of a [Harness].
type SessionKeeper interface {
	// Session returns a transport for which the broker keeps a session of the given name while it is away.
	// It is called again with the same name for a transport that continues the session.
	Session(t *testing.T, name string) cloudevents.Transport
}

// RawPublisher is an optional ability of a [Harness].
type RawPublisher interface {
	// PublishRaw publishes payload as it is, by other means than the transport.
	PublishRaw(t *testing.T, topic string, payload []byte)
}

// suite is one run.
type suite struct {
	harness Harness
	binary  bool
}

// Run checks every duty, each in a subtest.
func Run(t *testing.T, h Harness) {
	s := &suite{harness: h}
	if b, ok := h.(BinaryMode); ok {
		s.binary = b.Binary()
	}
	for _, group := range [][]check{s.deliveryChecks(), s.publishChecks(), s.lifecycleChecks(), s.troubleChecks()} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				before := goleak.IgnoreCurrent()
				t.Run("check", c.run) // inner, so that its cleanup is over when goroutines are counted
				if err := left(before); err != nil {
					t.Errorf("goroutines are left %v after the connections were closed: %v", closing, err)
				}
			})
		}
	}
}

// closing is how long what belongs to a closed connection may take to end: on a busy machine a proxy of the harness
// may still pass on what the broker had under way.
const closing = 10 * time.Second

// left returns an error that names the goroutines that were not there before and do not end.
func left(before goleak.Option) (err error) {
	for end := time.Now().Add(closing); time.Now().Before(end); { // goleak itself waits up to a second
		if err = goleak.Find(before); err == nil {
			return nil
		}
	}
	return err
}

// check is one duty.
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
