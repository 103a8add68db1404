// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpserve_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/httpserve"
)

// TestTurns checks that a limited number of requests is handled at a time, and fewer of one client.
// Other requests are not blocked by a client that does not send its body or read its answer, or by
// a handler that waits.
func TestTurns(t *testing.T) {
	var handling, most atomic.Int32
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/waits", func(_ http.ResponseWriter, r *http.Request) {
		httpserve.EndTurn(r.Context())
		<-release
	})
	mux.Handle("/large", httpserve.Buffered(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 20<<20))
	})))
	mux.HandleFunc("/held", func(http.ResponseWriter, *http.Request) {
		now := handling.Add(1)
		for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
		}
		<-release
		handling.Add(-1)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if errors.As(err, new(*http.MaxBytesError)) {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		_, _ = fmt.Fprintf(w, "%s %v", body, err)
	})
	address := start(t, httpserve.Options{Handler: mux, MaxBody: 100})
	post := func(path string, length int, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", path, length, body)
	}
	expect := func(from, request, want string) {
		t.Helper()
		conn := dial(t, address, from)
		_ = conn.SetDeadline(time.Now().Add(patient))
		_, _ = io.WriteString(conn, request)
		answer := make([]byte, 1000)
		n, err := io.ReadAtLeast(conn, answer, len(want))
		for err == nil && !strings.Contains(string(answer[:n]), want) {
			var more int
			more, err = conn.Read(answer[n:])
			n += more
		}
		if err != nil {
			t.Errorf("got %q, %v, want %q", answer[:n], err, want)
		}
	}
	for range 30 {
		for _, request := range []string{post("/", 10, "x"), post("/waits", 1, "x"), post("/large", 1, "x")} {
			_, _ = io.WriteString(dial(t, address, "127.0.0.1"), request)
		}
	}
	expect("127.0.0.1", post("/", 5, "12345"), "12345 <nil>")
	expect("127.0.0.1", post("/", 101, strings.Repeat("x", 101)), " 413 ")
	expect("127.0.0.1", post("/", 100, strings.Repeat("x", 100)), "xx <nil>")
	for range 30 {
		_, _ = io.WriteString(dial(t, address, "127.0.0.1"), post("/held", 1, "x"))
	}
	for end := time.Now().Add(patient); handling.Load() < 12 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	expect("127.0.0.2", post("/", 5, "12345"), "12345 <nil>")
	close(release)
	if n := most.Load(); n != 12 {
		t.Errorf("%d requests of a client at a time, want 12", n)
	}
}

// TestLargeBodiesTakeTurns checks that requests with large bodies are handled one at a time, and do
// not block small requests.
func TestLargeBodiesTakeTurns(t *testing.T) {
	begun, release := make(chan struct{}, 20), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/held", func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-release
	})
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	url := "http://" + start(t, httpserve.Options{Handler: mux, MaxBody: 1 << 20})
	post := func(path string, size int) {
		response, err := http.Post(url+path, "", strings.NewReader(strings.Repeat("x", size)))
		if err != nil {
			t.Error(err)
			return
		}
		_ = response.Body.Close()
	}
	var large sync.WaitGroup
	for range 20 {
		large.Go(func() { post("/held", 100_000) })
	}
	<-begun
	for range 3 {
		post("/", 50_000)
	}
	if n := len(begun); n > 0 {
		t.Errorf("%d more large bodies are handled at the same time", n)
	}
	close(release)
	large.Wait()
}
