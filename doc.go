// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package sdk is the tour of the Spokewire SDK: packages for hub-and-spoke systems on Kubernetes, where a hub decides what
// should run, many clusters run it, and status comes back. It contains no code. Each package stands alone; take the one you
// need. To see a hub and its agents at work, run
//
//	go run github.com/spokewire/sdk-go/examples/quickstart@latest
//
// # Distribute work over a broker
//
// A ManifestWork says what should be on one cluster. Package [github.com/spokewire/sdk-go/cloudevents/work] gives hub
// controllers and agents the generated clientset for it, and moves the works as CloudEvents over a message broker, so that
// none is stored in the hub's etcd. On the hub:
//
//	transport, err := mqtt.New(mqtt.Options{BrokerURL: "mqtt://broker:1883"})
//	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "my-controller"})
//	go source.Start(ctx)
//	works := source.Clientset().WorkV1().ManifestWorks("cluster1")
//
// and on a managed cluster:
//
//	agent, err := work.NewAgent(transport, work.AgentOptions{ClusterName: "cluster1", Sources: []string{"my-controller"}})
//	go agent.Start(ctx)
//	works := agent.Clientset().WorkV1().ManifestWorks("cluster1")
//
// The packages behind it: [github.com/spokewire/sdk-go/codec] is the wire format, [github.com/spokewire/sdk-go/cloudevents] the
// engine that publishes, subscribes, reconnects and compares, [github.com/spokewire/sdk-go/cloudevents/mqtt] the transport for
// MQTT 5, and [github.com/spokewire/sdk-go/cloudevents/memory] one inside a process, for tests.
//
// # Know when something changes
//
// Package [github.com/spokewire/sdk-go/dynamicwatcher] tells a controller when any of some objects changes, with one API watch
// for each of them and no cache. A policy that names a Secret is reconciled when that changes:
//
//	watcher, err := dynamicwatcher.NewForConfig(config, reconciler, nil)
//	go watcher.Start(ctx)
//	err = watcher.AddOrUpdateWatcher(policy, secret)
//
// [github.com/spokewire/sdk-go/dynamicwatcher/source] does so in the queue of a controller of controller-runtime.
//
// # Collect what was applied
//
// Package [github.com/spokewire/sdk-go/appliedwork] applies the objects of a work on a managed cluster, prunes what it wants no
// more, and collects everything when it ends. It records what it is about to do in an AppliedWork, which owns the objects:
//
//	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: client, Discovery: discovery})
//	work, err := tracker.Ensure(ctx, name, v1alpha1.AppliedWorkSpec{WorkNamespace: "cluster1", WorkName: "shop"})
//	changes, err := appliedwork.NewApplier(tracker).Apply(ctx, work, objects, appliedwork.ApplyOptions{})
//	pruned, err := appliedwork.NewPruner(tracker).Prune(ctx, work, objects, appliedwork.PruneOptions{})
//
// # Interpret custom resources
//
// Package [github.com/spokewire/sdk-go/interpreter] is for webhooks that interpret a custom resource
// for a multi-cluster control plane, with functions for its Go type.
// [github.com/spokewire/sdk-go/interpreter/caller] is the control plane's side. Package
// [github.com/spokewire/sdk-go/interpreter/customization] has the kinds that a YAML file describes,
// [github.com/spokewire/sdk-go/interpreter/lua] runs customizations of Karmada,
// [github.com/spokewire/sdk-go/interpreter/native] has the built-in kinds, and
// [github.com/spokewire/sdk-go/interpreter/customization/kinds] the kinds of widely used projects:
//
//	own, err := customization.New(customization.File{Name: "own.yaml", Text: text})
//	answers := caller.Chain(own, webhooks, native.New(), kinds.New())
//	replicas, requirements, err := answers.Replicas(ctx, deployment)
//
// # Do things in order on many clusters
//
// Package [github.com/spokewire/sdk-go/rsync] applies, updates, rolls back and deletes the apps of an AppContext on many clusters,
// with a durable queue, dependencies and hooks:
//
//	engine, err := rsync.New(store, connectors, rsync.Options{})
//	go engine.Start(ctx)
//	ref, err := engine.Instantiate(ctx, "shop")
//	status, err := engine.Wait(ctx, ref)
//
// The ways to a cluster are [github.com/spokewire/sdk-go/rsync/connector/kube] for API servers,
// [github.com/spokewire/sdk-go/rsync/connector/git] for Flux and Argo CD, and
// [github.com/spokewire/sdk-go/rsync/connector/manifestwork] for work agents.
// [github.com/spokewire/sdk-go/rsync/rsyncgrpc] serves an engine to others.
//
// # What all have in common
//
// New validates its options and starts nothing; a source or an agent with a Store also reads that. Start runs until its context
// ends, and returns when nothing of it is left, so each type with a Start is a Runnable of controller-runtime's manager, which
// starts it on the leader where it elects one. Options are structs whose zero value is useful. Errors are those of the API
// machinery where we stand in for Kubernetes, and named ones elsewhere. Metrics go to the Registerer in the options, logs to the
// logger in the context; no payload and no credential gets into either.
package sdk
