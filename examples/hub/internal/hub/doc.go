// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package hub turns documents into rollouts. It renders each application for its clusters and sets
// the target of its rollout. It does this after a change of a document, or of an object of the
// hub's cluster that a template has read.
//
// A change is accepted as a whole or not at all. Nothing changes if a document is invalid, refers
// to a missing one, or does not render, or if an object has an invalid apiVersion, kind or
// metadata. Documents are accepted if a template reads a missing object, or if an application no
// longer renders with the new value of an object. Such an application stays unchanged until it
// renders, except for added and removed clusters, for which the last values are used.
//
// The same applies to an application that does not render when the hub starts with its stored
// documents. They may have been accepted with a --kubeconfig that is missing now. The application
// is held up, and the API can change it and all others.
//
// After a rollback an application stays at the revision, with its document and the values that it
// has read. The hold ends when its document changes, or with [Hub.Control]. Its clusters always
// follow the current placements.
package hub
