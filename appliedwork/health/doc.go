// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package health reports the status of objects on a cluster, and waits until applied objects are
// current. The status is computed by kstatus, the library that kpt, Flux and cli-utils use.
//
//	changes, err := appliedwork.NewApplier(tracker).Apply(ctx, work, objects, appliedwork.ApplyOptions{})
//	if err == nil {
//		err = changes.Err()
//	}
//	if err != nil {
//		return err
//	}
//	err = health.NewWaiter(tracker).Wait(ctx, objects, health.Options{
//		Timeout: 5 * time.Minute,
//		OnChange: func(e health.Event) {
//			log.Printf("%s is %s: %s", e.Key, e.Result.Status, e.Result.Message)
//		},
//	})
//	var notReady *health.NotReadyError
//	if errors.As(err, &notReady) {
//		log.Printf("%s is not current", notReady.Key)
//	}
//
// # Differences from kstatus
//
// A Job is InProgress until it is complete, and a Pod in the phase Failed is Failed. For kstatus,
// both are Current.
//
// # Custom resources
//
// The status of a custom resource follows from the conditions Ready, Reconciling and Stalled, and
// from status.observedGeneration. If all of these are missing, the object is Current as soon as it
// exists. So a controller should set a condition from the start, for example by a default in the
// schema of its CRD.
//
// # Requests
//
// Wait makes a list and a watch for each kind and namespace. A single object is selected by its
// name; otherwise, the API server sends all objects of the kind in the namespace. If list or watch
// is forbidden or not supported, Wait reads each object with get. The pauses between attempts grow
// from 0.1 to 10 seconds.
//
// An object that cannot be read is Unknown. Wait tries again until its context ends, because the
// missing right or CRD may still be added.
package health
