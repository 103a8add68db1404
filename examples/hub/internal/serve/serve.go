// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package serve serves the page, the API, metrics and probes of the hub.
package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/httpapi"
	"github.com/spokewire/sdk-go/examples/hub/internal/page"
	"github.com/spokewire/sdk-go/internal/httpserve"
)

// Options configures [Serve].
type Options struct {
	Page    *page.Page
	API     http.Handler
	Metrics prometheus.Gatherer
	// AllowedHosts are the hosts of requests for the page and the API, in addition to this machine's loopback names.
	AllowedHosts []string
	// Livez and Readyz return an error if the probe fails.
	Livez, Readyz func(*http.Request) error
}

// Serve serves on a listener until ctx ends.
func Serve(ctx context.Context, listener net.Listener, o Options) error {
	own := http.NewServeMux()
	own.Handle("/", o.Page)
	own.Handle("/api/", o.API)
	mux := http.NewServeMux()
	mux.Handle("/", httpserve.Hosts(o.AllowedHosts, own, http.HandlerFunc(refuse)))
	var handler http.Handler = mux
	if a, ok := listener.Addr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
		handler = httpserve.Hosts(o.AllowedHosts, mux, http.HandlerFunc(refuse))
	}
	// Kubelets and Prometheus use the address of the pod.
	mux.Handle("GET /metrics", httpserve.Buffered(
		promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{DisableCompression: true}),
	))
	mux.Handle("GET /healthz", probe(o.Livez))
	mux.Handle("GET /readyz", probe(o.Readyz))
	return httpserve.Serve(ctx, listener, httpserve.Options{
		Handler: handler, MaxBody: document.MaxBytes, OnShutdown: o.Page.Close,
	})
}

// refuse answers a request for another host.
func refuse(w http.ResponseWriter, r *http.Request) {
	const problem = "this hub does not serve the host of the request: " +
		"start it with --allowed-host for that host, or request localhost"
	if strings.HasPrefix(r.URL.Path, "/api/") {
		httpapi.Refuse(w, http.StatusMisdirectedRequest, problem)
		return
	}
	http.Error(w, problem, http.StatusMisdirectedRequest)
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
