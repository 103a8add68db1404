// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpserve_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/internal/httpserve"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	short   = 200 * time.Millisecond
	patient = 30 * time.Second
)

// start runs a server until the end of the test.
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

// TestSlowClients checks that 150 slow clients of each kind are disconnected.
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

// TestLongAnswers checks that a stream and a long wait may exceed all timeouts while the client
// reads.
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
	for _, request := range []struct{ method, path, body string }{{"GET", "/stream", ""}, {"GET", "/wait", ""},
		{"POST", "/wait", "body"}} {
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

// request sends a request on a connection that stays open, and reports whether the handler
// answered.
func request(t *testing.T, address, from, text string) (net.Conn, bool) {
	conn := dial(t, address, from)
	_ = conn.SetDeadline(time.Now().Add(patient))
	_, _ = io.WriteString(conn, text)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil {
		_ = answer.Body.Close()
	}
	return conn, err == nil && answer.StatusCode != http.StatusBadRequest
}

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// TestMaxConns checks that one client cannot block others, and that all clients together cannot
// exceed the limit.
func TestMaxConns(t *testing.T) {
	address := start(t, httpserve.Options{MaxConns: 3, Handler: http.NotFoundHandler()})
	var first net.Conn
	for i, tt := range []struct {
		from string
		want bool
	}{
		{"127.0.0.1", true}, {"127.0.0.1", true}, {"127.0.0.1", true}, {"127.0.0.1", false},
		{"127.0.0.2", true}, {"127.0.0.3", true}, {"127.0.0.4", false},
	} {
		conn, got := request(t, address, tt.from, get)
		if got != tt.want {
			t.Errorf("connection %d, from %s: accepted %v", i, tt.from, got)
		}
		if i == 0 {
			first = conn
		}
	}
	_ = first.Close()
	for end := time.Now().Add(patient); ; {
		if _, ok := request(t, address, "127.0.0.1", get); ok {
			return
		}
		if time.Now().After(end) {
			t.Fatal("a closed connection still counts")
		}
	}
}

// TestSilentClients checks that silent connections, also with TLS, block no client, not even from
// the same address.
func TestSilentClients(t *testing.T) {
	ca := certtest.New(t)
	certificate, err := tls.LoadX509KeyPair(ca.Issue(t, "server").Write(t, t.TempDir(), "server"))
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]*tls.Config{"plain": nil, "TLS": {Certificates: []tls.Certificate{certificate}}} {
		t.Run(name, func(t *testing.T) {
			address := start(t, httpserve.Options{MaxConns: 10, TLSConfig: config, Handler: http.NotFoundHandler()})
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()},
				DisableKeepAlives: true}}
			scheme := "http://"
			if config != nil {
				scheme = "https://"
			}
			for range 3 {
				for range 20 {
					dial(t, address, "127.0.0.1")
				}
				answer, err := client.Get(scheme + address)
				if err != nil {
					t.Fatal(err)
				}
				_ = answer.Body.Close()
			}
		})
	}
}

// TestHeaders checks that headers with many lines are rejected, also while they arrive, and use
// little memory.
func TestHeaders(t *testing.T) {
	var waiting atomic.Int32
	end := make(chan struct{})
	address := start(t, httpserve.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); len(body) == 0 && r.URL.Path == "/wait" {
			waiting.Add(1)
			<-end
		}
	})})
	defer close(end)
	lines := func(n int) string {
		var out strings.Builder
		for i := range n {
			fmt.Fprintf(&out, "%c%c:\r\n", 'a'+i/26%26, 'a'+i%26)
		}
		return out.String()
	}
	body := strings.Repeat("\n", 5000)
	post := "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n" + body
	for name, tt := range map[string]struct {
		text string
		want bool
	}{
		"98 lines":        {"GET / HTTP/1.1\r\nHost: a\r\n" + lines(98) + "\r\n", true},
		"99 lines":        {"GET / HTTP/1.1\r\nHost: a\r\n" + lines(99) + "\r\n", false},
		"bare line feeds": {"GET / HTTP/1.1\nHost: a\n" + strings.ReplaceAll(lines(99), "\r", "") + "\n", false},
		"a body of lines": {post, true},
	} {
		conn, got := request(t, address, "127.0.0.1", tt.text)
		if got != tt.want {
			t.Errorf("%s: answered %v", name, got)
		}
		if _, err := io.WriteString(conn, tt.text); tt.want && err != nil {
			t.Errorf("%s, again: %v", name, err)
		} else if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); (err == nil) != tt.want {
			t.Errorf("%s, again: %v", name, err)
		} else if err == nil {
			_ = answer.Body.Close()
		}
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const count = 500
	for i := range count {
		header := "GET /wait HTTP/1.1\r\nHost: a\r\n" + lines(3000)
		if i%2 == 0 { // few enough lines to be answered, with as many bytes
			header = "GET /wait HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("x: "+strings.Repeat("x", 150)+"\r\n", 98) + "\r\n"
		}
		_, _ = io.WriteString(dial(t, address, "127.0.0.1"), header)
	}
	for stop := time.Now().Add(patient); waiting.Load() < count/2; time.Sleep(short) {
		if time.Now().After(stop) {
			t.Fatalf("%d requests arrived", waiting.Load())
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := (int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse)) >> 10
	t.Logf("%d headers hold %d KiB", count, held)
	if held > count*64 {
		t.Errorf("%d headers hold %d KiB", count, held)
	}
}

// TestAnswerBeforeBody checks that an answer ends soon if the client has stopped sending the body.
// It is not lost if the client continues.
func TestAnswerBeforeBody(t *testing.T) {
	address := start(t, httpserve.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	})})
	for name, sent := range map[string]int{"nothing": 0, "a part": 1 << 20, "almost all": 16<<20 - 1} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, address, "127.0.0.1")
			began := time.Now()
			go func() {
				head := "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 16777216\r\n\r\n"
				_, _ = io.WriteString(conn, head+strings.Repeat("x", sent))
			}()
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			content, err := io.ReadAll(response.Body)
			if err != nil || string(content) != "too large\n" {
				t.Errorf("%q, %v", content, err)
			}
			if took := time.Since(began); took > 20*time.Second { // BodyTimeout is 30 s
				t.Errorf("the answer took %v", took)
			}
		})
	}
}

func TestHosts(t *testing.T) {
	refuse := http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusMisdirectedRequest)
	})
	handler := httpserve.Hosts([]string{"hub.example.com", "10.0.0.1", "2001:db8::1"}, http.NotFoundHandler(), refuse)
	for host, want := range map[string]bool{
		"localhost:8080": true, "127.0.0.1": true, "[::1]:80": true, "": true, "HUB.example.com": true,
		"hub.example.com:8080": true, "hub.example.com.": true,
		"10.0.0.1:80": true, "[2001:db8::1]": true, "10.0.0.2": false, "evil.example": false,
		"hub.example.com.evil.example": false, "localhost.evil.example": false,
	} {
		answer := &recorder{header: http.Header{}}
		handler.ServeHTTP(answer, &http.Request{Host: host})
		if got := answer.code == http.StatusNotFound; got != want {
			t.Errorf("%q: answered %v", host, got)
		}
	}
	for host, want := range map[string]bool{"a.b": true, "10.0.0.1": true, "::1": true, "": false, "a:80": false,
		"*": false, "http://a": false} {
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
