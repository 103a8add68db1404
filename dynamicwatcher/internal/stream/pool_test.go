// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

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
	h, err := stream.NewHTTP(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil,
		clock.RealClock{})
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
	h, err := stream.NewHTTP(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil,
		clock.RealClock{})
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
