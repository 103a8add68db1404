// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package load tests the guarantees of package cloudevents/work under load, on a real Mosquitto.
//
//   - Messages that a broker with default limits drops are repaired, and no connection breaks
//     because of it.
//   - A list of an agent is complete, regardless of the time that it takes.
//   - A hostile cluster neither fills the memory of its source nor slows down other clusters.
//
// By default the tests are small enough for make test. Flags set the sizes of the guarantees:
//
//	go test ./load -run Burst -load.works 20000
//	go test ./load -run Lists -load.listed 25000
//	go test ./load -run Hostile -load.hostile 60s
//
// The tests log their measurements. The benchmarks measure costs.
package load
