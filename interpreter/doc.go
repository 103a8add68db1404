// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package interpreter lets a multi-cluster control plane handle resources of unknown kinds. An
// [Interpreter] reads an object: its replicas and their requirements, its components, health,
// status and dependencies. It also returns a changed copy: with another number of replicas, with
// the fields that a cluster has set, or with the aggregated status of clusters. It is the common
// interface of these packages:
//
//	customization        kinds that YAML files describe, in CEL
//	customization/kinds  the kinds of widely used projects
//	lua                  Karmada's customizations
//	native               built-in kinds
//	caller               webhooks, and chains of interpreters
//
// Package workhealth uses them: it tracks the health of the objects in ManifestWorks.
//
// This package has a webhook server, and a handler for objects of a Go type:
//
//	server, err := interpreter.NewServer(interpreter.ServerOptions{CertDir: "/certs"})
//	if err != nil {
//		return err
//	}
//	err = interpreter.Register(server, "/interpret-workload", interpreter.HandlerFor[*Workload]{
//		Replica: func(_ context.Context, w *Workload) (int32, *interpreter.ReplicaRequirements, error) {
//			return w.Spec.Replicas, nil, nil
//		},
//		Revise: func(ctx context.Context, w *Workload, replicas int32) error {
//			w.Spec.Replicas = replicas // the server makes the patch
//			return nil
//		},
//		Health: func(ctx context.Context, w *Workload) (bool, error) {
//			return w.Status.Ready == w.Spec.Replicas, nil
//		},
//	})
//	…
//	return server.Start(ctx)
//
// [NewHandler] makes an http.Handler for any other server. [FromHandler] uses a handler without a
// server. Package interpretertest runs test cases in YAML.
//
// # Two protocols
//
// A server accepts both protocols of package v1alpha1 at every path: Explore, of Karmada's first
// [proposal], and Interpret, which Karmada ships. Handlers are the same for both: operations and
// fields have their Interpret names, and the server answers in the protocol of the request.
//
//	Interpret              Explore                     function of HandlerFor
//	InterpretReplica       ExploreReplica              Replica
//	InterpretComponent                                 Components
//	ReviseReplica          ExploreReplicaRevising      Revise
//	Retain                 ExploreRetaining            Retain
//	AggregateStatus        ExploreStatusAggregating    Aggregate
//	InterpretDependency    ExploreDependencies         Dependencies
//	InterpretStatus        ExploreStatus               Status
//	InterpretHealth        ExploreHealthy              Health
//	Prune                  ExplorePacking              Prune
//
// # Guarantees
//
//   - A change keeps the fields that are not in a Go type, also in elements of lists. If it is
//     uncertain to which element they belong, the request fails, unless [HandlerFor].DropUncertain
//     is set: see Unknown fields. The patch has only changes.
//   - The server rejects an invalid request with a reason. However a handler ends, also by a panic,
//     the caller gets an answer with the UID of its request.
//   - An answer is not sent if it lacks a field that the operation requires, has a negative number,
//     or lists a component or a dependency twice. The caller receives an error, and the log names
//     the handler.
//   - The server never logs the content of objects.
//   - Certificates are read again when they change.
//
// # Unknown fields
//
// A [HandlerFor] keeps the fields of an object that are not in its Go type. In a list they stay
// with their element, which is never identified by its position:
//
//  1. Elements with the same key are the same element, if the key is unique in the list before and
//     after the change. An element with another key is another element.
//  2. Equal elements are the same element. Several equal elements keep their order, if the change
//     adds or removes none of them.
//  3. Rules 1 and 2 may leave elements unmatched. If only one of the two lists has such elements,
//     or if their keys differ, those after the change are new and those before it are removed. A
//     new element has no unknown fields. A removed element loses its unknown fields.
//  4. Otherwise the lists do not show whether an element is changed or replaced, even if only one
//     element differs. If the element had unknown fields, the request fails with the code 500 and
//     the path of the element. [HandlerFor].DropUncertain removes the fields instead. This rule
//     also applies to all elements of a list if decoding and encoding with the Go type changes the
//     number of elements.
//
// The key is the field in the patchMergeKey tag of the list, as in the types of Kubernetes. Without
// the tag, it is the first of these fields that any element has: name, key, type, mountPath,
// devicePath, containerPort, port, ip, uid, topologyKey, clusterName, path, hostname. The keys
// containerPort and port include the protocol, which defaults to TCP. The key topologyKey includes
// whenUnsatisfiable. If the tag names the field status, the key includes reason.
//
// # Limits
//
// [HandlerOptions] has the limits of a body, of concurrent requests and of time. A JSON Patch has
// at most 10,000 operations. A quantity has at most 128 characters, and its exponent at most
// three digits. A patch that is too expensive for a large object is rejected: replace lists and
// deep values as a whole. [Request].Decode limits the memory of objects.
//
// The server estimates the memory to answer a request. Requests that need more than 1 MiB wait if
// together they would need more than 128 MiB, or 96 MiB for one client address. A request that
// waits for longer than its timeout is answered with 429. The handlers of a [Server] share their
// limits. Each handler of [NewHandler] has its own.
//
// The server of examples/interpreter-webhook took up to 257 MiB under attack (TestInterpreter in
// internal/e2e/hostile). A pod with a limit of 512 MiB and GOMEMLIMIT=400MiB has room for handlers
// that need more memory than this example.
//
// A server has the probes /healthz and /readyz. The probe /readyz fails while the server stops.
// [ServerOptions].MetricsRegisterer lists its metrics. KARMADA.md describes how to migrate from
// Karmada's webhook package, and lists the decisions where the Explore proposal leaves details
// open.
//
// [proposal]: https://github.com/karmada-io/karmada/pull/863
package interpreter

//go:generate go run ./internal/kindstable
