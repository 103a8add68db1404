// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package appliedwork records on a managed cluster what a work of a hub has put there, and takes it away again: what the
// work does not want any more, and everything when the work ends, even when no agent is left to help. The record is an
// AppliedWork (package v1alpha1), which all the objects name as their owner.
//
//	config.QPS, config.Burst = 100, 200 // how fast objects come and go: see Limits
//	client := dynamic.NewForConfigOrDie(config)
//	err := v1alpha1.EnsureCRD(ctx, client.Resource(v1alpha1.CRDResource))
//	…
//	tracker, err := appliedwork.NewTracker(appliedwork.Options{
//		Client:    client,
//		Metadata:  metadata.NewForConfigOrDie(config),
//		Discovery: discovery.NewDiscoveryClientForConfigOrDie(config),
//	})
//	…
//	work, err := tracker.Ensure(ctx, appliedwork.NameFor("hub1", "cluster1", "work-01"),
//		v1alpha1.AppliedWorkSpec{WorkNamespace: "cluster1", WorkName: "work-01"})
//	…
//	changes, err := appliedwork.NewApplier(tracker).Apply(ctx, work, objects, appliedwork.ApplyOptions{})
//	changes, err = appliedwork.NewPruner(tracker).Prune(ctx, work, objects, appliedwork.PruneOptions{})
//	…
//	changes, err = appliedwork.NewCollector(tracker).Teardown(ctx, work, appliedwork.TeardownOptions{})
//
// Package reconciler does this in a controller of controller-runtime. The functions that decide ([Identify], [Diff],
// [DecideDeletion], [NameFor] and those of owner references) are pure, for agents that make their own requests.
//
// # Guarantees
//
//   - What is about to be made is recorded before the first request that makes it, and the owner reference is part of that
//     request. Whatever is lost, a process or an answer, no object is left that neither the inventory nor Kubernetes'
//     collector finds.
//   - Only objects with an owner reference to our AppliedWork are deleted, and only as they were when that was decided: each
//     deletion has the UID and the resourceVersion as preconditions. An object that another AppliedWork or any other owner
//     has loses our reference and stays. If an AppliedWork is about to apply it, that one gets the reference.
//   - An object that exists is adopted only if [ApplyOptions].Adoption allows it. An adopted object stays when the work ends,
//     unless [Policies].Adopted is PolicyDelete; one that comes from another AppliedWork is deleted like a created one.
//   - An object that the policies leave has no owner reference, nor has its Namespace or CRD: they stay also if the AppliedWork is
//     deleted.
//   - The objects of [Options].Protected, by default the cluster's own namespaces and the CRD of AppliedWork, are never deleted.
//   - A refused apply leaves no entry. A conflict with another field manager leaves the other fields of the object applied.
//   - Another apiVersion or another order of manifests deletes nothing, and the objects keep their UIDs.
//   - "The type is not served" never counts as "the object is gone", until fresh discovery has said so for long and the CRD
//     does not exist.
//   - Applying what is unchanged makes no write. The second apply of a manifest with a false or empty value that the API server
//     does not store makes one; from then on it is known.
//   - Nothing here talks to a hub. Losing it deletes nothing.
//
// # What it does not do
//
// One process at a time should work on an AppliedWork. Two do no harm, as conflicts are read again and merged; but a
// request of a process that was thought dead may arrive after another has pruned, and make an object that no
// inventory has. It has the owner reference and goes with the AppliedWork; before that, [Collector].Audit finds it, or
// [Collector].Survey for all AppliedWorks at once, and belongs after each restart. Kubernetes offers no way to refuse such a request.
//
// Kubernetes deletes a Namespace with its content, and a CRD with its objects. Prune and Teardown keep both while they contain
// objects that no AppliedWork has applied; see [Policies].Unmanaged. An object that is created between that check and the
// deletion is lost. Kubernetes' garbage collector makes no such check when somebody deletes the AppliedWork itself.
//
// There is no finalizer on the AppliedWork: an admin deletes it after the agent is gone. Then Kubernetes' collector deletes
// the objects after it, some 20 a second, in no order; [Collector].WaitGone waits for that.
//
// To move an object from one work to another, apply it with AdoptAlways, and prune the other work after that or at the same
// time. Until then both own it.
//
// # Limits
//
// Each object takes a request or more, so the limits of the client decide how fast objects are applied and deleted.
// client-go's default is a QPS of 5: five objects a second, where Kubernetes' collector deletes some 20 after the
// AppliedWork, as kube-controller-manager has a QPS of 20. Set QPS and Burst of the rest.Config as high as the API server may be
// asked; where its priority and fairness limit clients, a QPS of -1 is no limit.
//
// # Inventories
//
// status.appliedResources has group, version, kind, resource, namespace, name and UID of each object. An empty UID means
// that it was about to be applied, and nothing is known. Objects are the same when group, kind, namespace and name are. What
// has no room in one AppliedWork (some 5,000 entries) is in further ones, <name>-shard-1-<uid> and so on, with the label
// multicluster.x-k8s.io/shard-of, owned by the first. All that must not be lost is in entries and annotations, because a CRD
// that does not know the other fields of the status prunes them.
//
// Each object has an annotation multicluster.x-k8s.io/applied-hash-<uid> with the hash of its manifest, unless its annotations
// leave no room for it: it costs a request each time then. Adopted objects have multicluster.x-k8s.io/adopted-<uid> too. Users
// keep an object with multicluster.x-k8s.io/prune: disabled. [Options].ApplySet adds the labels of KEP-3659.
//
// # Access
//
// On appliedworks get, list, create, patch, delete and, for WaitGone, watch, update on appliedworks/status, and with the admission
// plugin OwnerReferencesPermissionEnforcement update on appliedworks/finalizers; on the kinds of the work get, list, create,
// patch, delete, and watch for WaitGone; and get on customresourcedefinitions, without which discovery alone says
// whether a kind is gone. EnsureCRD needs create and update on them too. [Options].Reviews needs create on subjectaccessreviews.
//
// # Coming from work-api
//
// The types and their JSON are those of kubernetes-sigs/work-api (sigs.k8s.io/work-api/pkg/apis/v1alpha1), and all helpers
// work on its CRD as it is; EnsureCRD adds to it what ours has, and loses nothing. What is different:
//
//   - The controller there names an AppliedWork as the Work; NameFor is for several hubs and namespaces. Give Ensure the old
//     names to keep what is there: what such an AppliedWork owns needs no adoption. Apply it with Force the first time,
//     as its fields are those of the field manager work-api-agent.
//   - generateDiff and deleteStaleManifest are [Diff] and [Pruner].Prune. There an object is stale when its version or its place
//     among the manifests is another; here neither counts.
//   - UID is set when an object was applied, which is what its code does, and not "on successful deletion" as its comment says.
//   - Owner references are on namespaced and cluster-scoped objects, as its code has it, where the enhancement speaks of
//     namespaced ones only. They block the owner's deletion here, and do not there.
//   - Deleting the AppliedWork, as it does when a Work ends, is enough here too. Teardown is faster where the client's
//     limits allow it.
//   - AppliedtWorkStatus, as the enhancement spells it, is a deprecated alias of AppliedWorkStatus.
//
// # Coming from OCM's AppliedManifestWork
//
// The idea is the same, and so are most words:
//
//   - AppliedManifestWork is AppliedWork; spec.hubHash and manifestWorkName are in NameFor's result and in spec.workName and
//     workNamespace; AppliedManifestResourceMeta is AppliedResourceMeta with the kind, which makes an entry findable when its
//     version is no longer served.
//   - The delete option of ManifestWork is [Policies]: Foreground is PolicyDelete, for adopted objects too, which waits for what the
//     objects own with the Propagation of that name; Orphan, SelectivelyOrphan and the orphaning rules are called the same.
//   - Its update strategies are [ObjectOptions].Strategy, ignoreFields IgnoreFields and IgnoreChangedFields, an executor [Executor].
//   - AppliedManifestWorkEvictionGracePeriod is EvictOptions.GracePeriod, 60 minutes too; status.evictionStartTime is
//     kept in an annotation as well. OCM's agent evicts what the hub does not have, or what is of another hub; here the agent
//     calls Evict when the hub has said so, never because it cannot be reached.
//   - Its agent keeps a finalizer on AppliedManifestWork, which holds it when the agent was removed first. There is none
//     here.
//   - Ownership is the UID in ownerReferences, there and here. Objects of OCM's agent are adopted with AdoptAlways, or with
//     AdoptIfUnowned after their ManifestWork was deleted with the delete option Orphan.
package appliedwork
