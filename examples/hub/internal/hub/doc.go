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
// So does an application that does not render when the hub begins with documents that it kept itself, as without the --kubeconfig with which they were accepted: it
// is held up, and the API can change it and all others.
//
// After a rollback an application stays with the revision, that is with its document and the values that it has read, until its document changes or
// [Hub.Resume] ends that. The clusters are always those that it is placed on now.
//
// The metrics of all that are in the doc of the command.
package hub
