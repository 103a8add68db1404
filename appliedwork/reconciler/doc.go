// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package reconciler runs the helpers of package appliedwork in a controller of controller-runtime: it applies what each
// AppliedWork should have on the cluster, prunes what it should not, and ends it when that is said.
//
//	config.QPS, config.Burst = 100, 200 // client-go's defaults, 5 and 10, are how fast objects come and go: see package appliedwork
//	dynamicClient, err := dynamic.NewForConfig(config)
//	…
//	r, err := reconciler.New(reconciler.Options{
//		Options: appliedwork.Options{Client: dynamicClient, Discovery: discoveryClient},
//		Desired: reconciler.DesiredFunc(func(ctx context.Context, work *v1alpha1.AppliedWork) (reconciler.Want, error) {
//			objects, err := hub.Manifests(ctx, work.Spec.WorkNamespace, work.Spec.WorkName)
//			return reconciler.Want{Objects: objects}, err
//		}),
//	})
//	if err != nil {
//		return err
//	}
//	return r.SetupWithManager(manager)
//
// An error of Desired, as when the hub cannot be reached, deletes nothing. The controller's own events come from changes of
// AppliedWorks; what else should start a reconcile, as a change on the hub, is a request with the name of the AppliedWork:
// give [Reconciler] to a builder of your own for that.
package reconciler
