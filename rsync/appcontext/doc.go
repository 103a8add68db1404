// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package appcontext has the input of the engine of package rsync. An [AppContext] defines which
// apps run on which clusters, and the ordered resources of each app on each cluster. The package
// has only values and pure functions.
//
// A [Builder] builds an AppContext and reports all problems at once:
//
//	b := appcontext.NewBuilder("shop-1")
//	b.App("db").Resource("edge", "cluster1", database)
//	b.App("web").DependsOn("db", appcontext.OpStatusReady, 10*time.Second).Resource("edge", "cluster1", deployment)
//	shop, err := b.Build()
//
// Package folder builds apps from a folder of manifests.
//
// A manifest is YAML or JSON and is stored byte for byte. Its group, kind, namespace and name
// identify the object. Together with the cluster they are the [Identity] of a resource. The API
// version and the app are not part of the identity, so an object that moves to another app is the
// same object.
//
// Resource.Wave divides an app into steps. Each step waits until the step before is ready:
//
//	web.Add("edge", "cluster1", appcontext.Resource{Manifest: database})
//	web.Add("edge", "cluster1", appcontext.Resource{Manifest: server, Wave: 1})
//
// AppBuilder.Hook adds a hook, and Resource.DeletePolicies has Helm's delete policies. HOOKS.md of
// package rsync describes waves and hooks. An event waits for its hooks. Therefore [Validate]
// rejects a hook that never ends: a suspended Job, a Job with parallelism 0 and a paused
// Deployment. It also rejects delete policies of a crd-install hook.
//
// AppBuilder.Override changes the manifest of one object on one cluster. Package override has JSON
// patches. Build applies the overrides, so an AppContext has the final manifests. Build reports
// failed overrides with all other problems.
//
// [Diff] compares two contexts for an update: it finds new, changed and removed resources.
// [Validate] rejects cycles and unknown names in dependencies, duplicates, invalid names, and
// manifests that are too large.
//
// # Concurrency
//
// Functions do not copy values: do not change an AppContext after you have passed it to a function.
// A Builder is for one goroutine.
package appcontext
