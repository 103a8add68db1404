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

// listen opens the address for /metrics, /healthz and /readyz. It returns the actual address, and a
// part that serves it. ready returns an error while the agent is not ready.
func listen(address string, metrics prometheus.Gatherer, ready func() error) (actual string, serve part, err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, fmt.Errorf("--listen: %w", err)
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
	return listener.Addr().String(), func(ctx context.Context) error {
		return httpserve.Serve(ctx, listener,
			httpserve.Options{Handler: mux, MaxConns: maxConns, AnswerTimeout: answerTimeout})
	}, nil
}
