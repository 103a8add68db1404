// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/fakeapi"
	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var secrets = stream.Target{Resource: fakeapi.Secret.GroupVersion().WithResource("secrets"), Namespace: "ns"}

// script runs f with a server in memory.
func script(t *testing.T, f func(*testing.T, *fakeapi.Server, *stream.HTTP)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New()
		defer api.Close()
		h, err := stream.NewHTTP(api.Config(), nil, clock.RealClock{})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		f(t, api, h)
	})
}

// read reads events until all existing objects have arrived, and then n more.
func read(t *testing.T, s stream.Stream, n int) (names []string) {
	t.Helper()
	for synced := false; !synced || n > 0; {
		e, err := s.Next()
		if err != nil {
			t.Fatalf("after %v: %v", names, err)
		}
		if synced {
			n--
		}
		synced = synced || e.Type == stream.Synced
		names = append(names, fmt.Sprintf("%d%s", e.Type, e.Name))
	}
	return names
}

func TestServerWithoutWatchListIsListed(t *testing.T) {
	for _, test := range []struct {
		name  string
		plain bool
		whole bool
		lists int
	}{
		{"a server with WatchList", false, false, 0},
		{"a server without WatchList", true, false, 3},
		{"whole objects", true, true, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			script(t, func(t *testing.T, api *fakeapi.Server, h *stream.HTTP) {
				api.Plain, api.PageSize = test.plain, 2
				for _, name := range []string{"a", "b", "c", "d", "e"} {
					api.Put(fakeapi.Object(fakeapi.Secret, "ns", name))
				}
				target := secrets
				target.Whole = test.whole
				for range 2 {
					s, err := h.Open(t.Context(), target, "")
					if err != nil {
						t.Fatal(err)
					}
					synctest.Wait() // until the existing objects have arrived
					api.Delete(fakeapi.Secret, "ns", "e")
					api.Put(fakeapi.Object(fakeapi.Secret, "ns", "e"))
					got := fmt.Sprint(read(t, s, 2))
					if want := fmt.Sprintf("[0a 0b 0c 0d 0e %d %de 0e]", stream.Synced, stream.Deleted); got != want {
						t.Errorf("the events are %v, not %v", got, want)
					}
					s.Close()
				}
				if c := api.Counts(); c.Lists != 2*test.lists {
					t.Errorf("the server has seen %+v", c)
				}
				initial := 0
				for _, q := range api.Requests() {
					if q.Initial {
						initial++
					}
				}
				if want := map[bool]int{false: 2, true: 1}[test.plain]; initial != want {
					t.Errorf("the server was asked %d times for what exists, not %d", initial, want)
				}
			})
		})
	}
}

func TestOpenReturnsServerErrors(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault fakeapi.Fault
		is    func(error) bool
	}{
		{"aborted", fakeapi.Fault{Abort: true}, func(err error) bool { return errors.Is(err, stream.ErrConnection) }},
		{"forbidden", fakeapi.Fault{Status: 403}, apierrors.IsForbidden},
		{"too old", fakeapi.Fault{Status: 410}, stream.Expired},
	} {
		script(t, func(t *testing.T, api *fakeapi.Server, h *stream.HTTP) {
			api.Hook(func(fakeapi.Request) fakeapi.Fault { return test.fault })
			if _, err := h.Open(t.Context(), secrets, ""); !test.is(err) {
				t.Errorf("%s: the error is %v", test.name, err)
			}
		})
	}
	script(t, func(t *testing.T, api *fakeapi.Server, h *stream.HTTP) {
		if _, err := h.Open(t.Context(), secrets, "999999"); !stream.Expired(err) {
			t.Errorf("a version from the future: the error is %v", err)
		}
		api.Hook(func(fakeapi.Request) fakeapi.Fault { return fakeapi.Fault{Hang: true} })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Open(ctx, secrets, ""); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, stream.ErrConnection) {
			t.Errorf("a context that has ended: the error is %v", err)
		}
	})
}

func TestNextReturnsReasonForEnd(t *testing.T) {
	script(t, func(t *testing.T, api *fakeapi.Server, h *stream.HTTP) {
		for _, test := range []struct {
			ending fakeapi.Ending
			is     func(error) bool
		}{
			{fakeapi.End, func(err error) bool { return errors.Is(err, io.EOF) && !errors.Is(err, stream.ErrConnection) }},
			{fakeapi.Cut, func(err error) bool { return errors.Is(err, stream.ErrConnection) }},
			{fakeapi.Expired, stream.Expired},
		} {
			api.Hook(func(fakeapi.Request) fakeapi.Fault { return fakeapi.Fault{After: 1, Ending: test.ending} })
			s, err := h.Open(t.Context(), secrets, "")
			if err != nil {
				t.Fatal(err)
			}
			read(t, s, 0)
			if _, err := s.Next(); !test.is(err) {
				t.Errorf("the end %d is %v", test.ending, err)
			}
			s.Close()
			s.Close()
		}
	})
}

// counting is a listener that counts connections and can end them.
type counting struct {
	net.Listener
	taken atomic.Int64

	mu    sync.Mutex
	conns []net.Conn
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.taken.Add(1)
		l.mu.Lock()
		l.conns = append(l.conns, c)
		l.mu.Unlock()
	}
	return c, err
}

func (l *counting) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

func TestStreamsShareConnections(t *testing.T) {
	const streams, most = 1000, 12
	api := fakeapi.New()
	defer api.Close()
	api.Hook(func(q fakeapi.Request) fakeapi.Fault { return fakeapi.Fault{Hang: q.Name == "hangs"} })
	server := httptest.NewUnstartedServer(api)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 100} // as on API servers
	listener := &counting{Listener: server.Listener}
	server.Listener = listener
	server.StartTLS()
	defer server.Close()
	h, err := stream.NewHTTP(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	hangs := secrets
	hangs.Name = "hangs"
	all.Go(func() {
		if _, err := h.Open(ctx, hangs, ""); err == nil {
			t.Error("the request that hangs has ended")
		}
	})
	for round := range 3 {
		before := listener.taken.Load()
		opened := make([]stream.Stream, streams)
		var group sync.WaitGroup
		for i := range opened {
			group.Go(func() {
				for ctx.Err() == nil {
					s, err := h.Open(ctx, secrets, "")
					if err == nil {
						if _, err = s.Next(); err == nil { // the end of an empty list, which must be read within 10 s
							opened[i] = s
							return
						}
						s.Close()
					}
					if !errors.Is(err, stream.ErrConnection) {
						t.Errorf("the error is %v", err)
						return
					}
				}
			})
		}
		group.Wait()
		if n := listener.taken.Load() - before; n < 11 || n > most {
			t.Errorf("round %d: %d connections for %d streams", round, n, streams)
		}
		listener.cut()
		for _, s := range opened {
			for s != nil {
				if _, err := s.Next(); err != nil {
					if !errors.Is(err, stream.ErrConnection) {
						t.Errorf("the end of a stream is %v", err)
					}
					s.Close()
					break
				}
			}
		}
		if round == 0 { // the hanging request has ended with its connection
			all.Wait()
		}
	}
}

// TestIdleConnectionsAreClosed checks that connections without streams are closed after a while,
// and that a burst of requests then opens no more connections than necessary.
func TestIdleConnectionsAreClosed(t *testing.T) {
	const streams, most = 180, 4
	api := fakeapi.New()
	defer api.Close()
	var open atomic.Int64
	server := httptest.NewUnstartedServer(api)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.Config.IdleTimeout = 100 * time.Millisecond
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	listener := &counting{Listener: server.Listener}
	server.Listener = listener
	server.StartTLS()
	defer server.Close()
	h, err := stream.NewHTTP(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for round := range 3 {
		before := listener.taken.Load()
		opened := make([]stream.Stream, streams)
		var group sync.WaitGroup
		for i := range opened {
			group.Go(func() {
				s, err := h.Open(t.Context(), secrets, "")
				if err != nil {
					t.Error(err)
				}
				opened[i] = s
			})
		}
		group.Wait()
		if n := listener.taken.Load() - before; n > most {
			t.Errorf("round %d: %d connections for %d streams", round, n, streams)
		}
		for _, s := range opened {
			if s != nil {
				s.Close()
			}
		}
		for begin := time.Now(); open.Load() > 0; time.Sleep(time.Millisecond) {
			if time.Since(begin) > 30*time.Second {
				t.Fatalf("%d connections stay open", open.Load())
			}
		}
	}
}
