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
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/dynamicwatcher/values"
	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/httpapi"
	"github.com/spokewire/sdk-go/examples/hub/internal/hub"
	"github.com/spokewire/sdk-go/examples/hub/internal/page"
	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/examples/hub/internal/spokes"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/customizations"
	"github.com/spokewire/sdk-go/examples/internal/election"
	"github.com/spokewire/sdk-go/examples/internal/filestore"
	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/examples/internal/login"
	"github.com/spokewire/sdk-go/internal/httpserve"
	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/revisions"
	"github.com/spokewire/sdk-go/rsync/store"
)

// storeInterval is the time between two checks of the store.
const storeInterval = 2 * time.Second

// parts are the parts of the hub. They call each other after changes, but not before they are
// started.
type parts struct {
	state   store.Store
	works   work.Store
	healthy func(context.Context) error // of the stores
	close   []func() error
	// election and group, of the shared subscription, are zero without replicas.
	election *election.Election
	group    string
	leads    atomic.Bool           // and has loaded the documents
	ready    *atomic.Bool          // of the process, with replicas
	outage   atomic.Pointer[error] // why the parts cannot be opened again
	// objects are those that templates read; server and mapper are of their cluster, and may be nil.
	objects  *values.Values
	server   *command.APIServer
	mapper   meta.RESTMapper
	webhooks *caller.Caller
	clusters *spokes.Spokes
	// agents serves the agents, with --grpc.
	agents    func(context.Context) error
	strangers grpc.OtherSources
	rollouts  *revisions.Manager
	hub       *hub.Hub
	page      *page.Page
	login     *login.Login
	actions   *login.History
	// join issues certificates to agents, and recheck checks connected agents again. They may be nil.
	join     *join.Server
	recheck  func()
	registry *prometheus.Registry
	changes  wait.Changes
}

// changed reports that the status has changed.
func (p *parts) changed() { p.page.Changed(); p.changes.Wake() }

// connector returns a new transport: each source needs its own.
type connector func() (cloudevents.Transport, error)

// start runs the hub until ctx ends.
func start(ctx context.Context, o options, broker connector) error {
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer func() { _ = listener.Close() }() // usually closed by the server
	if o.shared() {
		return replicate(ctx, o, listener, broker)
	}
	o.Login.AdminFile = filepath.Join(o.Store, "admin.token")
	p, err := open(ctx, o, broker)
	if err != nil {
		return err
	}
	if err := o.Login.CreateAdmin(); err != nil {
		return fmt.Errorf("--store: %w", errors.Join(err, p.closeAll()))
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.run(ctx) })
	group.Go(func() error {
		if !p.loaded(ctx) {
			return nil
		}
		klog.FromContext(ctx).Info("Started serving", "url", o.reachable(listener.Addr()))
		return serve(ctx, o, listener, p.handler(ctx, o, listener.Addr()))
	})
	return group.Wait()
}

// open connects the parts of the hub.
func open(ctx context.Context, o options, broker connector) (*parts, error) {
	p := &parts{registry: prometheus.NewRegistry()}
	p.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), o.expiry())
	log, err := klog.FromContext(ctx), p.openStores(ctx, o)
	if err == nil {
		err = p.checkStores(ctx)
	}
	if err == nil && o.shared() {
		err = p.elect(ctx, o)
	}
	if err == nil {
		err = p.openJoin(o)
	}
	if err == nil {
		err = p.openClusters(o, broker, log)
	}
	if err == nil {
		p.agents = p.withJoins(o, p.agents)
		err = p.openHub(o, log)
	}
	if err != nil {
		return nil, errors.Join(err, p.closeAll())
	}
	return p, nil
}

// openFolder opens the stores of a hub without replicas.
func (p *parts) openFolder(ctx context.Context, o options) error {
	if err := os.MkdirAll(o.Store, 0o700); err != nil {
		return err
	}
	state, err := filestore.Open(ctx, filepath.Join(o.Store, "state.db"))
	if err != nil {
		return err
	}
	p.state, p.close = state, append(p.close, state.Close)
	p.healthy = func(context.Context) error { return state.Healthy() }
	works, err := boltstore.Open(filepath.Join(o.Store, "works.db"), boltstore.Options{})
	if err != nil {
		return err
	}
	p.works, p.close = works, append(p.close, works.Close)
	return nil
}

func (p *parts) closeAll() (err error) {
	for _, f := range p.close {
		err = errors.Join(err, f())
	}
	return err
}

// openClusters opens the connection to the clusters, and their interpreters.
func (p *parts) openClusters(o options, broker connector, log klog.Logger) (err error) {
	if err := p.openObjects(o); err != nil {
		return err
	}
	customized, err := customizations.Open(o.Customizations...)
	if err != nil {
		return err
	}
	customized.Report(log)
	// Authors of documents write the configurations, but must not choose the destination of objects.
	p.webhooks, err = caller.New(caller.Options{
		Mapper: p.mapper, MetricsRegisterer: p.registry,
		AllowedHosts: o.Hosts, AllowedServices: o.Services, AllowedAddresses: o.Networks,
	})
	if err != nil {
		return err
	}
	transport, err := p.openTransport(o, broker)
	if err != nil {
		return err
	}
	p.clusters, err = spokes.Open(spokes.Options{
		Transport: transport, SourceID: o.Source, Store: p.works, SharedGroup: p.group, Tracer: o.Tracer,
		Interpreter: caller.Chain(customized, p.webhooks),
		Changed:     func() { p.hub.WorksChanged(); p.changed() }, MetricsRegisterer: p.registry,
	})
	return err
}

// autoKubeconfig selects the kubeconfig of the environment, of the pod, or of kubectl.
const autoKubeconfig = "auto"

// openObjects opens the objects of the hub's cluster.
func (p *parts) openObjects(o options) error {
	if o.Kubeconfig == "" {
		p.objects = values.None(render.Without)
		return nil
	}
	file := o.Kubeconfig
	if file == autoKubeconfig {
		file = ""
	}
	config, err := command.LoadKubeconfig("--kubeconfig", file)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	if p.mapper, err = apiutil.NewDynamicRESTMapper(config, client); err != nil {
		return err
	}
	if p.server, err = command.NewAPIServer("--kubeconfig", config, client); err != nil {
		return err
	}
	gv, _ := schema.ParseGroupVersion(document.APIVersion)
	p.objects, err = values.New(values.Options{
		Watcher: dynamicwatcher.Options{Config: config, Name: "templates", MetricsRegisterer: p.registry},
		Kind:    gv.WithKind(string(document.ApplicationKind)),
		Changed: func(ctx context.Context, application, cause string) error {
			return p.hub.Changed(ctx, application, cause)
		},
	})
	return err
}

// openTransport returns the transport of the source. With --grpc, it is that of a server in this
// process.
func (p *parts) openTransport(o options, broker connector) (cloudevents.Transport, error) {
	p.agents = func(context.Context) error { return nil }
	if o.GRPC == "" {
		return broker()
	}
	options := o.server()
	if options.Authorizer == nil {
		options.Authorizer = p.authorizer()
	}
	p.strangers.Source, p.strangers.Next = o.Source, options.Authorizer
	options.Authorizer = &p.strangers
	server, err := grpc.NewServer(options)
	if err != nil {
		return nil, err
	}
	p.recheck = server.Recheck
	p.agents = func(ctx context.Context) error {
		listener, err := net.Listen("tcp", o.GRPC)
		if err != nil {
			return fmt.Errorf("--grpc: %w", err)
		}
		return server.Serve(ctx, listener)
	}
	return server.Transport(), nil
}

// openHub opens the engine, the hub and its page.
func (p *parts) openHub(o options, log klog.Logger) (err error) {
	changed, missing := p.changed, p.clusters.Missing
	if p.election != nil {
		missing = nil // the database has works and states
	}
	p.rollouts, err = revisions.New(p.state, p.clusters, revisions.Options{
		Engine: rsync.Options{MetricsRegisterer: p.registry, LeaseTTL: election.DefaultTTL}, Prefix: "/hub/",
		Keep: o.Revisions, Patience: o.Patience, Missing: missing, Changed: changed,
	})
	if err != nil {
		return err
	}
	p.actions = &login.History{Store: p.state, Key: "/hub/actions/", Log: log, Changed: changed}
	p.hub = hub.New(hub.Options{
		Store: p.state, Rollouts: p.rollouts, Health: p.clusters.Health, Webhooks: p.webhooks,
		Objects: p.objects, Mapper: p.mapper, Source: o.Source, Dir: o.Dir, LeaveDir: o.LeaveDir,
		MaxMemory: o.MaxMemory << 20, Check: p.clusters.Check, Settled: p.clusters.InventoryComplete,
		Declared: p.clusters.Declared, Forget: p.clusters.Forget, LastReports: p.clusters.LastReports,
		Beat: spokes.Beat, Log: log, Changed: changed, Actions: p.actions, Strangers: p.strangers.Clusters,
		Revoked: p.revoked, Links: func(ctx context.Context) []status.Link { return p.links(ctx, o) },
	})
	p.registry.MustRegister(p.hub.Collector())
	p.page, err = page.New(p.hub, page.Options{MayEdit: func(r *http.Request) bool { return p.login.MayEdit(r) }})
	return err
}

// run runs the parts until ctx ends or one of them fails, and closes the stores. With replicas, it
// also ends with an [election.ErrDeposed].
func (p *parts) run(ctx context.Context) error {
	lead := p.lead
	if p.election != nil {
		lead = p.follow
	}
	store := logging.Watch{
		Lost: "Lost the store", Back: "Reached the store again", Check: p.healthy, Interval: storeInterval,
	}
	err := command.Together(ctx, p.clusters.Start, store.Start, p.server.Start, p.objects.Start, p.webhooks.Start,
		p.clusters.Health.Start, lead)
	return errors.Join(err, p.closeAll())
}

// lead runs the parts that only one replica may run.
func (p *parts) lead(ctx context.Context) error {
	return command.Together(ctx, func(ctx context.Context) error {
		if p.election != nil { // the hub accepts changes meanwhile
			if err := p.clusters.Lead(ctx); err != nil {
				return fmt.Errorf("%w: %w", election.ErrDeposed, err)
			}
		}
		return command.Together(ctx, p.rollouts.Start, p.agents)
	}, func(ctx context.Context) error {
		<-p.objects.Started() // templates read objects
		return p.hub.Start(ctx)
	}, func(ctx context.Context) error {
		p.leads.Store(p.loaded(ctx))
		<-ctx.Done()
		p.leads.Store(false)
		return nil
	})
}

// loaded waits until the documents and the works are known: before the works are known, an
// application that is being removed would be missing. It returns false if ctx ends before.
func (p *parts) loaded(ctx context.Context) bool {
	select {
	case <-p.hub.Loaded():
	case <-ctx.Done():
		return false
	}
	return p.clusters.Health.Synced(ctx)
}

func (o options) scheme() string {
	if o.Login.CertFile != "" {
		return "https"
	}
	return "http"
}

// reachable returns a URL that a browser on this machine can open.
func (o options) reachable(addr net.Addr) string {
	host := addr.String()
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		host = fmt.Sprintf("localhost:%d", tcp.Port)
	}
	return o.scheme() + "://" + host
}

func serve(ctx context.Context, o options, listener net.Listener, handler http.Handler) error {
	return httpserve.Serve(ctx, listener, httpserve.Options{
		Handler: handler, TLSConfig: o.Login.TLS(), MaxBody: document.MaxBytes,
	})
}

// handler returns the handler of the page, the API, metrics and probes at an address.
func (p *parts) handler(ctx context.Context, o options, addr net.Addr) http.Handler {
	pages, mux := http.NewServeMux(), http.NewServeMux()
	pages.Handle("/", p.page)
	pages.Handle("/api/", httpapi.New(httpapi.Options{
		Hub: p.hub, Join: p.join, JoinURL: o.joinURL(), ReadOnly: o.Dir != "", Changes: &p.changes,
		Backup: func(ctx context.Context) ([]byte, error) { return p.backup(ctx, o.Source) },
	}))
	var own http.Handler = pages
	a, ok := addr.(*net.TCPAddr)
	local := ok && a.IP.IsLoopback()
	logins := login.Server{
		Options: o.Login, AnonymousReads: local, Refuse: refuseWith, Record: p.record, Log: klog.FromContext(ctx),
	}
	if p.election != nil {
		logins.FromReplica = p.election.FromReplica
		own = p.orForward(own)
		mux.Handle("GET "+election.Path, p.election)
	}
	p.login = login.New(logins)
	mux.Handle("/", httpserve.Hosts(o.AllowedHosts, p.login.Handler(own), http.HandlerFunc(refuse)))
	var handler http.Handler = mux
	if local {
		handler = httpserve.Hosts(o.AllowedHosts, mux, http.HandlerFunc(refuse))
	}
	// Kubelets and Prometheus use the address of the pod.
	mux.Handle("GET /metrics", httpserve.Buffered(
		promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{DisableCompression: true}),
	))
	mux.Handle("GET /healthz", probe(func(r *http.Request) error {
		if p.election != nil {
			return p.clusters.Livez(r) // a restart does not repair the database
		}
		return errors.Join(p.clusters.Livez(r), p.healthy(r.Context()))
	}))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		probe(p.readyz)(w, r)
		for _, l := range p.links(r.Context(), o) {
			if !l.Up {
				fmt.Fprintf(w, "the %s is down: %s\n", l.Name, l.Reason)
			}
		}
	})
	return handler
}

// record adds a change to the history. Accepted documents have revisions, and a diff changes nothing.
func (p *parts) record(ctx context.Context, c login.Change) {
	if p.election != nil && !p.leads.Load() {
		return // only the leader writes
	}
	documents := c.Method == http.MethodPut || c.Path == "/api/v1/apply"
	if (!documents || c.Code >= http.StatusBadRequest) && c.Path != "/api/v1/diff" {
		p.actions.Add(ctx, c.Action())
	}
}

// refuse answers a request for another host.
func refuse(w http.ResponseWriter, r *http.Request) {
	refuseWith(w, r, http.StatusMisdirectedRequest, "this hub does not serve the host of the request: "+
		"start it with --allowed-host for that host, or request localhost")
}

func refuseWith(w http.ResponseWriter, r *http.Request, code int, problem string) {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		httpapi.Refuse(w, code, problem)
		return
	}
	http.Error(w, problem, code)
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
