// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package sdk is the tour of the Spokewire SDK, and has no code. A hub decides which workloads
// should run, many clusters run them, and the clusters report status to the hub. Each package
// stands alone. This command shows a hub and its agents:
//
//	go run github.com/spokewire/sdk-go/examples/quickstart@latest
//
// # Distribute work over a broker
//
// A ManifestWork contains the objects of one cluster. Package
// [github.com/spokewire/sdk-go/cloudevents/work] gives hub controllers and agents the generated
// clientset of ManifestWorks. Works travel as CloudEvents, and are not stored in the hub's etcd.
//
//	  hub process                      broker                     managed cluster
//	┌──────────────────────┐                                ┌─────────────────────────┐
//	│ your hub controller  │                                │ your work agent         │
//	│   ▼ Create, Patch, … │ ─ /sources/…/manifests ──────▶ │   ▲ informer, lister    │
//	│ work.Source          │        MQTT, QoS 1             │ work.Agent              │
//	│   ▼ informer, lister │ ◀ /sources/…/manifestsstatus ─ │   ▲ UpdateStatus, Patch │
//	│ your hub controller  │                                │ your work agent ──▶ API │
//	└──────────────────────┘                                └─────────────────────────┘
//
// On the hub:
//
//	transport, err := mqtt.New(mqtt.Options{BrokerURL: "mqtt://broker:1883"})
//	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "my-controller"})
//	go source.Start(ctx)
//	works := source.Clientset().WorkV1().ManifestWorks("cluster1")
//
// On a managed cluster, in a process with a transport of its own:
//
//	agent, err := work.NewAgent(transport, work.AgentOptions{
//		ClusterName: "cluster1", Sources: []string{"my-controller"},
//	})
//	go agent.Start(ctx)
//	works := agent.Clientset().WorkV1().ManifestWorks("cluster1")
//
// Package [github.com/spokewire/sdk-go/cloudevents/work/restconfig] returns a rest.Config for the
// clients of controller-runtime and client-go. Package
// [github.com/spokewire/sdk-go/cloudevents/work/apiserver] serves the works to kubectl and to all
// other clients of a cluster.
//
// The wire format is in [github.com/spokewire/sdk-go/codec]. The transports are
// [github.com/spokewire/sdk-go/cloudevents/mqtt] and, for tests in one process,
// [github.com/spokewire/sdk-go/cloudevents/memory]. Package
// [github.com/spokewire/sdk-go/cloudevents] has the interfaces for a transport of your own.
//
// # Reconcile when an object changes
//
// Package [github.com/spokewire/sdk-go/dynamicwatcher] calls a reconciler when one of its objects
// changes, with one API watch for each object and no cache:
//
//	watcher, err := dynamicwatcher.NewForConfig(config, reconciler, nil)
//	go watcher.Start(ctx)
//	err = watcher.AddOrUpdateWatcher(policy, secret)
//
// [github.com/spokewire/sdk-go/dynamicwatcher/source] is a source of controller-runtime.
//
// # Apply and prune
//
// Package [github.com/spokewire/sdk-go/appliedwork] applies the objects of a work on a managed
// cluster, prunes them, and deletes all of them in the end. An AppliedWork lists and owns them:
//
//	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: client, Discovery: discovery})
//	spec := v1alpha1.AppliedWorkSpec{WorkNamespace: "cluster1", WorkName: "shop"}
//	work, err := tracker.Ensure(ctx, name, spec)
//	_, err = appliedwork.NewApplier(tracker).Apply(ctx, work, objects, appliedwork.ApplyOptions{})
//	_, err = appliedwork.NewPruner(tracker).Prune(ctx, work, objects, appliedwork.PruneOptions{})
//
// # Interpret custom resources
//
// Package [github.com/spokewire/sdk-go/interpreter] returns replicas, health, status and
// dependencies of any kind. For your own kind, choose one of these:
//
//   - a YAML file with CEL, which needs no deployment
//     ([github.com/spokewire/sdk-go/interpreter/customization]);
//   - your Karmada customizations in Lua ([github.com/spokewire/sdk-go/interpreter/lua]);
//   - a Go handler in your process ([github.com/spokewire/sdk-go/interpreter.FromHandler]);
//   - a webhook, if Karmada or another process calls it.
//
// A chain asks its interpreters in the order of its arguments. The built-in kinds and those of
// widely used projects come last:
//
//	answers := caller.Chain(customizations, lua, webhooks, native.New(), kinds.New())
//	replicas, requirements, err := answers.Replicas(ctx, deployment)
//
// Package [github.com/spokewire/sdk-go/interpreter/workhealth] tracks the health of the objects in
// ManifestWorks.
//
// # Change many clusters in order
//
// Package [github.com/spokewire/sdk-go/rsync] applies, updates, rolls back and deletes apps on many
// clusters, with a durable queue, dependencies and hooks:
//
//	engine, err := rsync.New(store, connectors, rsync.Options{})
//	go engine.Start(ctx)
//	ref, err := engine.Instantiate(ctx, "shop")
//	status, err := engine.Wait(ctx, ref)
//
// # Examples
//
// Each program lists its commands and flags with --help.
//
//	go run ./examples/hub              # roll out applications to groups of clusters; a live page
//	go run ./examples/agent            # a work agent for a real cluster, over a broker or an API
//	go run ./examples/work-apiserver   # ManifestWorks for kubectl, sent over a broker
//	go run ./examples/policy-watcher   # render templates again when a named object changes
//	go run ./examples/applied-work --manifests DIR             # apply, prune and delete a folder
//	go run ./examples/interpreter-webhook explain FILE         # interpret the objects of a file
//	go run ./examples/rsync serve --fake 3                     # an engine with its gRPC service
//	go run ./examples/rsync create --cluster fake+cluster1 shop DIR          # a client of it
//
// # Conventions
//
// New validates its options and starts nothing; with a Store it also reads the Store. Start runs
// until its context ends, and returns when all its goroutines have ended: each type with a Start is
// a Runnable of controller-runtime. The zero value of an option is useful, except for options that
// name a client or an identity. Metrics go to the Registerer in the options, logs to klog's logger
// in the context. Neither contains payloads or credentials. The packages transporttest, storetest,
// connectortest and interpretertest test your own transports, stores, connectors and webhooks.
package sdk
