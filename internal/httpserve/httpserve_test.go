// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpserve_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/internal/httpserve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	short   = 200 * time.Millisecond
	patient = 30 * time.Second
)

// start serves until the end of the test.
func start(t *testing.T, o httpserve.Options) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- httpserve.Serve(ctx, listener, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func dial(t *testing.T, address, from string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

var limits = httpserve.Options{HeaderTimeout: short, BodyTimeout: short, WriteTimeout: short, IdleTimeout: short}

// TestSlowClients: 150 slow clients of each kind are disconnected.
func TestSlowClients(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		for range 1000 {
			if _, err := w.Write(make([]byte, 100_000)); err != nil {
				return
			}
		}
	})
	for _, tt := range []struct {
		name, request string
		reads         bool
	}{
		{"no header", "", true},
		{"half a header", "GET / HTTP/1.1\r\nHost: a\r\n", true},
		{"a body that the handler reads", "POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{", true},
		{"a body that it does not read", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{", true},
		{"a chunked body", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", true},
		{"a reader that does not read", "GET /large HTTP/1.1\r\nHost: a\r\n\r\n", false},
		{"an idle connection", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var ended, started atomic.Int32
			o := limits
			o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				started.Add(1)
				defer ended.Add(1)
				mux.ServeHTTP(w, r)
			})
			address := start(t, o)
			const all = 150
			var clients sync.WaitGroup
			var closed atomic.Int32
			for range all {
				conn := dial(t, address, "127.0.0.1")
				if _, err := io.WriteString(conn, tt.request); err != nil {
					t.Fatal(err)
				}
				clients.Go(func() {
					if !tt.reads {
						time.Sleep(10 * short)
						for end := time.Now().Add(patient); ended.Load() < started.Load() && time.Now().Before(end); {
							time.Sleep(short)
						}
					}
					_ = conn.SetReadDeadline(time.Now().Add(patient))
					_, err := io.Copy(io.Discard, conn)
					if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
						closed.Add(1)
					}
				})
			}
			clients.Wait()
			if n := closed.Load(); n != all || !tt.reads && ended.Load() == 0 {
				t.Errorf("%d of %d connections are still open, and %d handlers ended", all-n, all, ended.Load())
			}
		})
	}
}

// TestLongAnswers: a stream and a long wait last longer than all timeouts while the client reads.
func TestLongAnswers(t *testing.T) {
	o := limits
	o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/wait" {
			select {
			case <-time.After(5 * short):
			case <-r.Context().Done():
				return
			}
		}
		for range 10 {
			fmt.Fprintln(w, "line")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(short / 2)
		}
	})
	address := start(t, o)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, request := range []struct{ method, path, body string }{{"GET", "/stream", ""}, {"GET", "/wait", ""}, {"POST", "/wait", "body"}} {
		r, err := http.NewRequest(request.method, "http://"+address+request.path, strings.NewReader(request.body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || strings.Count(string(text), "line") != 10 {
			t.Errorf("%v: %q, %v", request, text, err)
		}
	}
}

// TestMaxConns: one client cannot take all connections, and all clients together cannot take more than the limit.
func TestMaxConns(t *testing.T) {
	address := start(t, httpserve.Options{MaxConns: 5, MaxConnsPerClient: 3, Handler: http.NotFoundHandler()})
	accepted := func(from string) (net.Conn, bool) {
		conn := dial(t, address, from)
		_ = conn.SetDeadline(time.Now().Add(patient))
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil {
			_ = answer.Body.Close()
		}
		return conn, err == nil
	}
	var first net.Conn
	for i, tt := range []struct {
		from string
		want bool
	}{
		{"127.0.0.1", true}, {"127.0.0.1", true}, {"127.0.0.1", true}, {"127.0.0.1", false},
		{"127.0.0.2", true}, {"127.0.0.3", true}, {"127.0.0.4", false},
	} {
		conn, got := accepted(tt.from)
		if got != tt.want {
			t.Errorf("connection %d, from %s: accepted %v", i, tt.from, got)
		}
		if i == 0 {
			first = conn
		}
	}
	_ = first.Close()
	for end := time.Now().Add(patient); ; {
		if _, ok := accepted("127.0.0.1"); ok {
			return
		}
		if time.Now().After(end) {
			t.Fatal("a closed connection still counts")
		}
	}
}

func TestHosts(t *testing.T) {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMisdirectedRequest) })
	handler := httpserve.Hosts([]string{"hub.example.com", "10.0.0.1", "2001:db8::1"}, http.NotFoundHandler(), refuse)
	for host, want := range map[string]bool{
		"localhost:8080": true, "127.0.0.1": true, "[::1]:80": true, "": true, "HUB.example.com": true, "hub.example.com:8080": true, "hub.example.com.": true,
		"10.0.0.1:80": true, "[2001:db8::1]": true, "10.0.0.2": false, "evil.example": false, "hub.example.com.evil.example": false, "localhost.evil.example": false,
	} {
		answer := &recorder{header: http.Header{}}
		handler.ServeHTTP(answer, &http.Request{Host: host})
		if got := answer.code == http.StatusNotFound; got != want {
			t.Errorf("%q: answered %v", host, got)
		}
	}
	for host, want := range map[string]bool{"a.b": true, "10.0.0.1": true, "::1": true, "": false, "a:80": false, "*": false, "http://a": false} {
		if err := httpserve.CheckHost(host); (err == nil) != want {
			t.Errorf("%q: %v", host, err)
		}
	}
}

type recorder struct {
	header http.Header
	code   int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }
func (r *recorder) WriteHeader(code int)        { r.code = code }
