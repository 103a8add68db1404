// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package kube is a connector whose clusters are reached through their API servers: what the engine of package rsync applies goes
// there by server-side apply, and how it fares is read from there.
//
//	connectors, err := kube.New(map[string]kube.Cluster{
//		"edge+c1": {Kubeconfig: "/etc/rsync/c1.kubeconfig"},
//		"fleet+*": {Load: kube.Directory("/etc/rsync/fleet")}, // fleet+NAME is in NAME.kubeconfig
//	}, kube.Options{})
//	engine, err := rsync.New(store, connectors, rsync.Options{})
//
// go run ./examples/rsync serve --kubeconfig-dir DIR is a program with such clusters.
//
// Each cluster has one client, which its connectors share: one connection where the server speaks HTTP/2, one limit of requests
// per second, one memory of the kinds that it serves.
//
// # Apply
//
// Apply reads all manifests of a batch before it sends the first. It applies Namespaces first, then CustomResourceDefinitions, which it
// waits for until the API server serves them, then the rest in the order of the batch. Neighbours of one kind, and neighbours of
// independent kinds such as ConfigMaps, Services and Deployments, are applied in parallel, [Options].Concurrency at a time. After
// an error no more objects are sent. The engine calls again for the objects that are left, so a batch may take as long as it needs.
// Fields belong to [Options].FieldManager; one that is no longer in the manifest is removed. Fields of others are left alone
// and are an error that names them, or are taken with [Options].Force. What a server writes into metadata (resourceVersion, uid, managedFields and
// the like) is left out.
//
// An object that is being deleted is applied again when it is gone: the error is retryable until then.
//
// # Immutable fields
//
// An update that changes immutable fields, as the image of a Job, is a terminal error that names the fields, unless the manifest has
// Flux's annotation kustomize.toolkit.fluxcd.io/force: enabled. Then the object is deleted, with background propagation, and created
// again. A call that ended between the two is finished by the next one. Apply deletes only an object that
//
//   - the API server would create, as a dry run shows,
//   - [Options].FieldManager has applied before, and no other field manager applies,
//   - has no owner that its manifest does not name, and
//   - no other app context holds, except those that the update replaces.
//
// Otherwise the error gives the reason. Namespaces and CustomResourceDefinitions are never replaced.
//
// # Namespaces
//
// A manifest says its namespace. There is no default: an object without one and the same with namespace default would be two for the
// engine and one for the cluster, and an update that moves the first to the second would delete it.
//
// # Delete
//
// Objects are deleted in the same steps: in the order of the batch, which is the reverse one where the engine asks, then
// definitions, then Namespaces. Gone already, or of a kind that the cluster has just
// said not to serve, or one that could never have been applied, is no error. The namespaces default, kube-system,
// kube-public and kube-node-lease are neither deleted nor applied.
//
// # Differences
//
// The connector is a [connector.Differ]. It compares the live object with the result of a server-side dry run, so defaults, removed
// fields and the fields of others are those of the real apply. Three things differ: values that the API server draws at random, such as
// node ports; objects in a Namespace or of a kind that does not exist yet, which are reported as created and not checked; and fields
// of replaced objects, of which only those in the manifest are known. Values of Secrets and their annotations are hidden.
//
// # States
//
// An object is ready when kstatus, which kubectl's successors use, calls it current, with two differences: a Job is ready when it is
// complete, not when it runs, and a Pod has failed only in the phase Failed. A custom resource is judged by its conditions Ready,
// Reconciling and Stalled and by observedGeneration; one whose controller has not yet written any of them is taken for ready. A Deployment
// beyond its progress deadline has failed.
//
// Ten objects or more of one kind in one namespace are read by a list, unless it has more than 50 other objects for each; others
// are read one by one.
//
// While the engine waits it is told of changes by watches on the metadata of the kinds and
// namespaces of objects that are not yet as they are to be, see [Options].MaxWatches, and of those
// that an engine observes. Nothing else is watched, and nothing is cached.
//
// # Errors
//
// They are [connector.Error]s with the class that the engine goes by. None has content of a manifest or credentials: what a
// server or a webhook says is told only where it cannot quote any. Therefore an invalid field is named, and its value is not.
//
//	unreachable  no connection, no name, no answer in time, a certificate that is not verified; HTTP 502, 503 and 504 of a gateway;
//	             a program for credentials that does not come to an end
//	retryable    HTTP 401: tokens and certificates are replaced, and the configuration is read anew for the next call;
//	             403 while the server starts; a namespace that is not there yet or is being deleted; somebody else's change
//	             at the same time; 408, 429, 500, 503; a webhook that is down; a definition that is not served yet; a program for
//	             credentials that fails; files that a configuration names and that cannot be read
//	terminal     a broken manifest, one that is too large, does not fit its kind or is invalid; a field of others; access that is
//	             denied, also by a webhook or a quota; a kind that cannot be patched, such as a Binding, or is not served (but see [Options].AwaitKinds: definitions may be in the same batch, in
//	             a crd-install hook, or in an app that this one depends on); a protected namespace; a wrong kubeconfig
//
// Retry-After is left to the engine's backoff. Probe asks for /readyz and is content with any answer but one that the server, or what
// is behind a gateway, is not ready. After a probe without an answer the next one connects anew, with the configuration read anew.
//
// # Rights
//
// The user needs patch, create, get and delete on what it is to apply, also for differences; list is used where it is allowed; list and watch are for being told
// of changes. Kubeconfigs may name programs to run: take them from nobody you do not trust. Such a program cannot ask anybody
// questions. A call does not wait for one beyond its time, and says which it was; what it writes to standard error goes to that of this process.
package kube
