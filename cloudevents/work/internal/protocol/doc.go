// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package protocol contains the decisions of the work protocol as pure functions. They map the
// record of a work, and an event about it, to an action. Everything that acts on a decision
// (stores, clocks, brokers) is in package work.
//
// Terms: V is the protocol's version of a work, which orders everything about one resource ID
// across incarnations. The incarnation is the UID of the source's API object; it is compared for
// equality only. A peer without UIDs supports only the attributes of the enhancement. A
// bundle peer has the profile ManifestBundle, which has no UIDs either.
package protocol
