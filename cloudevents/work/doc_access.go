// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// # Access control
//
// These are all topics that a source and an agent use with the default profile, as lines of Mosquitto's acl_file: for the
// source with the ID "hub" and the agent of the cluster "cluster1", whose users at the broker have the same names here.
// Nothing else needs to be allowed, to replicas that share a subscription neither.
//
//	user hub
//	topic write /sources/hub/clusters/+/manifests
//	topic read /sources/hub/clusters/+/manifestsstatus
//	topic read /sources/hub/clusters/+/specresync
//	topic write /sources/hub/clusters/+/statusresync
//	topic write /sources/hub/resync/clusters/manifestsstatus
//	topic read /sources/resync/+/manifests
//
//	user cluster1
//	topic read /sources/+/clusters/cluster1/manifests
//	topic write /sources/+/clusters/cluster1/manifestsstatus
//	topic write /sources/+/clusters/cluster1/specresync
//	topic read /sources/+/clusters/cluster1/statusresync
//	topic read /sources/+/resync/clusters/manifestsstatus
//	topic write /sources/resync/cluster1/manifests
//
// With names in the place of the first + of its lines, a cluster is open to those sources only; name them in
// [AgentOptions].Sources as well.
//
// SECURITY.md has the same with patterns, so that a new cluster needs no new lines, and what no broker can fence.
//
// The broker knows who may use a topic, and not what is in an event. Sources and agents see to that: an event whose
// source or cluster is not that of its topic, or whose resource belongs to another source or cluster, is refused and
// logged. So a cluster that was taken over can lie about itself, but not speak for another, nor read what others are sent.
// It does learn the IDs of the sources, and every source learns which works a cluster has, by their IDs and versions.
// A broker that refuses what a source or an agent publishes is logged as "An event was not published"; it is tried again
// on the next connection. Until then the work shows Degraded, reason NotPublished, on its source.
package work
