// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package serve answers those who watch over the agent: Prometheus and the kubelet.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	headerTimeout = 10 * time.Second
	stopTimeout   = 2 * time.Second
)

// Server serves /metrics, /healthz and /readyz.
type Server struct {
	listener net.Listener
	server   *http.Server
}

// Listen takes the address. Ready returns what is missing for the agent to do its work.
func Listen(address string, metrics prometheus.Gatherer, ready func() error) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return &Server{listener: listener, server: &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}}, nil
}

// Addr is the address, with its port where that was 0.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Start serves until ctx ends.
func (s *Server) Start(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		// Whoever has not been answered by then will ask the next process.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		_ = s.server.Shutdown(bounded)
	})
	defer stop()
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
