// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package restconfig connects any Kubernetes client to the works of a source or an agent in the
// same process. [FromSource] and [FromAgent] return a rest.Config. Its transport is the source or
// the agent itself: requests use no socket, no TLS and no rate limit.
//
//	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "rollouts"})
//	config, err := restconfig.FromSource(source)
//	c, err := client.New(config, client.Options{Scheme: scheme})
//	err = c.Create(ctx, manifestWork)
//
// The configuration is for clients that cannot use the generated clientset: the client, cache,
// cluster and manager of controller-runtime, and the dynamic, metadata and discovery clients of
// client-go. Programs that use only the generated clientset should call Source.Clientset instead,
// which needs no encoding and adds no dependencies.
//
// The scheme of a client needs the types of works: call Install of package
// open-cluster-management.io/api/work/v1.
//
// # Served API
//
// The API has the resource manifestworks and its subresource status, in the group version
// work.open-cluster-management.io/v1. All patch types of the CRD, selectors, pages, watches with
// bookmarks, tables, metadata-only objects, field validation, dry runs, server-side apply, discovery
// and OpenAPI work. The page API.md of package work lists the verbs of sources and agents, and all
// differences from an API server.
//
// The API has no other resources. Events, Leases and SubjectAccessReviews, for example, need the API
// server of a cluster. Callers have all rights, because they are in the process of the source.
//
// # Managers
//
// A hub controller usually reads objects of its own cluster, and works of a source. There are two
// ways to use both in a manager.
//
// With two clusters, create the manager for the hub's own cluster. Create a cluster.Cluster with the
// configuration of the source, and add it to the manager; see the example Manager. The manager starts
// the cache of works and waits for it, as for its own cache. A controller watches works with
// source.Kind and the cache of the second cluster. The handler for owners needs the RESTMapper of the
// owner's cluster, which the manager returns from GetRESTMapper.
//
// With one client, requests for works go to the source and all other requests to the cluster:
// [Join] returns the manager's configuration and RESTMapper; see the example OneClient. Then
// GetClient, GetCache, For and Owns of the manager accept works, and an existing controller changes
// only the creation of its manager.
//
// In both cases, leader election uses the Leases of the hub's cluster. Add the source to the manager
// with Add: the manager then starts the source after the election. Writes before the start are
// queued, so reconcilers need not wait for the source. When all works are created, call
// Source.InventoryComplete: once for each Store, or at each start of a source without a Store. The
// agents of a source without a Store wait for this call. TUTORIAL.md of the repository shows the call
// in a manager.
//
// A source has no garbage collector: it keeps the works of a deleted owner. A controller adds a
// finalizer to the owner and deletes the works itself, as in the example Manager.
//
// Start an agent before the manager, as in the example AgentManager. Lists of works wait for the
// agent's initial sync, and a manager starts its runnables only after its caches are complete. A
// manager that starts the agent itself would wait forever. While lists wait, Agent.Readyz returns the
// names of the missing sources; a client returns only the error of its own context.
//
// # Caches
//
// A cache keeps a decoded copy of each work, with its manifests. With the option [NewInformer], it
// shares the bytes of manifests with the source. For works of 2 KB, it then needs a fifth of the
// memory, as much as an informer of the typed clientset.
//
// # Tests
//
// In a test suite, use the transport of package cloudevents/memory for works. The hub's own cluster
// can be one of envtest, and needs no CRD of ManifestWork; see the example Envtest.
//
// # Lifecycle
//
// A configuration needs no cleanup. Clients can be used before the source or the agent is started.
// When the source ends, watches end, and clients receive ServiceUnavailable. client-go repeats such a
// request ten times, once a second, before it returns the error. A manager ends the source before
// its caches, so a cache may log "Failed to watch" at the end of the program.
//
// A new source, for example after a restart with the same store, needs a new configuration. To keep
// existing informers, give their configuration a transport of your own, and let it call the transport
// of the newest configuration.
package restconfig
