// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package health says of each object in the works of the hub whether it is healthy.
//
// Works ask their agents for the status of the objects, as a whole and the fields that tell the most apart, since the API lets a value have 1,024 characters: see
// [Config]. The hub puts it under the manifest and asks an interpreter: the webhooks of its documents first, then the native kinds of the
// interpreter package. An answer is kept for as long as manifest and status stay the same.
//
// What a webhook says of an object also counts for whether it is ready, for parts that wait for it and for hooks: see [Tracker.State].
package health
