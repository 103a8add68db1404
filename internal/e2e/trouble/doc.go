// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package trouble tests the guarantees of package cloudevents/work about failures. It uses sources
// and agents on a real Mosquitto, with real failures. A proxy in front of each client cuts, blocks
// and stalls links. Brokers are killed and restarted on the same port. A separate client (the tap)
// reads all messages, and sends them again late, twice and in another order.
//
// The number in a test's name is the number of the guarantee:
//
//	01  many sources, many agents, reconnect storms: no resync touches another source's works
//	02  a source restarts, with and without a store: no mass deletion
//	03  a deletion reaches an agent that was offline
//	04  the broker is down: the outbox is limited, and reconnecting backs off
//	05  events arrive twice, late, out of order, and from ended processes
//	06  packets that the broker rejects, specs that the agent cannot decode
//	07  a certificate is replaced while all processes run
//	08  replicas share a source
//	09  access control for each cluster and source, and events that contradict their topic
//	10  an agent restarts, with and without a store; lists wait for the works of its sources; agents and sources are
//	    killed while they write
//	11  two sources use one name
//	12  the end: nothing is left behind, and a slow watcher does not affect others
//
// Guarantees that need no broker are tested next to the code, in virtual time.
package trouble
