// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package workhealth determines the health of each object in the ManifestWorks of a hub, from the
// statuses that agents report. It works with any ManifestWork clientset and any agent of Open Cluster
// Management.
//
// A work requests the statuses of its objects:
//
//	work.Spec.ManifestConfigs = workhealth.Configs(work.Spec.Workload.Manifests)
//
// A [Tracker] watches the works, and evaluates each object when its manifest or its status changes:
//
//	tracker, err := workhealth.New(clientset, workhealth.Options{
//		Interpreter: webhooks, // optional
//		Changed:     func() { … },
//	})
//	if err != nil {
//		return err
//	}
//	go tracker.Start(ctx)
//	…
//	for _, w := range tracker.Works() {
//		for _, o := range w.Objects {
//			s := o.At(time.Now(), workhealth.ProgressDeadline)
//			fmt.Println(w.Namespace, o.Object, s.Health, s.Reason) // c1 apps/Deployment shop/web Progressing 0 of 2 replicas available
//		}
//	}
//
// # Health
//
// The tracker adds the reported status and generation to the manifest and calls interpreters:
// [Options].Interpreter, then package native, then package customization/kinds. An object without
// an interpreter is Healthy as soon as it is applied. The words are those of Argo CD: see [Health]
// and [Sync]. An object that is not healthy is Progressing if it may still become healthy: kstatus
// decides. It is Degraded if it has failed, if its agent reports the condition Degraded, or after the
// deadline of [ObjectStatus.At]. [Status.Over] is the health of a group.
//
// # Guarantees
//
//   - An interpreter is called again only when manifest, generation or status change, after
//     [Tracker.Refresh], or after an error: then at most once a minute for a work.
//   - A work counts as applied only if its agent has reported the newest generation, including a
//     change that the informer has not received yet: see [Tracker.Writing].
//   - Reasons do not quote manifests. They may quote messages in conditions.
//
// # Limits
//
// The API limits a reported value to 1,024 characters. For a longer status, interpreters get only
// the fields and conditions that [Config] requests separately. The tracker keeps one copy of the
// manifests, in addition to the informer's works.
package workhealth
