// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package transporttest checks that a transport implements [cloudevents.Transport] and
// [cloudevents.Conn] as documented. Call [Run] from a test of the transport:
//
//	type harness struct{ broker *Broker }
//
//	func (h harness) Transport(*testing.T) cloudevents.Transport { return mytransport.New(h.broker.URL()) }
//
//	func TestConformance(t *testing.T) {
//		transporttest.Run(t, harness{startBroker(t)})
//	}
//
// Only [Harness] is required. Some checks need a broker that fails or has a special configuration.
// A harness with such an ability implements the matching interface: [Cutter], [Staller], [Limiter],
// [SessionKeeper] or [RawPublisher]. Tests that need a missing ability are skipped, and the message
// of the skip names the ability. [Exact] and [BinaryMode] describe the broker and the run.
//
// The broker must store up to 10,000 messages for one receiver. A test fails if an expected event
// does not happen within two minutes. All goroutines of the transport must end within ten seconds
// after each test.
package transporttest
