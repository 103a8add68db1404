// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/interpreter"
)

// raw opens a TLS connection, sends a text without any check, and returns a reader of the answer.
func (w *webhook) raw(t *testing.T, text string) *bufio.Reader {
	t.Helper()
	conn := dialTLS(t, w.Addr().String(), &tls.Config{RootCAs: w.ca.Pool()})
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(conn)
}

// dialTLS opens a connection and closes it at the end of the test.
func dialTLS(t *testing.T, addr string, config *tls.Config) net.Conn {
	t.Helper()
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestHostileConnections checks that invalid HTTP requests are rejected or cut off. The server
// keeps serving afterwards.
func TestHostileConnections(t *testing.T) {
	w := start(t, interpreter.ServerOptions{MaxBytes: 1 << 20}, map[string]interpreter.Handler{"/w": workloads})
	good := health(interpreter.ProtocolInterpret, workload)
	goesOn := func() {
		t.Helper()
		if code, body := w.post(t, "/w", good); code != 200 || !strings.Contains(body, `"healthy":true`) {
			t.Errorf("afterwards a good request gets HTTP %d %s", code, body)
		}
	}
	const head = "POST /w HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\n"
	for _, test := range []struct {
		name, text string
		code       int
		message    string
	}{
		{"length and chunks", head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
			"the body is empty"},
		{"two lengths", head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", 400, ""},
		{"negative length", head + "Content-Length: -1\r\n\r\n", 400, ""},
		{"large length", head + "Content-Length: 9223372036854775807\r\n\r\n", 413,
			"the body is over the limit of 1048576 bytes"},
		{"broken chunks", head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "read body: "},
		{"long header", head + "X-Long: " + strings.Repeat("x", 128<<10) + "\r\n\r\n", 431, ""},
		{"byte order mark", head + fmt.Sprintf("Content-Length: %d\r\n\r\n\xef\xbb\xbf%s", len(good)+3, good), 400,
			"the body is not JSON: invalid character"},
		{"deeply nested", head + "Content-Length: 20000\r\n\r\n" + strings.Repeat("[", 20000), 400, "the body is not JSON: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			response, err := http.ReadResponse(w.raw(t, test.text), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			if response.StatusCode != test.code || !bytes.Contains(body, []byte(test.message)) {
				t.Errorf("HTTP %d %s, want %d %s", response.StatusCode, body, test.code, test.message)
			}
			goesOn()
		})
	}
	t.Run("endless", func(t *testing.T) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url("/w"), endless{})
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("HTTP %d, want 413", response.StatusCode)
		}
		goesOn()
	})
}

// TestCancelledRequests checks that the handler's context ends when its caller cancels, on many
// streams of one connection.
func TestCancelledRequests(t *testing.T) {
	const streams = 50
	var began, ended sync.WaitGroup
	began.Add(streams)
	ended.Add(streams)
	w := start(t, interpreter.ServerOptions{}, map[string]interpreter.Handler{
		"/wait": interpreter.HandlerFunc(func(ctx context.Context, _ interpreter.Request) interpreter.Response {
			began.Done()
			<-ctx.Done()
			ended.Done()
			return interpreter.Errored(500, ctx.Err())
		}),
		"/w": workloads,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for range streams {
		calls.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url("/wait"),
				strings.NewReader(health(interpreter.ProtocolInterpret, workload)))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			response, err := w.client.Do(r)
			if err == nil {
				response.Body.Close()
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled call: %v", err)
			}
		})
	}
	began.Wait()
	cancel()
	calls.Wait()
	all := make(chan struct{})
	go func() { ended.Wait(); close(all) }()
	select {
	case <-all:
	case <-time.After(20 * time.Second): // less than the timeout of a handler
		t.Fatal("handlers do not know that their callers have gone")
	}
	if code, _ := w.post(t, "/w", health(interpreter.ProtocolInterpret, workload)); code != 200 {
		t.Errorf("afterwards: HTTP %d", code)
	}
}
