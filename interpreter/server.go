// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/httpserve"
)

const (
	healthPath = "/healthz"
	readyPath  = "/readyz"
)

// Server serves handlers over TLS. Its methods may be called from any goroutine.
type Server struct {
	options      ServerOptions
	certificates *certificates
	metrics      *handlerMetrics
	places       *places
	memory       *memory
	mux          *http.ServeMux
	ready        chan struct{}
	serving      atomic.Bool

	mu      sync.Mutex
	paths   map[string]bool
	errs    []error // of Register, for Start
	started bool
	addr    net.Addr
}

// NewServer returns a server that is not started. The error names the invalid option.
func NewServer(options ServerOptions) (*Server, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	options = options.withDefaults()
	s := &Server{
		options: options, certificates: newCertificates(&options), metrics: newHandlerMetrics(options.MetricsRegisterer),
		places: newPlaces(options.MaxConcurrent), memory: newMemory(options.MaxBytes),
		mux: http.NewServeMux(), ready: make(chan struct{}),
		paths: map[string]bool{healthPath: true, readyPath: true},
	}
	s.mux.HandleFunc(healthPath, func(w http.ResponseWriter, _ *http.Request) { probe(w, true) })
	s.mux.HandleFunc(readyPath, func(w http.ResponseWriter, _ *http.Request) { probe(w, s.serving.Load()) })
	return s, nil
}

func probe(w http.ResponseWriter, ok bool) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("stopping\n"))
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// Register adds a handler at a path. A path that ends with / includes all paths below it. Register
// returns an error if the path is invalid or taken, the handler is invalid, or the server has started
// ([ErrServerStarted]). Start returns the same error.
func Register(s *Server, path string, h Handler) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return fmt.Errorf("register %s: %w", path, ErrServerStarted)
	}
	err := checkPath(path)
	typed, _ := h.(interface{ valid() error })
	switch {
	case err != nil:
	case h == nil:
		err = errors.New("the handler is nil")
	case s.paths[path]:
		err = errors.New("already registered")
	case typed != nil:
		err = typed.valid()
	}
	if err != nil {
		err = fmt.Errorf("register %q: %w", path, err)
		s.errs = append(s.errs, err)
		return err
	}
	s.paths[path] = true
	s.mux.Handle(path, s.authenticated(&endpoint{handler: h, metrics: s.metrics, places: s.places, memory: s.memory,
		options: HandlerOptions{Name: path, MaxBytes: s.options.MaxBytes, Timeout: s.options.Timeout}}))
	return nil
}

// checkPath returns an error for a path that requests cannot have. Paths are also names in metrics.
func checkPath(p string) error {
	switch {
	case !strings.HasPrefix(p, "/"), strings.ContainsAny(p, "{}%?# "), strings.ContainsFunc(p, unicode.IsControl),
		!utf8.ValidString(p):
		return errors.New("a path must begin with /, without {}%?#, spaces and control characters")
	case strings.TrimSuffix(path.Clean(p), "/") != strings.TrimSuffix(p, "/"):
		return fmt.Errorf("not a clean path: use %s", path.Clean(p))
	}
	return nil
}

func (s *Server) authenticated(e *endpoint) http.Handler {
	if s.options.ClientCAFile == "" {
		return e
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.certificates.checkClient(r.TLS); err != nil {
			e.metrics.begin(e.options.Name)("", http.StatusUnauthorized)
			e.status(w, http.StatusUnauthorized, err.Error(), "")
			return
		}
		e.ServeHTTP(w, r)
	})
}

// Ready returns a channel that is closed when the server accepts connections.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr returns the address of the listener, or nil before Ready.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Start serves until ctx ends. Then it accepts no new connections, waits for requests in progress,
// at most [ServerOptions].ShutdownTimeout, and returns nil. It returns an error at once if a
// handler could not be registered, the certificate cannot be read, or the server cannot listen at
// the address. A second call returns [ErrServerStarted].
func (s *Server) Start(ctx context.Context) error {
	listener, err := s.begin(ctx)
	if err != nil {
		return err
	}
	logger := klog.FromContext(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- httpserve.Serve(ctx, listener, httpserve.Options{
			Handler: s.mux, TLSConfig: s.certificates.config(),
			BodyTimeout:   s.options.Timeout + 10*time.Second,
			AnswerTimeout: 2*s.options.Timeout + 20*time.Second,
			IdleTimeout:   2 * time.Minute, ShutdownTimeout: s.options.ShutdownTimeout, KeepRequests: true,
		})
	}()
	s.serving.Store(true)
	close(s.ready)
	logger.Info("Started webhook server", "address", listener.Addr().String())
	stop := context.AfterFunc(ctx, func() { s.serving.Store(false) })
	defer stop()
	err = <-ended
	s.serving.Store(false)
	if err != nil {
		return fmt.Errorf("serve at %s: %w", listener.Addr(), err)
	}
	return nil
}

// begin checks the registrations and the certificates, and listens.
func (s *Server) begin(ctx context.Context) (net.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return nil, ErrServerStarted
	}
	s.started = true
	if err := errors.Join(s.errs...); err != nil {
		return nil, err
	}
	s.certificates.logger = klog.FromContext(ctx)
	if err := s.certificates.load(); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.options.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", s.options.Addr, err)
	}
	s.addr = listener.Addr()
	return listener, nil
}
