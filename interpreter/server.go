// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"cmp"
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

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/httpserve"
)

const (
	healthPath = "/healthz"
	readyPath  = "/readyz"
)

// ServerOptions configures a [Server]. Only CertDir is required.
type ServerOptions struct {
	// Addr is the address to listen at, host:port. Defaults to ":9443". Port 0 selects a free port:
	// see [Server].Addr.
	Addr string

	// CertDir is the folder of the certificate and its key. Required. Both files are read again at the
	// next handshake after a change. If they do not match yet, the previous pair stays in use.
	CertDir string
	// CertName and KeyName are the names of the files. Default to "tls.crt" and "tls.key".
	CertName, KeyName string
	// ClientCAFile is a PEM file with the CAs of clients. If it is set, requests without a
	// certificate of one of them are answered with 401, except at /healthz and /readyz. The file is
	// read again as in CertDir, and applies to open connections too.
	ClientCAFile string

	// MaxBytes is the maximum size of a request body. It also sets the memory limit for the bodies
	// of all handlers together, as in [HandlerOptions]. Defaults to 8 MiB.
	MaxBytes int64
	// MaxConcurrent is the limit of concurrent requests to all handlers together. Defaults to 100.
	MaxConcurrent int
	// Timeout is as in [HandlerOptions]. Defaults to 30 s.
	Timeout time.Duration
	// ShutdownTimeout limits how long Start waits for requests in progress at its end. Defaults to
	// 10 s.
	ShutdownTimeout time.Duration

	// MetricsRegisterer registers the metrics, with the prefix spokewire_interpreter_server_. Nil
	// means no metrics.
	//
	//	requests_total{handler,operation,code}  counter    requests; the operation is "none" for
	//	                                                   invalid, rejected (429) and late (408) ones
	//	request_seconds{handler}                histogram  time that requests took
	//	requests_in_flight{handler}             gauge      requests that are being read or answered
	//	certificate_reloads_total{result}       counter    certificates read from changed files
	//	certificate_expiry_timestamp_seconds    gauge      when the certificate ends
	MetricsRegisterer prometheus.Registerer
}

func (o ServerOptions) withDefaults() ServerOptions {
	o.Addr = cmp.Or(o.Addr, ":9443")
	o.CertName, o.KeyName = cmp.Or(o.CertName, "tls.crt"), cmp.Or(o.KeyName, "tls.key")
	o.MaxBytes = cmp.Or(o.MaxBytes, MaxBytes)
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, defaultMaxConcurrent)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, 10*time.Second)
	return o
}

func (o *ServerOptions) validate() error {
	if _, _, err := net.SplitHostPort(o.Addr); o.Addr != "" && err != nil {
		return fmt.Errorf("invalid ServerOptions.Addr: %q: must be host:port: %w", o.Addr, err)
	}
	switch {
	case o.CertDir == "":
		return errors.New("invalid ServerOptions.CertDir: required: callers use TLS")
	case strings.ContainsRune(o.CertName, '/'):
		return fmt.Errorf("invalid ServerOptions.CertName: %q: must be the name of a file in CertDir", o.CertName)
	case strings.ContainsRune(o.KeyName, '/'):
		return fmt.Errorf("invalid ServerOptions.KeyName: %q: must be the name of a file in CertDir", o.KeyName)
	case o.MaxBytes < 0:
		return fmt.Errorf("invalid ServerOptions.MaxBytes: %d: must not be negative", o.MaxBytes)
	case o.MaxConcurrent < 0:
		return fmt.Errorf("invalid ServerOptions.MaxConcurrent: %d: must not be negative", o.MaxConcurrent)
	case o.Timeout < 0:
		return fmt.Errorf("invalid ServerOptions.Timeout: %v: must not be negative", o.Timeout)
	case o.ShutdownTimeout < 0:
		return fmt.Errorf("invalid ServerOptions.ShutdownTimeout: %v: must not be negative", o.ShutdownTimeout)
	}
	return nil
}

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
	if s == nil {
		return fmt.Errorf("register %q: the server is nil", path)
	}
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
