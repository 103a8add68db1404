// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/internal/testing/metertest"
	"github.com/spokewire/sdk-go/interpreter"
)

// elsewhere serves the handler of NewHandler with a server that sets no deadlines, like the server
// of controller-runtime.
func elsewhere(t *testing.T, h interpreter.Handler, options interpreter.HandlerOptions) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(interpreter.NewHandler(h, options))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections() // Close waits for requests with incomplete bodies
		server.Close()
	})
	return server
}

// stall sends the header of a request and only a part of its body.
func stall(t *testing.T, server *httptest.Server, length, sent int) net.Conn {
	t.Helper()
	client := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	client.NextProtos = nil
	conn := dialTLS(t, server.Listener.Addr().String(), client)
	text := fmt.Sprintf("POST /w HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		length, strings.Repeat(" ", sent))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

func postTo(t *testing.T, server *httptest.Server, client *http.Client, query string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/w"+query,
		strings.NewReader(health(interpreter.ProtocolInterpret, workload)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// TestIncompleteBodiesDoNotBlockOthers checks that requests with incomplete bodies do not use the slots of other
// requests, on any server.
func TestIncompleteBodiesDoNotBlockOthers(t *testing.T) {
	registry := prometheus.NewRegistry()
	server := elsewhere(t, workloads, interpreter.HandlerOptions{MaxConcurrent: 2, Timeout: time.Hour,
		MetricsRegisterer: registry})
	const clients = 20
	for range clients {
		stall(t, server, 1000, 1)
	}
	until(t, "all wait for their bodies", func() bool {
		return metertest.Values(t, registry)["spokewire_interpreter_server_requests_in_flight handler=default"] == clients
	})
	if code, body := postTo(t, server, server.Client(), ""); code != http.StatusOK {
		t.Errorf("while %d bodies do not come: HTTP %d %s", clients, code, body)
	}
}

// TestLateBodyIsRejected checks that the server stops waiting for a body at the handler's timeout.
func TestLateBodyIsRejected(t *testing.T) {
	server := elsewhere(t, workloads, interpreter.HandlerOptions{Timeout: 50 * time.Millisecond})
	refused := func(conn net.Conn) {
		t.Helper()
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, response.StatusCode, string(body), http.StatusRequestTimeout, "the body has not arrived in time", "")
		if !response.Close {
			t.Error("the connection stays open, and the rest of the body would be the next request")
		}
	}
	refused(stall(t, server, 1000, 1))

	t.Run("HTTP/2", func(t *testing.T) {
		never, end := io.Pipe()
		defer end.Close()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/w", never)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.ProtoMajor != 2 {
			t.Fatal(response.Proto, err)
		}
		wantStatus(t, response.StatusCode, string(body), http.StatusRequestTimeout, "the body has not arrived in time", "")
	})

	t.Run("the server's own, where it is shorter", func(t *testing.T) {
		server := httptest.NewUnstartedServer(interpreter.NewHandler(workloads,
			interpreter.HandlerOptions{Timeout: time.Hour}))
		server.Config.ReadTimeout = 50 * time.Millisecond
		server.StartTLS()
		defer server.Close()
		refused(stall(t, server, 1000, 1))
	})
}

// TestConnectionSurvivesDeadlineOfBody checks that the deadline of a body ends neither the handler's
// context early nor the connection.
func TestConnectionSurvivesDeadlineOfBody(t *testing.T) {
	late := interpreter.HandlerFunc(func(ctx context.Context, _ interpreter.Request) interpreter.Response {
		<-ctx.Done()
		return interpreter.Errored(http.StatusGatewayTimeout, ctx.Err())
	})
	for _, http2 := range []bool{false, true} {
		server := httptest.NewUnstartedServer(interpreter.NewHandler(late, interpreter.HandlerOptions{}))
		server.EnableHTTP2 = http2
		server.Config.ReadTimeout = 250 * time.Millisecond // less than the timeout of the handler
		var connections atomic.Int32
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connections.Add(1)
			}
		}
		server.StartTLS()
		for range 2 {
			code, body := postTo(t, server, server.Client(), "?timeout=500ms")
			wantFailure(t, code, body, http.StatusGatewayTimeout, "the handler did not answer in time")
		}
		server.Close()
		if n := connections.Load(); n != 1 {
			t.Errorf("HTTP/2 %v: %d connections for two requests", http2, n)
		}
	}
}

// halting is a body that stops after a number of bytes.
type halting struct {
	bytes   int
	halts   chan struct{} // closed when all these bytes were read
	goes    chan struct{}
	stopped bool
}

func (h *halting) Read(p []byte) (int, error) {
	if n := min(len(p), h.bytes); n > 0 {
		h.bytes -= n
		return endless{}.Read(p[:n])
	}
	if !h.stopped {
		h.stopped = true
		close(h.halts)
	}
	<-h.goes
	return 0, io.EOF
}

// TestIncompleteBodiesStayWithinMemoryLimit checks that incomplete bodies use no more memory than the limit for all bodies.
// They leave memory for other addresses and for small bodies.
func TestIncompleteBodiesStayWithinMemoryLimit(t *testing.T) {
	const largest = 64 << 20
	handler := interpreter.NewHandler(workloads, interpreter.HandlerOptions{MaxBytes: largest, Timeout: time.Hour})
	from := "192.0.2.1:1"
	serve := func(body io.Reader, length int64) *recorder {
		r := newRequest(t, "")
		r.RemoteAddr = from
		r.Body, r.ContentLength = io.NopCloser(body), length
		answer := &recorder{}
		handler.ServeHTTP(answer, r)
		return answer
	}
	small := health(interpreter.ProtocolInterpret, workload)
	large := small + strings.Repeat(" ", largest-len(small))
	half := &halting{bytes: largest/2 + 1, halts: make(chan struct{}), goes: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		serve(half, largest)
	}()
	<-half.halts
	answer := serve(strings.NewReader(large), largest)
	wantStatus(t, answer.code, string(answer.body), http.StatusTooManyRequests,
		"the bodies of requests use 134217730 bytes, which is the limit: try again", "")
	if answer.header.Get("Retry-After") == "" {
		t.Error("nothing says when to try again")
	}
	medium := large[:largest/8]
	answer = serve(strings.NewReader(medium), int64(len(medium)))
	wantStatus(t, answer.code, string(answer.body), http.StatusTooManyRequests,
		"the bodies of requests use 134217730 bytes, which is the limit: try again", "")
	from = "192.0.2.2:1"
	if answer = serve(strings.NewReader(medium), int64(len(medium))); answer.code != http.StatusOK {
		t.Errorf("a request of another address: HTTP %d %s", answer.code, answer.body)
	}
	from = "192.0.2.1:2"
	if answer = serve(strings.NewReader(small), int64(len(small))); answer.code != http.StatusOK {
		t.Errorf("a small request: HTTP %d %s", answer.code, answer.body)
	}
	close(half.goes)
	<-ended
	if answer = serve(strings.NewReader(large), largest); answer.code != http.StatusOK {
		t.Errorf("when the memory is free again: HTTP %d %s", answer.code, answer.body)
	}
}

// TestLargeRequestsTakeTurns checks that requests which need much memory are answered one at a
// time, and that small requests do not wait for them.
func TestLargeRequestsTakeTurns(t *testing.T) {
	var mu sync.Mutex
	running, most := 0, 0
	goes := make(chan struct{})
	slow := interpreter.HandlerFunc(func(ctx context.Context, r interpreter.Request) interpreter.Response {
		if len(r.Object.Raw) > 1<<20 {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			<-goes
			mu.Lock()
			running--
			mu.Unlock()
		}
		return workloads.Handle(ctx, r)
	})
	registry := prometheus.NewRegistry()
	server := elsewhere(t, slow, interpreter.HandlerOptions{MetricsRegisterer: registry, MaxConcurrent: 3})
	large := strings.Replace(workload, "{", `{"many":[`+strings.Repeat("{},", 1<<20)+`{}],`, 1)
	const clients = 5
	var sent sync.WaitGroup
	for range clients {
		sent.Go(func() {
			response, err := server.Client().Post(server.URL+"/w", "application/json",
				strings.NewReader(health(interpreter.ProtocolInterpret, large)))
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("a large request: HTTP %d", response.StatusCode)
			}
		})
	}
	until(t, "all have arrived", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return running == 1 &&
			metertest.Values(t, registry)["spokewire_interpreter_server_requests_in_flight handler=default"] == clients
	})
	if code, body := postTo(t, server, server.Client(), ""); code != http.StatusOK {
		t.Errorf("a small request: HTTP %d %s", code, body)
	}
	response, err := server.Client().Post(server.URL+"/w?timeout=5s", "application/json",
		strings.NewReader(health(interpreter.ProtocolInterpret, large)))
	if err != nil {
		t.Fatal(err)
	}
	if response.Body.Close(); response.StatusCode != http.StatusTooManyRequests ||
		response.Header.Get("Retry-After") == "" {
		t.Errorf("a large request that waits for too long: HTTP %d", response.StatusCode)
	}
	close(goes)
	sent.Wait()
	if most != 1 {
		t.Errorf("%d large requests were answered at once", most)
	}
}
