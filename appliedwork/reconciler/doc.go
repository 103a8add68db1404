// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package reconciler runs package appliedwork in a controller of controller-runtime. For each
// AppliedWork of a hub it applies the desired objects, prunes those that are not desired any more,
// and tears down the works that the hub has removed.
//
//	config.QPS, config.Burst = 100, 200 // client-go's defaults, 5 and 10, limit how fast objects are applied
//	client := dynamic.NewForConfigOrDie(config)
//	if err := v1alpha1.EnsureCRD(ctx, client.Resource(v1alpha1.CRDResource)); err != nil {
//		return err
//	}
//	r, err := reconciler.New(reconciler.Options{
//		Options: appliedwork.Options{
//			Client:    client,
//			Metadata:  metadata.NewForConfigOrDie(config),
//			Discovery: discovery.NewDiscoveryClientForConfigOrDie(config),
//		},
//		Hub: "hub1",
//		Desired: reconciler.DesiredFunc(func(ctx context.Context, work *v1alpha1.AppliedWork) (reconciler.Want, error) {
//			objects, err := hub.Manifests(ctx, work.Spec.WorkNamespace, work.Spec.WorkName) // your code
//			return reconciler.Want{Objects: objects}, err
//		}),
//	})
//	if err != nil {
//		return err
//	}
//	// For each new work of the hub:
//	spec := v1alpha1.AppliedWorkSpec{WorkNamespace: "cluster1", WorkName: "shop"}
//	_, err = r.Tracker().Ensure(ctx, appliedwork.NameFor("hub1", "cluster1", "shop"), spec)
//	if err != nil {
//		return err
//	}
//	return r.SetupWithManager(manager)
//
// # Guarantees
//
//   - Only the works of [Options].Hub are applied, pruned and torn down. Other AppliedWorks are
//     only read, to find shared objects. An object may be handed over to another AppliedWork that
//     is about to apply it.
//   - An error of [Desired] deletes nothing.
//   - A work is pruned only when all its objects are applied, unless [Options].PruneIncomplete
//     is set.
//   - Unless [Options].Policies decide otherwise, adopted objects stay when the work ends, and a
//     Namespace stays while it contains objects that no AppliedWork has applied. The Namespace is
//     checked again after [Options].Resync, or when the [Options].Watcher reports a change of an
//     object in [appliedwork.PruneBlockedError].Objects.
//   - Changes by others are repaired after [Options].Resync, or at once with an [Options].Watcher.
//     Without [appliedwork.ApplyOptions].Force, a field that another manager has changed keeps
//     its value. The condition Applied reports the conflict, and the work is tried again with
//     backoff.
//
// A change on the hub must become a request with the name of the AppliedWork. For that, add the
// [Reconciler] to a builder of your own, with your own sources, in place of SetupWithManager. A
// work that the hub has deleted needs a [Want] with Removed; an empty Want is no removal.
package reconciler
