// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package protocol holds the decisions of the work protocol as functions from values to values: given what is
// known of a work and an event about it, what is to be done. Everything that acts on a decision (stores, clocks,
// brokers) lives in package work.
//
// Words: V is the protocol's version of a work, which orders everything about one resource ID
// across incarnations. The incarnation is the UID that the source's API object has; it is compared
// for equality only. A strict peer is one that knows the attributes of the enhancement alone, and
// sends no UID. A bundle peer is a strict one of the profile ManifestBundle.
package protocol
