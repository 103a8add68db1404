// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package load holds tests only: what package cloudevents/work promises under load, on a real Mosquitto.
//
//   - Messages that a broker with default limits drops are repaired, and no connection breaks for it.
//   - A list of an agent is whole, however long that takes.
//   - A hostile cluster neither fills the memory of its source nor slows down other clusters.
//
// The tests have sizes that fit into make test. Flags give them the sizes of the promises:
//
//	go test ./load -run Burst -load.works 20000
//	go test ./load -run Lists -load.listed 25000
//	go test ./load -run Hostile -load.hostile 60s
//
// What they measure is logged. The benchmarks measure costs.
package load
