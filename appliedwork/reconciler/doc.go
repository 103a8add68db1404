// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package reconciler runs package appliedwork in a controller of controller-runtime. For each AppliedWork of a hub it applies
// the desired objects, prunes those that are not desired any more, and tears down what the hub has removed.
//
//	config.QPS, config.Burst = 100, 200 // client-go's defaults, 5 and 10, limit how fast objects are applied
//	r, err := reconciler.New(reconciler.Options{
//		Options: appliedwork.Options{
//			Client:    dynamic.NewForConfigOrDie(config),
//			Metadata:  metadata.NewForConfigOrDie(config),
//			Discovery: discovery.NewDiscoveryClientForConfigOrDie(config),
//		},
//		Hub: "hub1",
//		Desired: reconciler.DesiredFunc(func(ctx context.Context, work *v1alpha1.AppliedWork) (reconciler.Want, error) {
//			objects, err := hub.Manifests(ctx, work.Spec.WorkNamespace, work.Spec.WorkName)
//			return reconciler.Want{Objects: objects}, err
//		}),
//	})
//	if err != nil {
//		return err
//	}
//	spec := v1alpha1.AppliedWorkSpec{WorkNamespace: "cluster1", WorkName: "shop"}
//	_, err = r.Tracker().Ensure(ctx, appliedwork.NameFor("hub1", "cluster1", "shop"), spec)
//	if err != nil {
//		return err
//	}
//	return r.SetupWithManager(manager)
//
// # Guarantees
//
//   - Only the AppliedWorks of [Options].Hub are read and written. Another agent on the cluster keeps its own.
//   - An error of [Desired] deletes nothing.
//   - A work is pruned only when all its objects are applied, unless [Options].PruneIncomplete is set.
//   - Objects that were adopted stay when the work ends, unless [Options].Policies say otherwise.
//   - A Namespace stays while it contains objects that no AppliedWork has applied, unless [Options].Policies say otherwise. It is
//     looked at again after [Options].Resync, or when a [Options].Watcher reports a change of the objects that the condition names.
//   - Changes by others are repaired after [Options].Resync, or at once with an [Options].Watcher. Without
//     [appliedwork.ApplyOptions].Force, a field that another manager has changed stays as it is and is reported as a conflict.
//
// A change on the hub must become a request with the name of the AppliedWork: add [Reconciler] to a builder of your own, with
// your own sources.
package reconciler
