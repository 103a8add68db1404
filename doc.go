// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package sdk is the tour of the Spokewire SDK: packages for hub-and-spoke systems
// on Kubernetes, where a hub decides what should run, many clusters run it, and
// status comes back. It contains no code. Each package stands alone; take the one
// you need.
//
// # Distribute work over a broker
//
// A ManifestWork says what should be on one cluster. Package cloudevents/work gives
// hub controllers and agents the generated clientset for it, and moves the works as
// CloudEvents over a message broker, so that none is stored in the hub's etcd:
//
//	transport, err := mqtt.New(mqtt.Options{BrokerURL: "mqtt://broker:1883"})
//	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "my-controller"})
//	go source.Start(ctx)
//	works := source.Clientset().WorkV1().ManifestWorks("cluster1")
//
// The packages behind it:
//
//   - codec is the wire format: ManifestWork to CloudEvent and back, pure functions.
//   - cloudevents is the engine: publish, subscribe, resynchronise, reconnect.
//   - cloudevents/memory is a transport inside one process, for tests.
//   - cloudevents/mqtt is the transport for MQTT 5 brokers.
//   - cloudevents/work has Source and Agent, and their clientset.
//
// To see a hub and an agent at work, run
//
//	go run github.com/spokewire/sdk-go/examples/quickstart@latest
//
// # Know when something changes
//
// Package dynamicwatcher tells a controller when any of some objects changes, with one
// API watch for each of them and no cache.
//
// # Collect what was applied
//
// Package appliedwork applies the objects of a work on a managed cluster, prunes what it
// wants no more, and collects everything when it ends.
//
// # Read resources that nobody knows
//
// Package interpreter is for webhooks that tell a multi-cluster control plane how to
// read a custom resource; interpreter/caller is the control plane's side, and
// interpreter/native has the built-in kinds.
//
// # Do things in order on many clusters
//
// Package rsync applies, updates, rolls back and deletes the apps of an AppContext on many
// clusters, with a durable queue, dependencies and hooks; rsync/connector/kube, git and
// manifestwork are the ways to a cluster, and rsync/rsyncgrpc is its gRPC service.
package sdk
