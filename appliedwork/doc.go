// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package appliedwork applies the objects of a work on a managed cluster, and deletes them when the
// work drops them or ends. A work is a set of manifests from a hub. An AppliedWork (package
// v1alpha1) is the inventory of its objects, and their owner. So Kubernetes deletes them with the
// AppliedWork, also when no agent runs any more.
//
//	config.QPS, config.Burst = 100, 200 // limits of the client: see Limits
//	client := dynamic.NewForConfigOrDie(config)
//	err := v1alpha1.EnsureCRD(ctx, client.Resource(v1alpha1.CRDResource)) // of AppliedWork
//	…
//	tracker, err := appliedwork.NewTracker(appliedwork.Options{
//		Client:    client,
//		Metadata:  metadata.NewForConfigOrDie(config),
//		Discovery: discovery.NewDiscoveryClientForConfigOrDie(config),
//	})
//	…
//	applier := appliedwork.NewApplier(tracker) // one of each for the whole process
//	pruner, collector := appliedwork.NewPruner(tracker), appliedwork.NewCollector(tracker)
//	…
//	work, err := tracker.Ensure(ctx, appliedwork.NameFor("hub1", "cluster1", "work-01"),
//		v1alpha1.AppliedWorkSpec{WorkNamespace: "cluster1", WorkName: "work-01"})
//	…
//	changes, err := applier.Apply(ctx, work, objects, appliedwork.ApplyOptions{})
//	if err == nil && changes.Done() { // after an incomplete apply, the old objects stay
//		changes, err = pruner.Prune(ctx, work, objects, appliedwork.PruneOptions{})
//	}
//	…
//	changes, err = collector.Teardown(ctx, work, appliedwork.TeardownOptions{}) // until Done
//
// Package reconciler does this in a controller of controller-runtime. The functions that decide
// ([Identify], [Diff], [DecideDeletion], [NameFor] and those of owner references) are pure, for
// agents that make their own requests.
//
// # Guarantees
//
//   - Apply records an object before the first request that creates it, and that request sets
//     the owner reference. After a crash or a lost response, the inventory or Kubernetes'
//     garbage collector still finds every object.
//   - Only objects with an owner reference to the work's AppliedWork ("our owner reference") are
//     deleted. Each deletion has the UID and the resourceVersion as preconditions. An object with
//     another owner loses our owner reference and stays.
//   - An existing object is adopted only if [ApplyOptions].Adoption allows it. An adopted object
//     stays when the work ends, unless [Policies].Adopted is PolicyDelete. An object that another
//     work has created does not count as adopted.
//   - A Namespace stays while it contains objects that no AppliedWork has applied, unless
//     [Policies].Unmanaged is PolicyDelete. A CRD stays while one of its objects lacks our owner
//     reference or has another owner.
//   - An object that the policies keep has no owner reference, nor does its Namespace or its
//     CRD. All of them stay when the AppliedWork is deleted.
//   - If [Policies].For keeps an object in a Teardown, other AppliedWorks with the same object also
//     keep it and its Namespace, from the start of the Teardown.
//   - The objects of [Options].Protected are never deleted. The default is the cluster's own
//     namespaces and the CRD of AppliedWork.
//   - A refused apply leaves no entry. If some fields conflict with another field manager, the
//     other fields are still applied to an object that the AppliedWork owns. With such a conflict,
//     an object that it does not own yet is not adopted.
//   - A change of the apiVersion or of the order of manifests deletes nothing.
//   - An object of a kind that is not served counts as gone only after [Options].UnservedGrace,
//     and only if its CRD does not exist.
//   - An apply without changes writes nothing. The only exception is the second apply of a manifest
//     with a false or empty value that the API server drops.
//   - This package does not contact the hub. Losing the hub deletes nothing.
//
// # What it does not do
//
// One process at a time should work on an AppliedWork. A late request of an earlier process may
// create an object after another process has pruned. No inventory has that object. It is deleted
// with the AppliedWork; before that, [Collector].Audit and [Collector].Survey find it.
//
// Kubernetes deletes a Namespace with its content, and a CRD with its objects. Prune and Teardown
// check for objects that must stay before they delete either. An object that is created between the
// check and the deletion is lost. Kubernetes' garbage collector makes no such check.
//
// The AppliedWork has no finalizer. An admin can delete it after the agent was removed. Then
// Kubernetes' garbage collector deletes the objects, some 20 a second, in no order.
//
// To move an object from one work to another, apply it with AdoptionAlways, and prune the other
// work after that or at the same time. Until then both own it.
//
// # Limits
//
// Each object needs at least one request. client-go's default QPS of 5 is slower than Kubernetes'
// garbage collector. Set QPS and Burst of the rest.Config higher, or QPS to -1 if the API server
// limits clients.
//
// # Inventories
//
// status.appliedResources has an entry for each object. Before the object is applied, the entry has
// no UID. Group, kind, namespace and name identify an object.
//
// An AppliedWork has room for some 5,000 entries. Further entries are in shards: AppliedWorks with
// the name <name>-shard-1-<uid> and so on, and the label multicluster.x-k8s.io/shard-of.
//
// The annotation multicluster.x-k8s.io/applied-hash-<uid> of an object is the hash of its manifest.
// If there is no room for it, each apply makes one more request. Adopted objects have
// multicluster.x-k8s.io/adopted-<uid>. An object with the annotation multicluster.x-k8s.io/prune:
// disabled stays. Kubernetes' garbage collector keeps it only after the next apply, which removes
// its owner reference. [Options].ApplySet adds the labels of KEP-3659.
//
// # More
//
//   - ACCESS.md lists the access rules.
//   - MIGRATION.md is for users of work-api and of OCM's AppliedManifestWork.
package appliedwork
