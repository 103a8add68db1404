// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package dynamicwatcher reconciles an object when other objects change that it depends on. The
// dependencies are known only at run time, differ from object to object, and may be of any kind:
// the Secrets and ConfigMaps that a policy's template names, for example. In these docs, a watcher
// is an object that depends on others. The type [Watcher] reconciles such objects.
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
//		policy := dynamicwatcher.ObjectIdentifier{
//			Group: "example.com", Version: "v1", Kind: "Policy", Namespace: "default", Name: "p",
//		}
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
// The next AddOrUpdateWatcher replaces the objects that the policy watches, and RemoveWatcher ends
// the watches. A controller of controller-runtime uses package source instead of a Reconciler.
//
// # Guarantees
//
//   - No change is lost. After a lost connection or a restart of the API server, the watch resumes
//     at the last resource version. Watchers are reconciled only if the object has changed
//     meanwhile ([Options].Reconnect). Watchers of absent objects and of selectors are also
//     reconciled if a reconcile during the interruption may have read an object that is gone now.
//   - A watcher is reconciled once when it begins to watch an object that exists, also if other
//     watchers watch the object already. [Options].DisableInitialReconcile disables that.
//   - Only Start, WaitForSync, queries and the lookup of a kind wait for the API server. A slow
//     request delays no other object, except those that share its watch: these are delayed for at
//     most 30 s. A request without an answer is repeated after two minutes.
//   - A kind is looked up when an object of it is first watched. An unknown kind is an
//     [ErrNoVersionedResource]. With [Options].MissingKind Wait, its watches begin when the CRD is
//     established. When a CRD is deleted, the watchers of existing objects are reconciled once. The
//     watches resume when the CRD is created again, also with another scope.
//   - Watchers are reconciled once when access is lost for some seconds, and when it is back.
//   - Reconcile behaves as in controller-runtime: errors are retried with the rate limiter, results
//     may requeue, [reconcile.TerminalError] ends the retries, and calls for one watcher never overlap.
//   - With [Options].EnableCache, [DynamicWatcher].QueryBatch reads the dependencies of a watcher
//     and watches them. The first read of an unwatched object is consistent. A batch that fails
//     changes nothing.
//   - A watch never delivers a state older than the last one, or older than the version that was
//     passed to [DynamicWatcher].AddWatcherAt.
//
// # Cost and limits
//
// Each distinct object has one API watch, limited to the object by a field selector: access by
// resourceNames is enough, with the verbs list and watch. The server sends metadata only, and only
// the UID and resource version are kept. A watch needs about 16 KiB and two goroutines, and about
// 90 watches share a connection. QPS and Burst of the configuration do not apply. A new CRD is
// recognized by its name; one with an unusual plural, or an aggregated API server, is found by
// lookups every 20 to 30 s.
//
// # Consolidation
//
// With [Options].Consolidate, many watched objects of one kind and namespace share one metadata
// watch on the namespace. Each then needs less than 1 KiB and no goroutine. Each kind in each
// namespace is in one of these phases:
//
//	          enough                synced                 ended
//	apart ──────────────▶ gathering ──────────▶ sharing ──────────────▶ interrupted
//	  ▲                       │                 ▲  │  ▲                   │   │
//	  │                       │ 1 s, failed     │  │  └───── synced ──────┘   │
//	  │ few left              ▼      synced     │  │ few left, too large      │
//	  └──────────────────── trying ─────────────┘  ▼                          │
//	                          ▲▲──────────────── leaving                      │
//	                          │   all returned                                │
//	                          └───────────────────── given up ────────────────┘
//
// In each phase:
//
//   - apart: each object has its own watch, until [ConsolidateOptions].MinObjects are watched.
//   - gathering: new objects wait for the shared watch, for a second at most.
//   - trying: each object has its own watch. The shared watch is tried immediately. After a
//     refusal, it is tried again after a minute. The pauses grow to half an hour.
//   - sharing: the shared watch has sent all existing objects, and delivers the changes.
//   - interrupted: the shared watch is opened again. Single watches replace it if the kind is
//     deleted, access is lost, or the server fails for 3 s (30 s if overloaded). They also replace
//     it if it has not sent all objects after 30 s.
//   - leaving: fewer than half of [ConsolidateOptions].MinObjects are left, or the namespace has
//     more than twice [ConsolidateOptions].MaxRatio objects for each watched one. Each object gets
//     its own watch. Until that watch is synced, the shared watch delivers the object's changes.
//
// An object receives its changes from one watch at a time. Changes that another watch has delivered
// before are recognized by their resource versions. A switch to another watch is like a reconnect:
// no change is lost, and only watchers of absent objects may be reconciled once more.
//
// [Options].EnableCache excludes consolidation.
//
// # More
//
// METRICS.md lists the metrics. MIGRATION.md is for users of kubernetes-dependency-watches.
package dynamicwatcher
