// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/wait"
)

// Options configures a [Page]. The zero value is ready to use.
type Options struct {
	// Title is the title of the page. Defaults to "Spokewire hub".
	Title string
	// Interval is the minimum time between two reads of the state. Defaults to 250 ms.
	Interval time.Duration
	// MaxReaders is the maximum number of browsers with live updates; others get the status 503.
	// Defaults to 100.
	MaxReaders int
	// WriteTimeout is the maximum time to send a message to a browser, after which it is
	// disconnected. Defaults to 10 s.
	WriteTimeout time.Duration
}

const (
	// beat is the interval of messages on an idle connection, which detect a lost connection on
	// both sides.
	beat = 15 * time.Second
	// maxQuery is the maximum length of a filter, in bytes.
	maxQuery = 256
)

// policy allows only the files of this package.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Page serves the status page at /, and its files: page.css, page.js, icon.svg and events. Links
// are relative, so it may also be served below a path, with [http.StripPrefix]. It may be used
// concurrently.
type Page struct {
	hub   Hub
	opts  Options
	epoch string // distinguishes the versions of other processes
	mux   *http.ServeMux

	readers chan struct{} // has an element for each browser with live updates
	closing chan struct{}
	close   func() // closes closing once

	mu     sync.Mutex
	board  board
	looked time.Time // when the state was last read

	// signal guards the following fields, and is never held for long: Changed may be called while
	// the hub holds any mutex, also one that State locks.
	signal sync.Mutex
	dirty  bool
	news   wait.Broadcast // woken by Changed
}

// New returns the page of a hub. It starts no goroutines.
func New(hub Hub, opts Options) (*Page, error) {
	if hub == nil {
		return nil, errors.New("page: a Hub is required")
	}
	if opts.Interval < 0 || opts.MaxReaders < 0 || opts.WriteTimeout < 0 {
		return nil, errors.New("page: Options: Interval, MaxReaders and WriteTimeout must not be negative")
	}
	opts.Title = cmp.Or(opts.Title, "Spokewire hub")
	opts.Interval = cmp.Or(opts.Interval, 250*time.Millisecond)
	opts.MaxReaders = cmp.Or(opts.MaxReaders, 100)
	opts.WriteTimeout = cmp.Or(opts.WriteTimeout, 10*time.Second)
	p := &Page{
		hub: hub, opts: opts, epoch: rand.Text()[:10], mux: http.NewServeMux(),
		closing: make(chan struct{}), readers: make(chan struct{}, opts.MaxReaders),
		board: board{elements: map[string]*element{}, gone: map[string]uint64{}},
	}
	p.close = sync.OnceFunc(func() { close(p.closing) })
	p.Changed() // the first state is new
	p.mux.HandleFunc("GET /{$}", p.servePage)
	p.mux.HandleFunc("GET /events", p.serveEvents)
	for name, contentType := range map[string]string{
		"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		content, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		p.mux.HandleFunc("GET /"+name, serveFile(content, contentType))
	}
	return p, nil
}

// Changed reports that the hub's state has changed. It returns at once, and may be called at any
// rate.
func (p *Page) Changed() {
	p.signal.Lock()
	defer p.signal.Unlock()
	p.dirty = true
	p.news.Wake()
}

// Close ends the streams of all browsers, which reconnect until the server stops. Other requests
// are still served. It is idempotent.
func (p *Page) Close() { p.close() }

// ServeHTTP serves the page.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	p.mux.ServeHTTP(w, r)
}

func (p *Page) servePage(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query().Get("q")
	if len(query) > maxQuery {
		http.Error(w, fmt.Sprintf("q: must have at most %d bytes, not %d", maxQuery, len(query)), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	p.refresh(r.Context())
	v := p.board.page(p.opts.Title, p.version(), query)
	p.mu.Unlock()

	var body bytes.Buffer
	if err := templates.ExecuteTemplate(&body, "page", v); err != nil {
		klog.FromContext(r.Context()).Error(err, "Failed to render the status page")
		http.Error(w, "the page cannot be rendered: see the log", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept-Encoding")
	// not supported by every writer
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(p.opts.WriteTimeout))
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = compressed(body)
	}
	_, _ = body.WriteTo(w)
}

var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// compressed compresses a whole page before it is sent: a compressor takes 800 KiB, and a browser
// may read slowly.
func compressed(body bytes.Buffer) (out bytes.Buffer) {
	z := compressors.Get().(*gzip.Writer)
	defer compressors.Put(z)
	z.Reset(&out)
	_, _ = body.WriteTo(z) // buffers have no errors
	_ = z.Close()
	return out
}

// serveFile serves an embedded file. Browsers validate their cached copy on each use.
func serveFile(content []byte, contentType string) http.HandlerFunc {
	etag := fmt.Sprintf(`"%x"`, sha256.Sum256(content))
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", etag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}
}

// refresh reads the hub's state if it changed since the last read and Interval has passed. It
// returns a channel that is closed at the next change, and how long to wait if the state has
// changed but Interval has not passed. The caller holds mu.
func (p *Page) refresh(ctx context.Context) (<-chan struct{}, time.Duration) {
	p.signal.Lock()
	changed, dirty, pause := p.news.Next(), p.dirty, time.Until(p.looked.Add(p.opts.Interval))
	p.dirty = dirty && pause > 0 // before the read, so that a concurrent change is not lost
	p.signal.Unlock()
	if !dirty {
		return changed, 0
	}
	if pause > 0 {
		return changed, pause
	}
	p.looked = time.Now()
	if err := p.board.show(p.hub.State()); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to render a part of the status page, keeping the previous part")
	}
	return changed, 0
}

// version returns the version of the board, as browsers send it. The caller holds mu.
func (p *Page) version() string { return fmt.Sprintf("%s.%d", p.epoch, p.board.version) }

// serveEvents sends changes to one browser until it disconnects. Each message is created when the
// browser is ready for it, so a slow browser gets fewer and larger messages, and delays no other.
func (p *Page) serveEvents(w http.ResponseWriter, r *http.Request) {
	select {
	case p.readers <- struct{}{}:
		defer func() { <-p.readers }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d browsers are connected already; reload the page manually", p.opts.MaxReaders),
			http.StatusServiceUnavailable)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // for nginx, which would buffer events

	// After a lost connection the browser sends its last version.
	version, known := p.parse(cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("since")))
	send := func(message []byte) error {
		out := http.NewResponseController(w)
		_ = out.SetWriteDeadline(time.Now().Add(p.opts.WriteTimeout)) // not supported by every writer
		if _, err := w.Write(message); err != nil {
			return err
		}
		return out.Flush()
	}
	if err := http.NewResponseController(w).Flush(); errors.Is(err, http.ErrNotSupported) {
		klog.FromContext(r.Context()).Error(err,
			"Failed to stream events to the status page: the server hides http.Flusher")
		http.Error(w, "this server cannot send events", http.StatusNotImplemented)
		return
	}
	if send([]byte("retry: 2000\n\n")) != nil {
		return
	}
	for {
		message, now, err := p.next(r.Context(), version, known)
		if err == nil {
			err = send(message)
		}
		if err != nil {
			if r.Context().Err() == nil {
				klog.FromContext(r.Context()).V(2).Info("Disconnected a browser from the status page", "reason",
					err.Error())
			}
			return
		}
		version, known = now, true
	}
}

// next waits for a version that is newer than version and returns its event, or a beat after a
// while without changes.
func (p *Page) next(ctx context.Context, version uint64, known bool) ([]byte, uint64, error) {
	quiet := time.NewTimer(beat)
	defer quiet.Stop()
	for {
		p.mu.Lock()
		changed, pause := p.refresh(ctx)
		now, name, u := p.board.version, p.version(), p.board.since(version, known)
		p.mu.Unlock()
		if !known || now != version {
			message, err := event(name, u)
			return message, now, err
		}
		var again <-chan time.Time
		if pause > 0 { // changes in quick succession are sent together
			changed, again = nil, time.After(pause)
		}
		select {
		case <-changed:
		case <-again:
		case <-quiet.C:
			return []byte("event: beat\ndata:\n\n"), version, nil
		case <-p.closing:
			return nil, version, http.ErrServerClosed
		case <-ctx.Done():
			return nil, version, ctx.Err()
		}
	}
}

// event returns an update as a server-sent event. JSON has no line breaks, which would end the
// event.
func event(version string, u update) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "id: %s\nevent: change\ndata: ", version)
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // unnecessary outside a page, and a third longer
	if err := encoder.Encode(u); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// parse parses the result of [Page.version]. An invalid version, or one of another process, is not
// known.
func (p *Page) parse(text string) (version uint64, known bool) {
	epoch, number, _ := strings.Cut(text, ".")
	version, err := strconv.ParseUint(number, 10, 64)
	return version, err == nil && epoch == p.epoch
}
