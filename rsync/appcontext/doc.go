// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package appcontext is what the engine of package rsync works on: an [AppContext] says which apps run on which clusters,
// and which resources each app has there, in order. All of it is values and pure functions.
//
// A [Builder] puts one together and reports all that is wrong at once:
//
//	b := appcontext.NewBuilder("shop-1")
//	b.App("db").Resource("edge", "cluster1", database)
//	b.App("web").DependsOn("db", appcontext.Ready, 10*time.Second).Resource("edge", "cluster1", deployment)
//	shop, err := b.Build()
//
// A manifest is kept byte for byte, as YAML or JSON; what identifies the object is read from it: group, kind, namespace
// and name. With the cluster that is the [Identity] of a resource. The version of the API is no part of it, and neither is
// the app, so an object that moves from one app to another stays the same object.
//
// Resource.Wave divides an app into steps, each of which waits until the step before is ready:
//
//	web.Add("edge", "cluster1", appcontext.Resource{Manifest: database})
//	web.Add("edge", "cluster1", appcontext.Resource{Manifest: server, Wave: 1})
//
// A hook with Helm's delete policies is added with Resource.DeletePolicies. An event waits for its
// hooks, so [Validate] refuses a hook that never ends: a Job that is suspended or has parallelism
// 0, and a Deployment that is paused. It also refuses delete policies of a crd-install hook.
//
// AppBuilder.Override changes the manifest of one object on one cluster; package override has JSON
// patches for it. Build applies overrides, so an AppContext has the final manifests, and so has
// everything that reads it. An override that does not apply is refused with all other problems.
//
// [Diff] compares two contexts for an update: what is new, what has changed, what is gone. [Validate] refuses cycles and
// unknown names in dependencies, duplicates, names that no key can hold, and what is too large to be stored.
//
// # EMCO's keys
//
// [Decode] and [Encode] read and write the keys that EMCO keeps for a context in its etcd,
// including the status words and the queue, so that contexts can be taken over from it and given
// back. What these keys can hold is less than an AppContext can: two resources of one app on one
// cluster need different name and kind there, also where namespace or group differ, and a manifest
// must be valid UTF-8. They have no waves and no delete policies. Keys that Decode does not know
// are kept in [Layout].Extra and written again.
//
// EMCO lists the resources of hooks apart from others, in resource/instruction/dependency/ of the app's cluster:
//
//	"{\"resdependency\":{\"crd-install\":[\"crontabs+CustomResourceDefinition\"],\"pre-install\":[\"migrate+Job\"]}}"
//
// What it lists there under one of [Hooks] gets that hook. Other hooks of Helm, as pre-upgrade, are in no event of the engine, so a
// resource that has only such ones is left out and its keys are in Extra. A resource with two of [Hooks] is a BadLayout.
//
// # Concurrency
//
// Values are not copied: an AppContext that was given to someone must not be changed. A Builder is for one goroutine.
package appcontext
