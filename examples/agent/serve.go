// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/spokewire/sdk-go/internal/httpserve"
)

// Prometheus and the kubelet need few connections, and an answer is small.
const (
	maxConns      = 64
	answerTimeout = time.Minute
)

// server serves /metrics, /healthz and /readyz.
type server struct {
	listener net.Listener
	handler  http.Handler
}

// listen opens the address. ready returns an error while the agent is not ready.
func listen(address string, metrics prometheus.Gatherer, ready func() error) (*server, error) {
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
	return &server{listener, mux}, nil
}

// Addr returns the address, with the actual port if the configured port was 0.
func (s *server) Addr() string { return s.listener.Addr().String() }

// Start serves until ctx ends.
func (s *server) Start(ctx context.Context) error {
	return httpserve.Serve(ctx, s.listener,
		httpserve.Options{Handler: s.handler, MaxConns: maxConns, AnswerTimeout: answerTimeout})
}
