// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/httpapi"
	"github.com/spokewire/sdk-go/examples/hub/internal/hub"
	"github.com/spokewire/sdk-go/examples/hub/internal/objects"
	"github.com/spokewire/sdk-go/examples/hub/internal/page"
	"github.com/spokewire/sdk-go/examples/hub/internal/rollout"
	"github.com/spokewire/sdk-go/examples/hub/internal/spokes"
	"github.com/spokewire/sdk-go/examples/internal/customizations"
	"github.com/spokewire/sdk-go/examples/internal/filestore"
	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/internal/httpserve"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/rsync"
)

// parts are the parts of the hub. They call each other after changes, but not before they are started.
type parts struct {
	state    *filestore.Store
	objects  *objects.Objects
	webhooks *caller.Caller
	clusters *spokes.Spokes
	engine   *rsync.Engine
	rollouts *rollout.Manager
	hub      *hub.Hub
	page     *page.Page
	registry *prometheus.Registry
}

// start connects the parts of the hub, and runs them until ctx ends.
func start(ctx context.Context, o options, transport cloudevents.Transport, log func(string, ...any)) (err error) {
	if err := os.MkdirAll(o.Store, 0o700); err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	p := &parts{registry: prometheus.NewRegistry()}
	p.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if p.state, err = filestore.Open(ctx, filepath.Join(o.Store, "state.db")); err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	defer func() { err = errors.Join(err, p.state.Close()) }()
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer func() { _ = listener.Close() }() // usually closed by the server
	if err := p.openClusters(o, transport, log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.clusters.Close()) }()
	if err := p.openHub(o, log); err != nil {
		return err
	}
	return p.run(ctx, o, listener, log)
}

// openClusters opens the connection to the clusters, and their interpreters.
func (p *parts) openClusters(o options, transport cloudevents.Transport, log func(string, ...any)) (err error) {
	changed := func(ctx context.Context, application, cause string) error {
		return p.hub.Changed(ctx, application, cause)
	}
	if p.objects, err = objects.Open(o.Kubeconfig, p.registry, changed); err != nil {
		return err
	}
	customized, err := customizations.Open(o.Customizations...)
	if err != nil {
		return err
	}
	customized.Report(log)
	// Authors of documents write the configurations, but must not choose the destination of objects.
	p.webhooks, err = caller.New(caller.Options{
		Mapper: p.objects.Mapper(), MetricsRegisterer: p.registry,
		AllowedHosts: o.Hosts, AllowedServices: o.Services, AllowedAddresses: o.Networks,
	})
	if err != nil {
		return err
	}
	p.clusters, err = spokes.Open(spokes.Options{
		Transport: transport, SourceID: o.Source, File: filepath.Join(o.Store, "works.db"),
		Interpreter: caller.Chain(customized, p.webhooks),
		Changed:     func() { p.hub.WorksChanged(); p.page.Changed() }, MetricsRegisterer: p.registry,
	})
	return err
}

// openHub opens the engine, the hub and its page.
func (p *parts) openHub(o options, log func(string, ...any)) (err error) {
	p.engine, err = rsync.New(p.state, p.clusters, rsync.Options{
		Transitions: rollout.Transitions(), Comparer: rollout.Everything, MetricsRegisterer: p.registry,
	})
	if err != nil {
		return err
	}
	changed := func() { p.page.Changed() }
	p.rollouts = rollout.New(p.engine, p.state, rollout.Options{
		Keep: o.Revisions, Patience: o.Patience, Missing: p.clusters.Missing, Log: log, Changed: changed,
	})
	p.hub = hub.New(hub.Options{
		Engine: p.engine, Store: p.state, Rollouts: p.rollouts, Health: p.clusters.Health, Webhooks: p.webhooks,
		Objects: p.objects, Mapper: p.objects.Mapper(), Source: o.Source, Dir: o.Dir, LeaveDir: o.LeaveDir,
		MaxMemory: o.MaxMemory << 20, Check: p.clusters.Check, Settled: p.clusters.InventoryComplete,
		Forget: p.clusters.Forget, LastReports: p.clusters.LastReports, Beat: spokes.Beat, Log: log, Changed: changed,
	})
	p.registry.MustRegister(p.hub.Collector())
	p.page, err = page.New(p.hub, page.Options{})
	return err
}

// run runs the parts until ctx ends or one of them fails.
func (p *parts) run(ctx context.Context, o options, listener net.Listener, log func(string, ...any)) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, start := range []func(context.Context) error{
		func(ctx context.Context) error { return p.clusters.Start(logging.Notices(ctx)) },
		p.objects.Start, p.webhooks.Start, p.clusters.Health.Start, p.engine.Start, p.rollouts.Start,
		func(ctx context.Context) error {
			<-p.objects.Started() // templates read objects
			return p.hub.Start(ctx)
		},
		func(ctx context.Context) error {
			// Before the works are known, an application that is being removed would be missing.
			select {
			case <-p.hub.Loaded():
			case <-ctx.Done():
				return nil
			}
			if !p.clusters.Health.Synced(ctx) {
				return nil
			}
			log("serving at http://%s", reachable(listener.Addr()))
			return p.serve(ctx, o, listener)
		},
	} {
		group.Go(func() error { return start(ctx) })
	}
	return group.Wait()
}

// reachable returns an address that a browser on this machine can open.
func reachable(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("localhost:%d", tcp.Port)
	}
	return addr.String()
}

// serve serves the page, the API, metrics and probes on a listener until ctx ends.
func (p *parts) serve(ctx context.Context, o options, listener net.Listener) error {
	own := http.NewServeMux()
	own.Handle("/", p.page)
	own.Handle("/api/", httpapi.New(httpapi.Options{Hub: p.hub, Rollouts: p.rollouts, ReadOnly: o.Dir != ""}))
	mux := http.NewServeMux()
	mux.Handle("/", httpserve.Hosts(o.AllowedHosts, own, http.HandlerFunc(refuse)))
	var handler http.Handler = mux
	if a, ok := listener.Addr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
		handler = httpserve.Hosts(o.AllowedHosts, mux, http.HandlerFunc(refuse))
	}
	// Kubelets and Prometheus use the address of the pod.
	mux.Handle("GET /metrics", httpserve.Buffered(
		promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{DisableCompression: true}),
	))
	mux.Handle("GET /healthz", probe(func(r *http.Request) error {
		return errors.Join(p.clusters.Livez(r), p.state.Healthy())
	}))
	mux.Handle("GET /readyz", probe(func(r *http.Request) error {
		return errors.Join(p.clusters.Readyz(r), p.engine.Healthy(), p.state.Healthy())
	}))
	return httpserve.Serve(ctx, listener, httpserve.Options{
		Handler: handler, MaxBody: document.MaxBytes, OnShutdown: p.page.Close,
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
