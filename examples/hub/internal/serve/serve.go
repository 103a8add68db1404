// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package serve serves what the hub has to show: page, API, metrics and probes.
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

	"github.com/spokewire/sdk-go/examples/hub/internal/page"
)

// drain is how long requests under way may take in the end.
const drain = 2 * time.Second

// Options are what is served.
type Options struct {
	Page    *page.Page
	API     http.Handler
	Metrics prometheus.Gatherer
	// Livez and Readyz return what is wrong.
	Livez, Readyz func(*http.Request) error
}

// Serve serves on a listener until ctx ends.
func Serve(ctx context.Context, listener net.Listener, o Options) error {
	mux := http.NewServeMux()
	mux.Handle("/", o.Page)
	mux.Handle("/api/", o.API)
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{}))
	mux.Handle("GET /healthz", probe(o.Livez))
	mux.Handle("GET /readyz", probe(o.Readyz))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	server.RegisterOnShutdown(o.Page.Close)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	drained, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(drained); err != nil {
		_ = server.Close() // whoever takes longer
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func probe(check func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := check(r); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}
