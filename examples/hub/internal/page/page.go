// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/internal/httpserve"
)

//go:embed page.html page.css page.js icon.svg
var files embed.FS

// Hub provides the state that the page shows. Its results must not change.
type Hub interface {
	State(ctx context.Context) status.Hub
	// Application and Cluster return details, and whether they exist.
	Application(ctx context.Context, name string) (status.Application, bool)
	Cluster(ctx context.Context, name string) (status.Cluster, bool)
	Revisions
	// Control makes a change that a person requests for an application.
	Control(ctx context.Context, application string, c status.Control) (status.RolledBack, error)
}

// Revisions provides the revisions of applications.
type Revisions interface {
	// History returns the newest revisions first, and Diff the differences between two.
	History(ctx context.Context) ([]status.Revision, error)
	Diff(ctx context.Context, application string, from, to int) ([]status.Change, error)
}

// Options configures a [Page]. The zero value is ready to use.
type Options struct {
	// Interval is the minimum time between two reads of the state. Defaults to 250 ms.
	Interval time.Duration
	// MayEdit reports whether a request may change applications. By default no request may.
	MayEdit func(*http.Request) bool
}

const (
	// maxAge is the age after which the state is read again without a change: links have no events.
	maxAge = 5 * time.Second
	// share is the inverse of the share of time that reads of the state may take.
	share = 10
	// maxQuery is the maximum length of a filter, and maxForm that of a form, in bytes.
	maxQuery, maxForm = 256, 8 << 10
)

// policy allows only the files of this package.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Page serves the status page at /, the pages below it, and its files. Links are relative, so it may
// also be served below a path, with [http.StripPrefix]. It may be used concurrently.
type Page struct {
	hub  Hub
	opts Options
	mux  *http.ServeMux

	mu    sync.Mutex // held during a read
	state status.Hub
	began time.Time // of the last read
	took  time.Duration

	dirty atomic.Bool // needs no mutex: Changed may be called while the hub holds any
}

// New returns the page of a hub. It starts no goroutines.
func New(hub Hub, opts Options) (*Page, error) {
	if hub == nil {
		return nil, errors.New("page: a Hub is required")
	}
	if opts.Interval < 0 {
		return nil, errors.New("page: Options.Interval must not be negative")
	}
	opts.Interval = cmp.Or(opts.Interval, 250*time.Millisecond)
	if opts.MayEdit == nil {
		opts.MayEdit = func(*http.Request) bool { return false }
	}
	p := &Page{hub: hub, opts: opts, mux: http.NewServeMux()}
	for pattern, show := range map[string]func(*view) error{
		"GET /{$}": (*view).overview, "GET /applications": (*view).applications, "GET /clusters": (*view).clusters,
		"GET /history": (*view).history, "GET /applications/{name}": (*view).application,
		"GET /clusters/{name}": (*view).cluster, "GET /applications/{name}/{cluster}": (*view).placement,
	} {
		p.mux.HandleFunc(pattern, p.serve(show))
	}
	p.mux.Handle("POST /applications/{name}", http.NewCrossOriginProtection().Handler(http.HandlerFunc(p.control)))
	for name, contentType := range map[string]string{
		"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		content, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		p.mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			httpserve.Content(w, r, contentType, content)
		})
	}
	return p, nil
}

// Changed reports that the hub's state has changed. It returns at once, and may be called at any
// rate.
func (p *Page) Changed() { p.dirty.Store(true) }

// State returns the state of the hub. It is as old as the last change, or less than 5 s, unless the
// state is so large that reading it takes long.
func (p *Page) State(ctx context.Context) status.Hub {
	p.mu.Lock()
	defer p.mu.Unlock()
	age := time.Since(p.began)
	dirty := p.dirty.Load() || age >= maxAge
	if p.began.IsZero() || dirty && age >= max(p.opts.Interval, share*p.took) {
		p.dirty.Store(false) // before the read, so that a concurrent change is not lost
		p.began = time.Now()
		p.state = p.hub.State(context.WithoutCancel(ctx)) // for other browsers too
		p.took = time.Since(p.began)
	}
	return p.state
}

// ServeHTTP serves the page.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers hide the origin of forms
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	p.mux.ServeHTTP(w, r)
}

const htmlType = "text/html; charset=utf-8"

var errNotFound = errors.New("not found")

// serve returns the handler of a page. show fills its view.
func (p *Page) serve(show func(*view) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query().Get("q"); len(q) > maxQuery {
			http.Error(w, fmt.Sprintf("q: must have at most %d bytes, not %d", maxQuery, len(q)), http.StatusBadRequest)
			return
		}
		v := &view{
			Hub: p.State(r.Context()), Query: r.URL.Query(), request: r, hub: p.hub, MayEdit: p.opts.MayEdit(r),
			// Names are escaped, so each slash after the first is a level.
			Root: strings.Repeat("../", max(0, strings.Count(r.URL.EscapedPath(), "/")-1)),
		}
		var body bytes.Buffer
		err, code := show(v), http.StatusOK
		if v.Failed != "" {
			code = http.StatusConflict
		}
		if errors.Is(err, errNotFound) {
			v.Kind, v.Heading, err, code = "missing", "Not found", nil, http.StatusNotFound
		}
		if err == nil {
			err = templates.ExecuteTemplate(&body, "page", v)
		}
		switch {
		case err != nil:
			klog.FromContext(r.Context()).Error(err, "Failed to render the status page")
			http.Error(w, "the page cannot be rendered: see the log", http.StatusInternalServerError)
		case code != http.StatusOK:
			w.Header().Set("Content-Type", htmlType)
			w.WriteHeader(code)
			_, _ = body.WriteTo(w)
		default:
			httpserve.Content(w, r, htmlType, body.Bytes())
		}
	}
}

// Link returns a relative link to a page of the hub.
func (v *view) Link(parts ...string) template.URL {
	for i, part := range parts {
		parts[i] = url.PathEscape(part[:min(len(part), MaxText)])
	}
	return template.URL(cmp.Or(v.Root, "./") + strings.Join(parts, "/")) // escaped
}
