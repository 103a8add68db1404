// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package transporttest checks that a transport keeps the duties that [cloudevents.Transport] and
// [cloudevents.Conn] name. Whoever writes a transport calls [Run] from a test of it:
//
//	type harness struct{ broker *Broker }
//
//	func (h harness) Transport(*testing.T) cloudevents.Transport { return mytransport.New(h.broker.URL()) }
//
//	func TestConformance(t *testing.T) {
//		transporttest.Run(t, harness{startBroker(t)})
//	}
//
// [Harness] is all that is needed. Some duties show only when the broker is in trouble or configured in a
// special way; a harness that can arrange that has the matching method: [Cutter], [Staller], [Limiter],
// [SessionKeeper], [RawPublisher]. Tests that need a missing ability are skipped and say so.
//
// The broker must hold 10,000 messages for one receiver. No test waits for a time to pass; a test that waits
// in vain for something to happen fails after a minute. Ten seconds after each test no
// goroutine of the transport may be left.
package transporttest
