// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package dynamicwatcher reconciles an object when other objects change that it depends on. The dependencies are known only
// at run time, differ from object to object, and may be of any kind: the Secrets and ConfigMaps that a policy's template
// names, for example. In these docs a watcher is the object that depends on others, and the others are watched.
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"log"
//		"os"
//		"os/signal"
//
//		"github.com/spokewire/sdk-go/dynamicwatcher"
//		"sigs.k8s.io/controller-runtime/pkg/reconcile"
//	)
//
//	func main() {
//		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
//		defer stop()
//		watcher, err := dynamicwatcher.New(&dynamicwatcher.Options{Reconciler: dynamicwatcher.ReconcilerFunc(
//			func(ctx context.Context, policy dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
//				for _, trigger := range dynamicwatcher.TriggersFrom(ctx) {
//					fmt.Println(policy.Name, "depends on", trigger.Watched.Name, "which was", trigger.Type)
//				}
//				return reconcile.Result{}, nil
//			})})
//		if err != nil {
//			log.Fatal(err)
//		}
//		policy := dynamicwatcher.ObjectIdentifier{Group: "example.com", Version: "v1", Kind: "Policy", Namespace: "default", Name: "p"}
//		err = watcher.AddOrUpdateWatcher(policy,
//			dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "Secret", Namespace: "default", Name: "password"},
//			dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "settings"})
//		if err != nil {
//			log.Fatal(err)
//		}
//		if err := watcher.Start(ctx); err != nil {
//			log.Fatal(err)
//		}
//	}
//
// The next AddOrUpdateWatcher replaces what the policy watches, and [DynamicWatcher].RemoveWatcher ends it. A controller of
// controller-runtime uses package source instead of a Reconciler.
//
// # Guarantees
//
//   - No change is lost. After a lost connection or a restart of the API server the watch resumes at the last resource version.
//     Watchers are reconciled when the object is not as it was, and only then ([Options].Reconnect). An absent object may have
//     come and gone meanwhile: watchers that were reconciled in that time, and may have seen it, are reconciled again.
//   - A watcher is reconciled once when it begins to watch an object that exists ([Options].DisableInitialReconcile), also
//     when other watchers watch the object already.
//   - Only Start, WaitForSync, queries and the lookup of a kind wait for the API server. A request that is slow or hangs delays
//     no other object, except those that share its watch, for 30 s. A request without an answer is repeated after two minutes.
//   - A kind is looked up when an object of it is first watched. An unknown kind is an [ErrNoVersionedResource], or with
//     [Options].MissingKind Wait the watch begins when the CRD is established. When a CRD is deleted, the watchers of existing
//     objects are reconciled once, and the watches resume when it comes back, also with another scope.
//   - When access is lost for some seconds, the watchers are reconciled once, and again when access is back ([AccessLost]).
//   - Reconcile behaves as in controller-runtime: errors are retried with the rate limiter, results may requeue,
//     [reconcile.TerminalError] ends the retries, and one watcher is never reconciled twice at once.
//   - With [Options].EnableCache, [DynamicWatcher].QueryBatch reads what a watcher depends on and watches what was read. The first
//     read of an object is consistent. A batch that fails changes nothing.
//
// # Cost and limits
//
// Each distinct object has one API watch, limited to the object by a field selector: access by resourceNames is enough, with
// the verbs list and watch. The server sends metadata only, and only the UID and resource version are kept. A watch takes
// about 16 KiB and two goroutines, and about 90 watches share a connection. The QPS and Burst of the configuration do not
// apply. Kinds whose CRD has an unusual plural, and kinds of aggregated API servers, are awaited with a lookup every 20 to
// 30 s. Identifiers and events have limits in bytes; the number of watched objects has none.
//
// # Consolidation
//
// With [Options].Consolidate, many watched objects of one kind and namespace share one metadata watch on the namespace. Each
// then takes less than 1 KiB and no goroutine. Each kind in each namespace is in one of these phases:
//
//		            enough                synced                 ended
//		  apart ──────────────▶ gathering ──────────▶ sharing ──────────────▶ interrupted
//		    ▲                       │                 ▲  │  ▲                   │   │
//		    │                       │ 1 s, failed     │  │  └───── synced ──────┘   │
//		    │ few left              ▼      synced     │  │ few left, too large      │
//		    └──────────────────── trying ─────────────┘  ▼                          │
//		                            ▲▲──────────────── leaving                      │
//		                            │   all returned                                │
//		                            └───────────────────── given up ────────────────┘
//
//	  - apart: each object has its own watch, until [ConsolidateOptions].MinObjects are watched.
//	  - gathering: new objects wait for the shared watch, for a second at most.
//	  - trying: each object has its own watch. The shared watch is tried at once, and after a refusal again after a minute at
//	    first and each half hour in the end.
//	  - sharing: the shared watch has sent all that exists, and delivers the changes.
//	  - interrupted: the shared watch is opened again. Access lost or a failing server for 3 s (30 s when overloaded), a stream
//	    that has not sent all after 30 s, and a deleted kind lead to single watches.
//	  - leaving: fewer than half of the objects are left, or the namespace has more than twice [ConsolidateOptions].MaxRatio for
//	    each. An object leaves when its own watch has sent what exists.
//
// An object receives its changes from one watch at a time, and resource versions tell which of them it has received before.
// It changes over as after a reconnect: no change is lost, and only the watchers of an absent object may be reconciled once
// more. [Options].EnableCache excludes consolidation: the shared watch would bring the content of all objects of the namespace,
// up to 50 for each watched one, and not their metadata.
//
// # More
//
// METRICS.md lists the metrics of [Options].MetricsRegisterer. MIGRATION.md is for users of kubernetes-dependency-watches.
package dynamicwatcher
