// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package health determines the health of each object in the works of the hub.
//
// Works request the status of the objects from their agents, as a whole, and the most informative
// fields separately: the API limits a value to 1,024 characters, see [Config]. The hub adds status
// and generation to the manifest and calls an interpreter: first customizations and the webhooks of
// its documents, then the native kinds of the interpreter package, then those of its package
// customization/kinds. A result is cached while manifest, generation and status stay the same.
//
// Results of all interpreters except the native kinds also decide whether the object is ready, for
// dependent parts and for hooks: see [Tracker.State].
package health
