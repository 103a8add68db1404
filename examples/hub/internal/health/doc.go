// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package health says of each object in the works of the hub whether it is healthy.
//
// Works ask their agents for the status of the objects, as a whole and the fields that tell the
// most apart, since the API lets a value have 1,024 characters: see [Config]. The hub adds status
// and generation to the manifest and asks an interpreter: customizations and the webhooks of its
// documents first, then the native kinds of the interpreter package, then those of its package
// customization/kinds. An answer is kept while manifest, generation and status stay the same.
//
// Any answer but that of the native kinds also decides whether the object is ready, for parts that
// wait for it and for hooks: see [Tracker.State].
package health
