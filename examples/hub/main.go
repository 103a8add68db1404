// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Hub runs applications on clusters. It reads documents that place applications on clusters, from a
// folder or its HTTP API. It sends the applications to the clusters' agents as ManifestWorks over
// an MQTT broker. It rolls updates out in order and back again, and shows the state on a web page.
// With a broker at localhost:1883, for example a newly installed Mosquitto:
//
//	go run ./examples/hub --broker mqtt://localhost:1883 --dir examples/hub/samples
//	go run ./examples/agent --broker mqtt://localhost:1883 --cluster cluster1 --source hub --store cluster1.db
//
// Give agents a --store: an agent that restarts without it has no works until the hub answers.
// Until then it does not change the existing objects. If the hub loses its works in this time, the
// agent cannot determine which objects to clean up, and they stay (unless it has an
// --eviction-grace).
//
// The samples also have a cluster2: run an agent for it too, with the --kubeconfig of another
// cluster, or remove it from clusters.yaml. Until then the shop waits for it, and each change for
// half a minute (--patience). The same applies to every event that does not become ready, also on
// connected clusters. Examples are a hook that does not end, or a part that others depend on.
// Objects that an update removes are deleted last, from all clusters. If an offline cluster delays
// the update, or a rollback, these objects stay on the other clusters until it returns, or is
// removed from the documents.
//
// Then open http://localhost:8080, change the samples, and roll the change back:
//
//	curl -X POST http://localhost:8080/api/v1/applications/shop/rollback
//
// The hub keeps two files in --store, a folder: state.db has the targets and revisions, works.db
// the works that were written for agents. Keep, restore and remove them together. Without works.db
// the hub writes all works again; without state.db it reports the works that no application has,
// and leaves them unchanged. An empty or damaged file is an error, and is not treated as a new one.
//
// The store records whether documents came from a folder or through the API. If that changes and
// applications would be removed, the hub does not start. To move to a folder, put the documents of
// the API in it. To move to the API, start once with --leave-dir and put the documents, clusters
// first and placements last. Then declare that the documents are complete:
//
//	curl -X POST http://localhost:8080/api/v1/complete
//
// The same request is needed for a hub without --dir that started with a new or lost store: until
// then it keeps unknown works on clusters.
//
// # Rollouts
//
// A change goes to all clusters of an application at once, unless its document has a rollout:
//
//	spec:
//	  rollout:
//	    groups:
//	    - name: canary
//	      clusters: {selector: {matchLabels: {region: north}}}
//	      approveAfter: true
//	    maxConcurrency: 10%
//	    maxFailures: 1
//	    until: Ready
//	    minSuccessTime: 1m
//	    progressDeadline: 10m
//	    rollbackOnFailure: true
//
// Groups run one after the other, and the clusters in no group run last. A group selects clusters of
// the application by names or labels. A cluster in two groups is an error. The fields are those of
// rsync.Rollout and rsync.RolloutGroup, with times as texts: rsync/ROLLOUT.md describes them. The hub
// rejects a rollout that cannot finish, with its field, and changes nothing. A rollback is rolled
// out in the same way.
//
// These requests control the rollout of an application:
//
//	POST /api/v1/applications/NAME/approve   opens a gate: the body is {"group": "canary", "gate": "After"}, or "Before"
//	POST /api/v1/applications/NAME/pause     starts no further cluster of the rollout
//	POST /api/v1/applications/NAME/resume    ends a pause, or starts a failed or aborted rollout again
//	POST /api/v1/applications/NAME/abort     ends the rollout; with rollbackOnFailure it is rolled back
//
// The page and the status of the application in the API show the groups, and why no further cluster
// starts. A newer document ends a rollout at once, even during a wait for an approval, and is
// rolled out from the first group. A failed or aborted rollout does not continue until it is
// resumed or the documents change. After a restart of the hub a rollout continues.
//
// # Health
//
// The hub interprets the built-in kinds and the kinds of package interpreter/customization/kinds,
// for instance Argo Rollouts and Certificates. An object of any other kind is unhealthy while its
// condition Ready is not True. Without the condition only Applied is known. Customizations and
// webhooks add kinds, or replace results. An object that is unhealthy is not ready either, unless
// its kind is built in: parts, hooks and rollouts wait for it.
//
// Interpreters get the manifest with the generation and the status that the agent reports. If the
// status has more than 1,024 characters, they get only phase, observedGeneration and the conditions
// Ready, Reconciling, Stalled and Synced of it. Then a customization that reads another field, such
// as status.readyReplicas, answers as if the object had no such field. The command explain below
// does not show this: it reads the whole status.
//
// A customization describes a kind in a YAML file, either in CEL (package
// interpreter/customization) or in Lua, as in Karmada (package interpreter/lua). This one finds
// Certificates healthy:
//
//	apiVersion: config.karmada.io/v1alpha1
//	kind: InterpreterCustomization
//	metadata: {name: certificates}
//	spec:
//	  targets: [{apiVersion: cert-manager.io/v1, kind: Certificate}]
//	  health: condition(object, 'Ready').status == 'True'
//
// Start the hub with --customizations PATH, a file or a folder. The hub reads them at the start.
// Restart it after a change. The order is: customizations in CEL, customizations in Lua, webhooks,
// the built-in kinds, and the other kinds. This command shows the results:
//
//	go run ./examples/interpreter-webhook explain --customizations FILE OBJECTS
//
// samples/webhooks.yaml configures a webhook for Workloads. It is called only if an application has
// one. The tree has such a webhook, which serves at :9443 with the tls.crt and tls.key of a folder:
//
//	go run ./examples/interpreter-webhook serve --certs DIR
//
// Start the hub with --allow-webhook localhost:9443 for it. Without the flag a hub sends no objects
// to webhooks, because authors of documents would choose the destination. Its certificate must be
// valid for localhost, and caBundle must contain the CA in base64, unless the system trusts the CA.
// Then give an application a Workload, as in examples/interpreter-webhook/testdata/objects.yaml,
// and before it its CustomResourceDefinition with hook: crd-install. The Workload is Healthy when
// its status.readyReplicas are not fewer than its spec.replicas, and Unknown while the webhook is
// unreachable.
//
// # Metrics
//
// /metrics has, for Prometheus:
//
//	spokewire_hub_applications{state}                     applications: Deployed, Rolling, Held up, Failed and so on
//	spokewire_hub_clusters{state}                         clusters: Current, Waiting, Failed, Silent, Leaving, Unclaimed, Empty
//	spokewire_hub_works_unclaimed                         works without application: state.db was lost or is outdated
//	spokewire_hub_documents_refused                       1 while documents of the folder are refused
//	spokewire_hub_documents_accepted_timestamp_seconds    time when documents were last accepted
//	spokewire_rsync_*                                     the engine: events, contexts, clusters
//	spokewire_cloudevents_*                               works, the connection to the broker and its traffic
//	spokewire_interpreter_caller_*                        webhooks: calls, their duration and results
//	spokewire_dynamicwatcher_*                            watches of objects that templates read, with --kubeconfig
//	go_*, process_*                                       the process
//
// A state without members has no sample. Alert on Held up, Failed or Degraded applications and
// Silent or Failed clusters for some minutes, on documents that stay refused, and on unclaimed
// works.
//
// # Packages
//
// Package internal/document has the documents, internal/hub renders them, internal/rollout rolls
// them out, and function start, below, connects the packages of the SDK.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/examples/hub/internal/cli"
	"github.com/spokewire/sdk-go/examples/hub/internal/httpapi"
	"github.com/spokewire/sdk-go/examples/hub/internal/hub"
	"github.com/spokewire/sdk-go/examples/hub/internal/objects"
	"github.com/spokewire/sdk-go/examples/hub/internal/page"
	"github.com/spokewire/sdk-go/examples/hub/internal/rollout"
	"github.com/spokewire/sdk-go/examples/hub/internal/serve"
	"github.com/spokewire/sdk-go/examples/hub/internal/spokes"
	"github.com/spokewire/sdk-go/examples/internal/broker"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/customizations"
	"github.com/spokewire/sdk-go/examples/internal/filestore"
	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/customization/kinds"
	"github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/rsync"
)

func main() { command.Main(run) }

// memoryLimit is the soft limit of the hub's memory in MiB, in addition to twice --max-memory.
// Without the limit the heap may double before it is collected.
const memoryLimit = 96

// run is the program without the process. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[cli.Options]{Name: "hub", Usage: cli.Usage, Parse: cli.Parse, Check: func(o cli.Options) error { return broker.Check(o.Broker) }}
	return p.Run(args, stdout, stderr, func(o cli.Options) error {
		ctx, restore := logging.Route(ctx, stderr, o.Verbose)
		defer restore()
		if os.Getenv("GOMEMLIMIT") == "" {
			debug.SetMemoryLimit(int64(memoryLimit+2*o.MaxMemory) << 20)
		}
		transport, err := mqtt.New(o.Broker)
		if err != nil {
			return err
		}
		return start(ctx, o, transport, serve.Say(stdout))
	})
}

// start connects the parts of the hub, and runs them until ctx ends.
func start(ctx context.Context, o cli.Options, transport cloudevents.Transport, say func(string, ...any)) (err error) {
	if err := os.MkdirAll(o.Store, 0o700); err != nil {
		return err
	}
	state, err := filestore.Open(ctx, filepath.Join(o.Store, "state.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // usually closed by the server
	// The parts call each other after changes. Nothing happens before they are started.
	var h *hub.Hub
	var view *page.Page
	changed := func() { view.Changed() }
	registry := serve.Registry()
	own, err := objects.Open(o.Kubeconfig, registry, func(ctx context.Context, application, cause string) error { return h.Changed(ctx, application, cause) })
	if err != nil {
		return err
	}
	customized, err := customizations.Open(o.Customizations...)
	if err != nil {
		return err
	}
	customized.Report(say)
	webhooks, err := openWebhooks(o, own, registry)
	if err != nil {
		return err
	}
	clusters, err := spokes.Open(spokes.Options{
		Transport: transport, SourceID: o.Source, File: filepath.Join(o.Store, "works.db"),
		Interpreter: caller.Chain(customized, webhooks), Native: native.New(), Kinds: kinds.New(),
		Changed: func() { h.WorksChanged(); changed() }, MetricsRegisterer: registry,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clusters.Close()) }()
	engine, err := rsync.New(state, clusters, rsync.Options{
		Transitions: rollout.Transitions(), Comparer: rollout.Everything, MetricsRegisterer: registry,
	})
	if err != nil {
		return err
	}
	rollouts := rollout.New(engine, state, rollout.Options{Keep: o.Revisions, Patience: o.Patience, Missing: clusters.Missing, Say: say, Changed: changed})
	h = hub.New(hub.Options{
		Engine: engine, Store: state, Rollouts: rollouts, Health: clusters.Health, Webhooks: webhooks, Objects: own,
		Mapper: own.Mapper(), Source: o.Source, Dir: o.Dir, LeaveDir: o.LeaveDir,
		MaxMemory: o.MaxMemory << 20, Check: clusters.Check, Settled: clusters.InventoryComplete,
		Forget: clusters.Forget, Heard: clusters.Heard, Beat: spokes.Beat, Say: say, Changed: changed,
	})
	registry.MustRegister(h.Collector())
	if view, err = page.New(h, page.Options{}); err != nil {
		return err
	}
	served := serve.Options{
		Page: view, Metrics: registry, AllowedHosts: o.AllowedHosts,
		Livez:  func(r *http.Request) error { return errors.Join(clusters.Livez(r), state.Healthy()) },
		API:    httpapi.New(httpapi.Options{Hub: h, Rollouts: rollouts, ReadOnly: o.Dir != ""}),
		Readyz: func(r *http.Request) error { return errors.Join(clusters.Readyz(r), engine.Healthy(), state.Healthy()) },
	}
	return runAll(ctx,
		func(ctx context.Context) error { return clusters.Start(logging.Notices(ctx)) },
		own.Start, webhooks.Start, clusters.Health.Start, engine.Start, rollouts.Start,
		func(ctx context.Context) error {
			<-own.Started() // templates read objects
			return h.Start(ctx)
		},
		func(ctx context.Context) error {
			// Before the works are known, an application that is being removed would be missing.
			if !loaded(ctx, h) || !clusters.Health.Synced(ctx) {
				return nil
			}
			say("serving at http://%s", reachable(listener.Addr()))
			return serve.Serve(ctx, listener, served)
		})
}

// runAll runs functions until ctx ends or one of them fails.
func runAll(ctx context.Context, all ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range all {
		group.Go(func() error { return run(ctx) })
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

// openWebhooks returns a caller of the allowed webhooks. Authors of documents write the
// configurations, but must not choose the destination of objects.
func openWebhooks(o cli.Options, own *objects.Objects, registry *prometheus.Registry) (*caller.Caller, error) {
	return caller.New(caller.Options{
		Mapper: own.Mapper(), MetricsRegisterer: registry,
		AllowedHosts: o.Hosts, AllowedServices: o.Services, AllowedAddresses: o.Networks,
	})
}

// loaded waits until the hub has loaded its first documents. It returns false if ctx ends before.
func loaded(ctx context.Context, h *hub.Hub) bool {
	select {
	case <-h.Loaded():
		return true
	case <-ctx.Done():
		return false
	}
}
