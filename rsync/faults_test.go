// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// hostile is a connector that violates its contract.
type hostile struct {
	connector.Connector
	get   func([]connector.State) []connector.State
	apply func() error
	close func()
}

func (h *hostile) Get(ctx context.Context, b connector.Batch) ([]connector.State, error) {
	states, err := h.Connector.Get(ctx, b)
	if h.get != nil && err == nil {
		states = h.get(states)
	}
	return states, err
}

func (h *hostile) Apply(ctx context.Context, b connector.Batch) error {
	if h.apply != nil {
		return h.apply()
	}
	return h.Connector.Apply(ctx, b)
}

func (h *hostile) Close() error {
	if h.close != nil {
		h.close()
	}
	return h.Connector.Close()
}

// withHostile starts an engine with a hostile connector for the cluster c1.
func withHostile(t *testing.T, h *hostile, options rsync.Options) (*scene, func()) {
	t.Helper()
	s := &scene{t: t, memory: memstore.New(memstore.Options{}), clusters: fake.New()}
	var stop func()
	s.engine, stop = startEngineWith(t, s.memory,
		connector.Func(func(ctx context.Context, provider, name string) (connector.Connector, error) {
			conn, err := s.clusters.Connector(ctx, provider, name)
			if name != "c1" {
				return conn, err
			}
			return &hostile{conn, h.get, h.apply, h.close}, err
		}), options)
	return s, stop
}

// TestConnectorReturnsWrongStates: a connector that does not return the state of each object fails
// the event. An object without a state is neither ready nor deleted.
func TestConnectorReturnsWrongStates(t *testing.T) {
	for name, get := range map[string]func([]connector.State) []connector.State{
		"none":     func([]connector.State) []connector.State { return nil },
		"too few":  func(s []connector.State) []connector.State { return s[:1] },
		"too many": func(s []connector.State) []connector.State { return append(s, s...) },
		"others":   func(s []connector.State) []connector.State { s[0], s[1] = s[1], s[0]; return s },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, stop := withHostile(t, &hostile{get: get}, rsync.Options{})
				defer stop()
				s.clusters.Cluster("edge", "c1").SetFinalizer(true)
				s.create("a", "web@c1 x=1 y=1")
				s.done(s.engine.Instantiate(t.Context(), "a"))
				s.fails(rsync.ReasonRefused, s.ref(s.engine.Terminate(t.Context(), "a")), nil)
				s.state("a", rsync.TerminationFailed)
			})
		})
	}
}

// TestConnectorPanics: a connector that panics, or is nil, fails the event on its cluster only. The
// error does not contain the value of the panic.
func TestConnectorPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := withHostile(t, &hostile{apply: func() error { panic("secret") }, close: func() { panic("secret") }},
			rsync.Options{})
		defer stop()
		s.create("a", "web@c1 x=1; web@c2 x=1")
		failure := s.failure(rsync.ReasonRefused, s.ref(s.engine.Instantiate(t.Context(), "a")), nil)
		if strings.Contains(failure.Error(), "secret") {
			t.Errorf("the error has what the connector panicked with: %v", failure)
		}
		s.shows("c2", "x=1")
	})
	for name, f := range map[string]connector.Func{
		"nil":    func(context.Context, string, string) (connector.Connector, error) { return nil, nil },
		"panics": func(context.Context, string, string) (connector.Connector, error) { panic("secret") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{t: t, memory: memstore.New(memstore.Options{})}
				var stop func()
				s.engine, stop = startEngineWith(t, s.memory, f, rsync.Options{})
				defer stop()
				s.create("a", "web@c1 x=1")
				s.fails(rsync.ReasonRefused, s.ref(s.engine.Instantiate(t.Context(), "a")), nil)
			})
		})
	}
}

// TestClusterIsNoLongerConfigured: an event that waits for an unreachable cluster fails when the
// cluster is no longer configured. Otherwise it would wait forever.
func TestClusterIsNoLongerConfigured(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		t.Run(fmt.Sprint("its connector is forgotten: ", forgotten), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gone := &connector.Error{Class: connector.ErrTerminal, Err: errors.New("there is no configuration")}
				var removed atomic.Bool
				s := &scene{t: t, memory: memstore.New(memstore.Options{}), clusters: fake.New()}
				var stop func()
				s.engine, stop = startEngineWith(t, s.memory,
					connector.Func(func(ctx context.Context, provider, name string) (connector.Connector, error) {
						if removed.Load() && forgotten {
							return nil, gone
						}
						return s.clusters.Connector(ctx, provider, name)
					}), rsync.Options{})
				defer stop()
				c := s.clusters.Cluster("edge", "c1")
				c.Intercept(func(fake.Verb, connector.Batch) error {
					if removed.Load() {
						return gone
					}
					return nil
				})
				c.SetMode(fake.ModeUnreachable)
				s.create("a", "web@c1 x=1")
				ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
				time.Sleep(time.Minute)
				removed.Store(true)
				s.fails(rsync.ReasonRefused, ref, nil)
			})
		})
	}
}

// TestCloseIsAwaited: Start returns only after a connector that was idle for too long is closed.
func TestCloseIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Bool
		s, stop := withHostile(t, &hostile{close: func() { time.Sleep(10 * time.Second); closed.Store(true) }},
			rsync.Options{ConnectorIdle: time.Second})
		s.create("a", "web@c1 x=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(2 * time.Second)
		stop()
		if !closed.Load() {
			t.Error("Start has returned while a connector is being closed")
		}
	})
}

// TestBackoffIsBounded: a cluster is retried regardless of the length of the delays and the number
// of refusals.
func TestBackoffIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{
			Backoff:  rsync.Backoff{Base: 5 * time.Minute, Max: 24 * time.Hour},
			LeaseTTL: time.Hour, // a lease of ten seconds has a million renewals in two months
		})
		s.create("a", "web@c1 x=1")
		c := s.clusters.Cluster("edge", "c1")
		c.SetMode(fake.ModeFailing)
		ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(60 * 24 * time.Hour)
		if n := c.Count(fake.VerbApply); n < 50 || n > 200 {
			t.Errorf("%d calls in 60 days", n)
		}
		c.SetMode(fake.ModeWorks)
		time.Sleep(24 * time.Hour)
		s.done(ref, nil)
	})
}

// TestLargeRead: the results of a Read are stored in as many transactions as necessary. Messages
// are shortened.
func TestLargeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := withHostile(t, &hostile{get: func(s []connector.State) []connector.State {
			for i := range s {
				s[i].Message = strings.Repeat("x", 5000)
			}
			return s
		}}, rsync.Options{})
		defer stop()
		b := appcontext.NewBuilder("a")
		for app := range 10 {
			for i := range 1500 {
				b.App(fmt.Sprint("app", app)).Resource("edge", "c1", manifest("ConfigMap", fmt.Sprintf("%d-%d", app, i), "1"))
			}
		}
		c, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.engine.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		s.done(s.engine.Instantiate(t.Context(), "a"))
		status := s.done(s.engine.Read(t.Context(), "a"))
		for _, c := range status.Clusters {
			if len(c.Resources) != 1500 || c.Resources[0].Message == "" {
				t.Errorf("%s has %d states", c.App, len(c.Resources))
			}
		}
	})
}

// TestStopAfterBrokenWatches: an engine detects a stop within a second, even if its watches break
// from time to time.
func TestStopAfterBrokenWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New(memstore.Options{})
		s := newScene(t, &breaking{memory}, rsync.Options{})
		s.create("a", "web@c1 x=1")
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeUnreachable)
		ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(time.Hour)
		for range 20 {
			time.Sleep(7 * time.Second)
			if err := s.engine.Stop(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			s.fails(rsync.ReasonStopped, ref, nil)
			if took := time.Since(began); took > time.Second {
				t.Errorf("the stop was seen after %s", took)
			}
			if err := s.engine.ClearStop(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			ref = s.ref(s.engine.Instantiate(t.Context(), "a"))
		}
	})
}

// breaking is a store with watches that break every ten seconds, except the watches of single
// contexts.
type breaking struct{ store.Store }

func (b *breaking) Watch(ctx context.Context, prefix string, from int64) <-chan store.Watched {
	if !strings.HasPrefix(prefix, "/context/") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
		context.AfterFunc(ctx, cancel)
	}
	return b.Store.Watch(ctx, prefix, from)
}

// TestShortHistory: many events that end in one transaction do not conflict if the history limit
// was lowered.
func TestShortHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New(memstore.Options{})
		first, stop := startEngine(t, memory, fake.New(), rsync.Options{})
		r := &scene{t: t, engine: first, memory: memory}
		r.create("a", "web@c1 x=1")
		for range 50 {
			r.done(first.Instantiate(t.Context(), "a"))
		}
		stop()
		for i := range 50 {
			r.ref(first.Read(t.Context(), "a", rsync.IdempotencyKey(fmt.Sprint(i))))
			r.ref(first.Read(t.Context(), "a"))
		}
		r.ref(first.Terminate(t.Context(), "a"))
		s := newScene(t, memory, rsync.Options{HistoryLimit: 1})
		time.Sleep(time.Minute)
		s.state("a", rsync.Terminated)
		for range 20 {
			s.done(s.engine.Read(t.Context(), "a"))
		}
		status, err := s.engine.Status(t.Context(), "a")
		if err != nil || len(status.Queue) != 1 {
			t.Errorf("the history has %d elements: %v", len(status.Queue), err)
		}
	})
}

// TestLongQueue: thousands of queued events on one context are processed.
func TestLongQueue(t *testing.T) {
	const events = 3000
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1")
		var last rsync.EventRef
		for range events {
			last = s.ref(s.engine.Read(t.Context(), "a"))
		}
		s.done(last, nil)
	})
}

// TestBrokenValues: a value that cannot be read is reported to its readers, and blocks only its own
// context.
func TestBrokenValues(t *testing.T) {
	for _, key := range []string{
		"/context/a/", "/context/a/state/", "/context/a/queue/", "/context/a/queue/0000000000000001/",
		"/context/a/status/web/edge+c1/",
		"/rsync/index/a/",
	} {
		for _, op := range []store.Op{store.Put(key, []byte("\x00{")), store.Delete(key)} {
			t.Run(fmt.Sprint(key, op.Kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { broken(t, key, op) })
			})
		}
	}
}

func broken(t *testing.T, key string, op store.Op) {
	memory := memstore.New(memstore.Options{})
	s := newScene(t, memory, rsync.Options{})
	s.create("a", "web@c1 x=1")
	s.create("b", "web@c1 y=1")
	s.create("other", "web@c1 z=1")
	s.done(s.engine.Instantiate(t.Context(), "a"))
	if _, err := memory.Txn(t.Context(), nil, []store.Op{op}); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		_, _ = s.engine.Read(t.Context(), "a")
		time.Sleep(50 * time.Millisecond)
	}
	before := memory.Counts()
	time.Sleep(10 * time.Minute)
	if after := memory.Counts(); after.Ranges-before.Ranges > 100 {
		t.Errorf("it was read %d times in ten minutes", after.Ranges-before.Ranges)
	}
	harmless := op.Kind == store.OpKindDelete && strings.Contains(key, "/000") || strings.Contains(key, "/index/") ||
		op.Kind == store.OpKindDelete && strings.Contains(key, "/status/")
	switch _, err := s.engine.Status(t.Context(), "a"); {
	case key == "/context/a/" && op.Kind == store.OpKindDelete:
		if !errors.Is(err, rsync.ErrNotFound) {
			t.Errorf("the status: %v", err)
		}
	case !harmless && (!errors.Is(err, rsync.ErrBroken) || !strings.Contains(err.Error(), key)):
		t.Errorf("the status: %v", err)
	}
	_, _ = s.wait(s.ref(s.engine.Update(t.Context(), "other", "b")), nil) // other is not instantiated
	s.done(s.engine.Instantiate(t.Context(), "other"))
	if list, err := s.engine.List(t.Context()); len(list) < 2 || err != nil && !errors.Is(err, rsync.ErrBroken) {
		t.Errorf("the list has %v: %v", list, err)
	}
	if ref, err := s.engine.Update(t.Context(), "a", "b"); err == nil {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if key == "/context/a/queue/" || strings.HasSuffix(key, "/state/") {
			if _, err := s.engine.Wait(ctx, ref); !errors.As(err, new(*rsync.EventError)) {
				t.Errorf("an update from it: %v", err)
			}
		}
	}
}

// TestUnusualIDs: invalid IDs are rejected. Other odd IDs are not found.
func TestUnusualIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1")
		for _, id := range []string{"a/state", "a/queue", "", "/", strings.Repeat("x", 300)} {
			if c, err := s.engine.AppContext(t.Context(), id); !errors.Is(err, rsync.ErrInvalidInput) {
				t.Errorf("AppContext(%q): %v, %v", id, c, err)
			}
			if err := s.engine.Delete(t.Context(), id); !errors.Is(err, rsync.ErrInvalidInput) {
				t.Errorf("Delete(%q): %v", id, err)
			}
		}
		for _, id := range []string{"..", ".", "%2f", "ä", "a\x00"} {
			if _, err := s.engine.Status(t.Context(), id); !errors.Is(err, rsync.ErrNotFound) {
				t.Errorf("Status(%q): %v", id, err)
			}
		}
		if err := s.engine.Create(t.Context(), nil); !errors.Is(err, appcontext.ErrInvalid) {
			t.Errorf("Create(nil): %v", err)
		}
	})
}
