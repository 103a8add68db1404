// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package memory is a broker and its transport inside one process: sources and agents that share a [Bus]
// exchange events without a network. It is meant for tests, examples and programs that run both sides.
//
//	bus := memory.New()
//	source, err := work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub"})
//	agent, err := work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: "cluster1"})
//
// # What it guarantees
//
// A message reaches every connection whose filters match, once per connection, and one member of each
// matching share group, in turn. What one connection publishes arrives everywhere in the order of Publish. It is
// acknowledged when it lies in the queue of every receiver. Nothing is kept for those who are not connected.
//
// Events are shared, not copied: publisher and all receivers hold the same *event.Event and treat it as
// read-only.
//
// # Limits
//
// A connection has at most [Window] messages waiting for their acknowledgement; then Publish waits. A receiver
// has at most [QueueLength] messages waiting for it; then acknowledgements to those who publish to it wait.
// No message is dropped while its receiver is connected. Two receivers that publish to each other from within
// Receive, and are both that far behind, wait for each other until one connection ends.
//
// # Trouble on demand
//
// A test makes the bus misbehave as a real broker does: [Bus.Disconnect] cuts every connection and refuses
// new ones until [Bus.Reconnect]; [Bus.Stall] stops it in its tracks until [Bus.Resume]; [Bus.Intercept]
// drops, repeats, delays and reorders single messages; [Bus.SetMaxPacketSize] sets a limit.
//
// All waiting is on channels, and no real time is involved, so the bus works in a testing/synctest bubble.
package memory
