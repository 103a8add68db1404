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
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/spokewire/sdk-go/examples/hub/internal/httpapi"
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
	server := &http.Server{Handler: local(listener.Addr(), mux), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, BaseContext: func(net.Listener) context.Context { return ctx }}
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

// local refuses requests for other hosts than this machine, where only this machine reaches the listener. Nobody asks for login, so a page of others must not
// get here by a name of its own that leads to 127.0.0.1: for a browser that would be one page with ours.
func local(at net.Addr, next http.Handler) http.Handler {
	if a, ok := at.(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if ip := net.ParseIP(strings.Trim(host, "[]")); host != "" && !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback()) {
			const problem = "this is not that host: ask for localhost, or have the proxy before it do so"
			if strings.HasPrefix(r.URL.Path, "/api/") {
				httpapi.Refuse(w, http.StatusMisdirectedRequest, problem)
			} else {
				http.Error(w, problem, http.StatusMisdirectedRequest)
			}
			return
		}
		next.ServeHTTP(w, r)
	})
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
