// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package memory is a broker and its transport inside one process: sources and agents that share a
// [Bus] exchange events without a network. Use it for tests, examples and programs that run both
// sides.
//
//	bus := memory.New()
//	source, err := work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub"})
//	agent, err := work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: "cluster1"})
//
// # Guarantees
//
// Each connection with a matching filter receives a message once. In a share group (a filter with
// the prefix $share/<group>/), one member receives it, in turn. Messages of one connection arrive
// everywhere in the order of Publish. A message is acknowledged when it is in the queue of every
// receiver. Nothing is kept for clients that are not connected.
//
// Events are shared, not copied: the publisher and all receivers have the same *event.Event and
// must treat it as read-only.
//
// # Limits
//
// A connection has at most 1,024 unacknowledged messages; then Publish waits. A receiver has at
// most 65,536 queued messages; then acknowledgements to their publishers wait. Two receivers that
// publish to each other from within Receive can fill both queues, and wait until one connection
// ends.
//
// # Failures on demand
//
// A test can make the bus fail like a real broker. [Bus.Disconnect] ends every connection and
// refuses new ones until [Bus.Reconnect]; [Bus.Stall] stops all delivery until [Bus.Resume];
// [Bus.Intercept] drops, repeats, delays and reorders single messages; [Bus.SetMaxPacketSize] sets
// a limit.
//
// All waiting is on channels, without timers, so the bus works in a testing/synctest bubble.
package memory
