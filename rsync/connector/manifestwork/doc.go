// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifestwork is a connector whose clusters have a work agent: what the engine of package rsync applies becomes manifests
// of ManifestWorks (work.open-cluster-management.io/v1) in the cluster's namespace on a hub, and what the agent reports
// becomes the state of the objects.
//
//	connectors, err := manifestwork.New(clientset.WorkV1(), manifestwork.Options{})
//	engine, err := rsync.New(store, connectors, rsync.Options{})
//
// The clientset is any with the generated interface (open-cluster-management.io/api/client/work): the typed one of a hub's API
// server, or that of a source, with which works travel over a broker and no hub stores them:
//
//	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "rsync", Store: store})
//	go source.Start(ctx)
//	connectors, err := manifestwork.New(source.Clientset().WorkV1(), manifestwork.Options{
//		Reachable: func(context.Context, appcontext.ClusterID) error { return source.Healthy() },
//	})
//
// go run ./examples/rsync serve --broker URL is a program that does so.
//
// Give such a source a Store: without one it starts with no works, and the objects in them look as if they were gone.
//
// # Works
//
// There is one work for each app of each AppContext on each cluster, see [Connectors.Name]. It has what an Apply adds. An
// object that a work of ours holds already stays in that one, whatever context and app come to apply it: an update leaves what
// did not change where it is, and a move from one work to another could have the agent delete the object and make it
// anew. So after an update, or where an object goes from one app to another, an app's objects may be in several works. A Delete takes objects
// out of the works that hold them; a work is deleted with its last object.
//
// Ours are the works with the label [LabelManager] and [Options].Manager as its value; others are never touched. The objects of a work that is
// being deleted cannot be applied again until its agent has let go of it: that is a retryable error.
//
// Manifests are converted to JSON, and follow each other in the order in which they were applied first. Agents apply a work in
// that order, but its objects are deleted in an order of the agent's choice. The phases of an app, its waves and its hooks with their
// delete policies among them, keep their order, as the engine waits for each.
//
// # States
//
// An object exists when the agent reports its manifest as Available. It is ready when, in addition,
//
//   - the Applied condition of the work has observed the work's current generation: an agent must set observedGeneration there,
//     and what was reported of an earlier one is never taken for the present,
//   - the manifest's own condition is Applied,
//   - Complete, where the manifest has that condition, is True, and Progressing and Degraded are False,
//   - and its kind is content. For that [DefaultConfig] asks the agent for fields of the status: a Deployment, StatefulSet or
//     DaemonSet has the wanted replicas, a Job is complete, a CustomResourceDefinition established. As fresh as what the agent
//     reports is what is known: right after a change it may still be of the time before. An agent that has no status
//     feedback never reports these ready: have [Options].Config return nil for it.
//
// A Job that reports that it failed is Failed, whatever Progressing and Degraded are, unless the condition StatusFeedbackSynced of its
// manifest is of an earlier generation. A manifest that is not applied is not: agents try again, and its namespace or
// definition may come. The message says why, in the agent's words.
//
// An object that was deleted is gone when the agent has applied all of the work's current generation and does not list it any
// more, or when the work is gone. For that a work remembers what was taken out of it, in an annotation. An agent that reports before it has pruned says
// so a little early; one that cannot apply some other object of the work has not confirmed anything, and the engine
// goes on waiting.
//
// # Differences
//
// The connector is a [connector.Differ]: it compares manifests with those in the works. Agents do not report whole objects, so changes
// that others make on the cluster are not in the difference.
//
// # Guarantees
//
//   - No object is moved between works, so none is deleted and made anew that stays.
//   - Writes have the version of the work that was read. Where others were faster it is read again and the change made
//     again on top of theirs, up to ten times; then the error is retryable.
//   - A batch is one write for each work that it changes, mostly one. A call that ended half way, with its process or
//     without, is completed by the next. One that changes nothing writes nothing.
//   - An Apply reads the app's own work, and lists all of ours in the namespace, 500 at a time, only if objects are new to it. Get does the same,
//     and remembers where it found objects.
//
// # Errors
//
// They are [connector.Error]s with the class that the engine goes by. None has content of manifests: of what a hub finds
// invalid, the fields are named and not the values, and what an admission webhook says is left out.
//
// Where the hub answers, the text says so: "the hub refused", not "the cluster refused".
//
//	unreachable  no connection, a broken one, no answer in time, HTTP 502, 503, 504; what Options.Reachable says
//	retryable    no such namespace (yet), or one that is being deleted; a work that is being deleted; others that are always faster;
//	             too many requests, an internal error of the hub
//	terminal     access denied, wrong credentials; an invalid work; a webhook that denies; a work over MaxWorkBytes, or over what hub or
//	             broker take; a broken manifest, or of another object; a work of the same name that is not ours
//
// # Reachable
//
// A hub takes works for clusters that are away, so Probe asks the hub: it returns nil when that answers a list of one work, also
// with a refusal. Clusters that are away then show as waiting for their objects, once something waits for them.
// [Options].Reachable can say more: whether a broker is connected, or from a ManagedCluster or a lease whether the agent lives.
package manifestwork
