// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package kube is a connector for clusters with an API server. It applies objects by server-side
// apply, and reads their states from the API server.
//
//	connectors, err := kube.New(map[string]kube.Cluster{
//		"edge+c1": {Kubeconfig: "/etc/rsync/c1.kubeconfig"},
//		"fleet+*": {Load: kube.Directory("/etc/rsync/fleet")}, // fleet+NAME is in NAME.kubeconfig
//	}, kube.Options{})
//	engine, err := rsync.New(store, connectors, rsync.Options{})
//
// go run ./examples/rsync serve --kubeconfig-dir DIR is a program with such clusters.
//
// The connectors of a cluster share one connection with HTTP/2, one rate limit, and one cache of
// the kinds that the cluster serves.
//
// # Apply
//
// Apply decodes all manifests of a batch before it sends the first. It applies Namespaces first,
// then CustomResourceDefinitions, and waits until the API server serves them. Then it applies the
// other objects in the order of the batch. Consecutive objects of one kind or of independent kinds,
// for example ConfigMaps, Services and Deployments, are applied in parallel, [Options].Concurrency
// at a time. After an error Apply sends no more objects. The next call of the engine has only the
// remaining objects. Therefore a batch may have any size.
//
// [Options].FieldManager owns the fields of a manifest. Fields that the manifest no longer has are
// removed. A field of another manager is an error, unless [Options].Force is set. Metadata that
// servers write is omitted. An object that is being deleted is a retryable error until it is gone.
//
// # Immutable fields
//
// An update of immutable fields, for example the image of a Job, is a terminal error that names the
// fields. With Flux's annotation kustomize.toolkit.fluxcd.io/force: enabled in the manifest, Apply
// deletes the object with background propagation and creates it again. If a call ends between
// deletion and creation, the next call creates the object. Apply deletes only an object that
//
//   - can be created again, according to a dry run of the API server,
//   - was applied by [Options].FieldManager and by no other field manager,
//   - has only owners that its manifest names, and
//   - is held by no other app context, except those that the update replaces.
//
// Otherwise the error gives the reason. Namespaces and CustomResourceDefinitions are never
// replaced.
//
// # Namespaces
//
// A manifest must have its namespace. There is no default, because the engine would treat one
// object as two: without a namespace, and in the namespace default. An update from the first to the
// second would delete the object.
//
// # Delete
//
// Delete deletes objects in the order of the batch, then CustomResourceDefinitions, then
// Namespaces. Delete returns no error for an object that does not exist. The same applies to an
// object that cannot exist on the cluster, for example of a kind that the cluster does not serve.
// The namespaces default, kube-system, kube-public and kube-node-lease are neither deleted nor
// applied.
//
// # Differences
//
// The connector is a [connector.Differ]. It compares the live object with the result of a
// server-side dry run. A dry run differs from the real apply in random values, for example node
// ports. If the Namespace or the kind of an object does not exist yet, the object is reported as
// created, without a check. A replaced object has only the fields of the manifest. Values of
// Secrets and their annotations are redacted.
//
// # States
//
// An object is ready when its kstatus is Current, with two differences. A Job is ready when it is
// complete, not when it runs. A Pod has failed only in the phase Failed. For a custom resource the
// conditions Ready, Reconciling and Stalled and observedGeneration decide. A custom resource
// without any of them is ready: [Options].Interpreter can decide instead, with a webhook or a
// customization. A Deployment beyond its progress deadline has failed.
//
// Ten or more objects of one kind in a namespace are read with a list. If the list has more than 50
// other objects for each requested object, the connector reads the requested objects one by one.
// The connector watches metadata only, in the kinds and namespaces of the objects that the engine
// waits for or observes: see [Options].MaxWatches. No object is cached.
//
// # Errors
//
// Errors are [connector.Error]s. Their texts name invalid fields without values. They have no
// content of manifests, no credentials, and no messages that may quote them.
//
//	unreachable  no connection, an unknown host, no answer in time, an unverified certificate; HTTP
//	             502, 503 and 504 of a gateway; a credential plugin that does not end
//	retryable    HTTP 401: the next call reads the configuration again, in case credentials were
//	             replaced; 403 while the server starts; a missing namespace, or one that is being
//	             deleted; a concurrent change by another client; 408, 429, 500, 503; an unreachable
//	             webhook; a definition that is not served yet; a credential plugin that fails;
//	             files of a configuration that cannot be read
//	terminal     a manifest that is broken, too large, invalid or of another object; a field of
//	             another manager; access that is denied, also by a webhook or a quota; a kind that
//	             cannot be patched, such as a Binding; a kind that is not served, unless
//	             Options.AwaitKinds is set; a protected namespace; a wrong kubeconfig
//
// The definition of a kind may be in the same batch, in a crd-install hook, or in an app that this
// app depends on.
//
// The engine's backoff replaces Retry-After. Probe requests /readyz. It returns an error if the
// answer is HTTP 500 or more: the server or a gateway is not ready.
//
// # Rights
//
// The user needs the verbs patch, create, get and delete for the applied kinds, also for Diff. The
// verbs list and watch are optional: with list the connector needs fewer requests, with both it
// notices changes. A kubeconfig may name an exec credential plugin, which this process runs without
// a terminal: use only trusted kubeconfigs. A call does not wait for the plugin beyond the time
// limit of the call.
package kube
