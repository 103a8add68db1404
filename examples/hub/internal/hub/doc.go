// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package hub turns documents into rollouts: it renders each application for the clusters that it is placed on, and says what it is to be whenever a
// document, or an object of the hub's cluster that a template has read, has changed.
//
// A change counts as a whole or not at all: where a document is wrong, refers to another one that there is not, a template does not render, or an object
// has a head that no cluster takes, everything stays as it was. What a template reads and is not there, now or any more, is no fault of the documents, and nor
// is a value with which an application does not render that rendered with the one before: the application stays as it is until it comes, but for clusters
// that come and go, for which the values count that were read last.
//
// After a rollback an application stays with the revision, that is with its document and the values that it has read, until its document changes or
// [Hub.Resume] ends that. The clusters are always those that it is placed on now.
//
// # Metrics
//
// Beside those of the SDK's packages there are, as they are when they are asked for:
//
//	spokewire_hub_applications{state}                     applications, by the state that the page shows: Deployed, Rolling, Held up, Failed and so on
//	spokewire_hub_clusters{state}                         clusters: Current, Waiting, Failed, Silent, Leaving, Unclaimed, Empty
//	spokewire_hub_works_unclaimed                         works with objects that no application has: the states are lost, or of an earlier day
//	spokewire_hub_documents_refused                       1 while documents of the folder are refused, so that those of before count
//	spokewire_hub_documents_accepted_timestamp_seconds    when documents were accepted last
//
// A state that nothing is in has no sample. To alert on: Held up, Failed or Degraded applications and Silent or Failed clusters for some minutes,
// documents that stay refused, and works that are unclaimed.
package hub
