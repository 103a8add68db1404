// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package trouble holds tests only: one for each promise that package cloudevents/work makes about trouble, with
// sources and agents on a real Mosquitto, and the trouble made for real. Links are cut, blocked and stalled by a proxy
// in front of each client; brokers are killed and come back on their port; a client of its own (the tap) reads what is
// on the wire and sends it again late, twice and in another order.
//
// The number in a test's name is that of the promise:
//
//	01  many sources, many agents, reconnect storms: no resync touches another source's works
//	02  a source restarts, with and without a store: no mass deletion
//	03  a deletion reaches an agent that was offline
//	04  the broker goes away: the outbox is bounded, and reconnecting backs off
//	05  events come twice, late, out of order, and from dead processes
//	06  packets that the broker will not take, specs that the agent cannot read
//	07  a certificate is replaced while everything runs
//	08  replicas share a source
//	09  each cluster and source in its own room: access control, and events that contradict their topic
//	10  an agent restarts, with and without a store; lists wait for what its sources have; agents and sources are
//	    killed while they write
//	11  two sources use one name
//	12  the end: nothing is left behind, and a slow watcher disturbs nobody
//
// What can be told without a broker is tested beside the code, in virtual time.
package trouble
