// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/page"
)

// pipes is a listener with unbuffered in-memory connections. They do not stop the clock of a
// synctest bubble, and a client that does not read blocks the server immediately.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// serve runs a server for the page until the end of the test, and returns a client for it.
func serve(t *testing.T, p http.Handler) *http.Client {
	t.Helper()
	client, _ := serveCounted(t, p)
	return client
}

// serveCounted is serve with a count of the connections of the client.
func serveCounted(t *testing.T, p http.Handler) (*http.Client, *atomic.Int32) {
	t.Helper()
	dialled := &atomic.Int32{}
	listener := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: p}
	if closer, ok := p.(interface{ Close() }); ok {
		server.RegisterOnShutdown(closer.Close)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		dialled.Add(1)
		near, far := net.Pipe()
		listener.conns <- far
		return near, nil
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		// Without Close of the page, Shutdown would wait for the streams forever.
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return &http.Client{Transport: transport}, dialled
}

// change is an event as the page's script reads it.
type change struct {
	id    string
	Reset bool
	Set   []string
	Gone  []string
	bytes int
}

// ids returns the IDs of the elements that a change sets.
func (c change) ids() []string {
	found := []string{}
	for _, html := range c.Set {
		_, rest, _ := strings.Cut(html, ` id="`)
		id, _, _ := strings.Cut(rest, `"`)
		found = append(found, id)
	}
	return found
}

// stream reads the events of a page, like the EventSource of a browser.
type stream struct {
	t     *testing.T
	body  io.ReadCloser
	lines *bufio.Reader
}

func follow(t *testing.T, client *http.Client, since string) *stream {
	t.Helper()
	answer, err := client.Get("http://hub/events?since=" + since)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s %s", answer.Status, answer.Header.Get("Content-Type"))
	}
	t.Cleanup(func() { answer.Body.Close() })
	return &stream{t: t, body: answer.Body, lines: bufio.NewReader(answer.Body)}
}

// next returns the name and the content of the next event.
func (s *stream) next() (name string, c change) {
	s.t.Helper()
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			s.t.Fatalf("the stream ended: %v", err)
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			c.id = value
		case "event":
			name = value
		case "data":
			c.bytes = len(value)
			if err := json.Unmarshal([]byte(value), &c); err != nil {
				s.t.Fatalf("%q: %v", value, err)
			}
		case "":
			if name != "" {
				return name, c
			}
		}
	}
}

func (s *stream) change() change {
	s.t.Helper()
	name, c := s.next()
	if name != "change" {
		s.t.Fatalf("event %q, want a change", name)
	}
	return c
}

// current returns the version that a browser has after it loaded the page.
func current(t *testing.T, client *http.Client) string {
	t.Helper()
	answer, err := client.Get("http://hub/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(body), `data-version="`)
	version, _, _ := strings.Cut(rest, `"`)
	return version
}

func word(word string) func(*page.State) {
	return func(s *page.State) { s.Clusters[0].Status.Word = word }
}

func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{state: small()}
		p := newPage(t, h, page.Options{})
		client := serve(t, p)
		browser := follow(t, client, current(t, client))

		h.edit(word("Gone"))
		p.Changed()
		c := browser.change()
		if !slices.Equal(c.ids(), []string{"clusters/cluster2"}) || c.Reset || c.Gone != nil {
			t.Errorf("a changed row brings %v, gone %v, reset %v", c.ids(), c.Gone, c.Reset)
		}
		if !strings.Contains(c.Set[0], "Gone") {
			t.Errorf("the row is %s", c.Set[0])
		}

		h.edit(func(s *page.State) {
			s.Works = append(s.Works[:1], page.Work{Cluster: "cluster3", Name: "new"})
			s.Input.Error = ""
		})
		p.Changed()
		c = browser.change()
		if want := []string{"input", "works/cluster3/new"}; !slices.Equal(c.ids(), want) {
			t.Errorf("set %v, want %v", c.ids(), want)
		}
		if !slices.Equal(c.Gone, []string{"works/cluster2/shop-web"}) {
			t.Errorf("gone %v", c.Gone)
		}
	})
}

// TestInvisibleChange checks that an invisible change is not sent, and that an idle stream receives a
// heartbeat.
func TestInvisibleChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{state: small()}
		p := newPage(t, h, page.Options{})
		client := serve(t, p)
		browser := follow(t, client, current(t, client))
		started := time.Now()
		h.edit(func(s *page.State) { s.Input.Taken = s.Input.Taken.In(time.FixedZone("CET", 3600)) })
		p.Changed()
		if name, _ := browser.next(); name != "beat" {
			t.Errorf("event %q, want a beat", name)
		}
		if took := time.Since(started); took != 15*time.Second {
			t.Errorf("the first beat came after %v", took)
		}
	})
}

// TestCoalesced checks that many changes result in few events and few reads of the state. The last
// change is always sent.
func TestCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{state: small()}
		p := newPage(t, h, page.Options{Interval: 250 * time.Millisecond})
		client := serve(t, p)
		version := current(t, client)
		browsers := []*stream{follow(t, client, version), follow(t, client, version), follow(t, client, version)}
		var all sync.WaitGroup
		all.Go(func() {
			for i := range 1001 {
				h.edit(word(fmt.Sprintf("State%04d", i)))
				p.Changed()
				time.Sleep(2 * time.Millisecond)
			}
		})
		for _, browser := range browsers {
			all.Go(func() {
				events := 0
				for last := false; !last; events++ {
					_, c := browser.next()
					last = strings.Contains(c.Set[0], "State1000")
				}
				if events < 8 || events > 10 {
					t.Errorf("%d events in two seconds, want 4 a second and the last", events)
				}
			})
		}
		all.Wait()
		if looks := h.looked(); looks > 10 {
			t.Errorf("the state was looked at %d times in two seconds for three browsers", looks)
		}
	})
}

// TestIdle checks that changes cost nothing without a reader.
func TestIdle(t *testing.T) {
	h := &hub{state: small()}
	p := newPage(t, h, page.Options{})
	for range 1000 {
		p.Changed()
	}
	if h.looked() != 0 {
		t.Errorf("the state was looked at %d times for nobody", h.looked())
	}
}

// TestCatchUp checks that a browser that reconnects receives the missed changes, or everything if
// they are unknown.
func TestCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{state: small()}
		p := newPage(t, h, page.Options{})
		client := serve(t, p)
		version := current(t, client)
		for i := range 3 {
			h.edit(word(fmt.Sprintf("State%d", i)))
			p.Changed()
			time.Sleep(time.Second)
			current(t, client) // reads the state
		}
		h.edit(func(s *page.State) { s.Works = s.Works[:1] })
		p.Changed()
		time.Sleep(time.Second)

		c := follow(t, client, version).change()
		if want := []string{"works.summary", "clusters/cluster2"}; c.Reset || !slices.Equal(c.ids(), want) ||
			len(c.Gone) != 1 {
			t.Errorf("missed: set %v, gone %v, reset %v", c.ids(), c.Gone, c.Reset)
		}

		request, _ := http.NewRequest(http.MethodGet, "http://hub/events?since="+version, nil)
		request.Header.Set("Last-Event-ID", c.id)
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		again := &stream{t: t, body: answer.Body, lines: bufio.NewReader(answer.Body)}
		if name, _ := again.next(); name != "beat" {
			t.Errorf("event %q after the last one was seen, want only a beat: the header is newer than the address", name)
		}

		for _, unknown := range []string{"", "OTHER.3", "nonsense", version + "x", "." + version,
			strings.Split(version, ".")[0] + ".99999"} {
			c := follow(t, client, unknown).change()
			if !c.Reset || len(c.Set) != 5+6 || c.Gone != nil {
				t.Errorf("version %q: reset %v with %d elements, gone %v", unknown, c.Reset, len(c.Set), c.Gone)
			}
		}
	})
}

// TestDeletedRowsAreBounded checks that the number of remembered deleted rows is bounded.
func TestDeletedRowsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{state: large(2, 1500)}
		p := newPage(t, h, page.Options{})
		client := serve(t, p)
		version := current(t, client)
		h.edit(func(s *page.State) { s.Works = nil })
		p.Changed()
		time.Sleep(time.Second)
		c := follow(t, client, version).change()
		if !c.Reset || c.Gone != nil ||
			slices.ContainsFunc(c.ids(), func(id string) bool { return strings.HasPrefix(id, "works/") }) {
			t.Errorf("reset %v, %d gone, set %v", c.Reset, len(c.Gone), c.ids())
		}
	})
}

// TestSlowReader checks that a browser that does not read is disconnected. Neither the hub nor
// other browsers wait for it.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{state: small()}
		p := newPage(t, h, page.Options{MaxReaders: 2, WriteTimeout: 10 * time.Second})
		client := serve(t, p)
		version := current(t, client)
		follow(t, client, version) // reads only the headers
		fast := follow(t, client, version)
		full, err := client.Get("http://hub/events")
		if err != nil {
			t.Fatal(err)
		}
		full.Body.Close()
		if full.StatusCode != http.StatusServiceUnavailable || full.Header.Get("Retry-After") == "" {
			t.Errorf("a third browser: %s", full.Status)
		}
		started := time.Now()
		for i := range 50 {
			h.edit(word(fmt.Sprintf("State%d", i)))
			p.Changed()
			if c := fast.change(); !strings.Contains(c.Set[0], fmt.Sprintf("State%d<", i)) {
				t.Fatalf("change %d is %s", i, c.Set[0])
			}
		}
		if took := time.Since(started); took > 13*time.Second {
			t.Errorf("50 changes took %v", took)
		}
		time.Sleep(10 * time.Second)
		if c := follow(t, client, ""); !c.change().Reset { // a connection is free again
			t.Error("the first event of a new browser is not everything")
		}
	})
}

type hubFunc func() page.State

func (f hubFunc) State() page.State { return f() }

// TestChangedUnderLock checks that a call of Changed under the lock of State does not deadlock,
// and that no change is lost.
func TestChangedUnderLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{state: small()}
		var p *page.Page
		p = newPage(t, hubFunc(func() page.State {
			state := h.State()
			h.edit(func(s *page.State) {
				if s.Clusters[0].Status.Word != "Last" {
					s.Clusters[0].Status.Word = "Last"
					p.Changed() // while the page reads the state
				}
			})
			return state
		}), page.Options{})
		client := serve(t, p)
		if c := follow(t, client, current(t, client)).change(); !strings.Contains(c.Set[0], "Last") {
			t.Errorf("a change while the page looked is shown as %s", c.Set[0])
		}
	})
}

// TestClose checks that Close ends the streams immediately, which a server needs to shut down. The
// page itself is still served.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPage(t, &hub{state: small()}, page.Options{})
		client := serve(t, p)
		browser := follow(t, client, current(t, client))
		p.Close()
		p.Close()
		if rest, err := io.ReadAll(browser.lines); err != nil || string(rest) != "retry: 2000\n\n" {
			t.Errorf("the stream ends with %q, %v", rest, err)
		}
		if current(t, client) == "" {
			t.Error("the page is not served any more")
		}
	})
}

// TestKeepAlive checks that the write timeout of one response does not end the next response
// on the same connection.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, dialled := serveCounted(t, newPage(t, &hub{state: small()}, page.Options{WriteTimeout: time.Second}))
		for _, path := range []string{"/", "/page.css", "/", "/nowhere"} {
			answer, err := client.Get("http://hub" + path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(answer.Body); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			answer.Body.Close()
			time.Sleep(time.Minute)
		}
		if n := dialled.Load(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	})
}

// TestStreamWithoutFlusher checks that the stream is answered with 501 if a handler around the page
// prevents flushing.
func TestStreamWithoutFlusher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPage(t, &hub{}, page.Options{})
		client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.ServeHTTP(struct{ http.ResponseWriter }{w}, r) // hides Flush
		}))
		answer, err := client.Get("http://hub/events")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusNotImplemented {
			t.Errorf("%s", answer.Status)
		}
	})
}
