// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifestwork is a connector for clusters with a work agent. It writes ManifestWorks
// (work.open-cluster-management.io/v1) with the manifests of the engine of package rsync to the
// cluster's namespace on a hub. The reports of the agent are the states of the objects.
//
//	connectors, err := manifestwork.New(clientset.WorkV1(), manifestwork.Options{})
//	engine, err := rsync.New(store, connectors, rsync.Options{})
//
// The clientset has the generated interface of open-cluster-management.io/api/client/work. It is
// the typed clientset of a hub's API server, or the clientset of a work.Source. A source sends
// works over a broker, without the API server of a hub:
//
//	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "rsync", Store: store})
//	go source.Start(ctx)
//	connectors, err := manifestwork.New(source.Clientset().WorkV1(), manifestwork.Options{
//		Reachable: func(context.Context, appcontext.ClusterID) error { return source.Healthy() },
//	})
//
// go run ./examples/rsync serve --broker URL is a program with such a source.
//
// Give such a source a Store: a source without a Store starts without its earlier works, and the
// objects of these works then count as deleted.
//
// # Works
//
// The connector creates one work for each app of an AppContext on each cluster: see
// [Connectors.Name]. New objects of the app are added to this work. An object that is already in a
// work of the connector stays there, regardless of the context and the app that apply it. An agent
// could delete and recreate an object that moves. A work is deleted with its last object.
//
// The works of the connector have the label [LabelManager] with the value [Options].Manager. The
// connector never changes other works. Apply returns a retryable error for an object of a work that
// is being deleted, until the work is gone.
//
// Manifests are converted to JSON. Agents apply a work in the order in which its objects were first
// applied, and delete them in any order. The phases of an app, including waves and hooks with
// delete policies, keep their order, because the engine waits for each phase.
//
// # States
//
// An object exists when the agent reports its manifest as Available. It is ready when, in addition,
//
//   - the condition Applied of the work has the current generation as its observedGeneration, which
//     agents must set,
//   - the condition Applied of the manifest is True,
//   - Complete is True, and Progressing and Degraded are False, as far as the manifest has these
//     conditions,
//   - the status of its kind is good: a Deployment, StatefulSet or DaemonSet has all replicas, a
//     Job is complete, a CustomResourceDefinition is established. For these kinds [DefaultConfig]
//     requests fields of the status from the agent. Right after a change, a report may still have
//     the earlier values. With an agent without status feedback these kinds never become ready: let
//     [Options].Config return nil for them.
//
// A Job that reports a failure is Failed, regardless of Progressing and Degraded. The failure does
// not count if the condition StatusFeedbackSynced of the manifest has an earlier generation than
// the work. A manifest that is not applied is not Failed, because agents retry.
//
// A deleted object is gone when the agent has applied the work's current generation and does not
// list the object any more, or when the work is gone. If an agent reports before it prunes, the
// object counts as gone slightly early. If the agent cannot apply some other object of the work,
// the deleted object does not count as gone, and the engine waits.
//
// # Differences
//
// The connector is a [connector.Differ]: it compares manifests with the manifests in the works, and
// does not see changes of other writers on the cluster.
//
// # Guarantees
//
//   - No object moves between works.
//   - Writes have the resourceVersion of the read work. After a conflict the connector reads the
//     work and repeats the change, up to ten times. Then the error is retryable.
//   - A batch makes one write for each work that it changes, usually one. The next call completes
//     an interrupted call. A call without changes writes nothing.
//   - Apply reads the app's own work. Only for objects that are not in it, Apply lists the
//     connector's works in the namespace, 500 at a time. Get does the same, and caches the name of
//     the work of each object.
//
// # Errors
//
// Errors are [connector.Error]s. Their texts have no content of manifests: they name invalid fields
// without values, and omit messages of admission webhooks. For an answer of the hub the text is
// "the hub refused", not "the cluster refused".
//
//	unreachable  no connection, a broken one, no answer in time, HTTP 502, 503, 504; an error of
//	             Options.Reachable
//	retryable    a missing namespace, or one that is being deleted; a work that is being deleted;
//	             repeated conflicts; too many requests, an internal error of the hub
//	terminal     access denied, wrong credentials; an invalid work; a webhook that denies; a work
//	             over MaxWorkBytes, or over the limit of the hub or the broker; a manifest that is
//	             broken or of another object; a foreign work of the same name
//
// # Reachable
//
// A hub accepts works for disconnected clusters, so Probe checks only the hub. It lists one work,
// and returns nil if the hub answers, even with an error. Apps on a disconnected cluster then wait
// until their objects are ready. [Options].Reachable can check more: the connection to a broker, or
// a ManagedCluster or a lease of the agent.
package manifestwork
