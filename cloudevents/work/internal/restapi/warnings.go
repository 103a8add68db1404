// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/warning"
)

// withWarnings adds the warnings of a handler to its response, like [filters.WithWarningRecorder].
// In addition, goroutines of the handler may outlive it: those of a request whose context has ended
// still add warnings, which are then dropped.
func withWarnings(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner := &warned{ResponseWriter: w, added: http.Header{}}
		filters.WithWarningRecorder(http.HandlerFunc(func(_ http.ResponseWriter, recorded *http.Request) {
			inner.recorded = recorded.Context()
			handler.ServeHTTP(inner, r.WithContext(warning.WithWarningRecorder(recorded.Context(), inner)))
		})).ServeHTTP(headerOnly{inner.added}, r)
	})
}

// headerOnly is where the recorder of package filters adds the header Warning.
type headerOnly struct{ header http.Header }

func (h headerOnly) Header() http.Header         { return h.header }
func (h headerOnly) Write(p []byte) (int, error) { return len(p), nil }
func (h headerOnly) WriteHeader(int)             {}

// warned is the writer of a response with warnings.
type warned struct {
	http.ResponseWriter
	recorded context.Context //nolint:containedctx // of the recorder
	once     sync.Once

	mu    sync.Mutex
	added http.Header
}

// AddWarning implements [warning.Recorder].
func (w *warned) AddWarning(agent, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	warning.AddWarning(w.recorded, agent, text)
}

// complete adds the warnings to the header, once.
func (w *warned) complete() {
	w.once.Do(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, text := range w.added["Warning"] {
			w.Header().Add("Warning", text)
		}
	})
}

// WriteHeader implements [http.ResponseWriter].
func (w *warned) WriteHeader(code int) {
	w.complete()
	w.ResponseWriter.WriteHeader(code)
}

// Write implements [http.ResponseWriter].
func (w *warned) Write(p []byte) (int, error) {
	w.complete()
	return w.ResponseWriter.Write(p)
}

// Flush implements [http.Flusher].
func (w *warned) Flush() {
	w.complete()
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Hijack implements [http.Hijacker]. Warnings of a hijacked connection are dropped.
func (w *warned) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Unwrap is for [http.ResponseController].
func (w *warned) Unwrap() http.ResponseWriter { return w.ResponseWriter }
