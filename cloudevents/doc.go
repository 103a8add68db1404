// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package cloudevents defines how clients move CloudEvents over a broker. Package work builds
// sources and agents of ManifestWorks on it. Packages mqtt, grpc and memory are its transports. Most
// programs need only these packages, and from this one the errors [ErrClaimed] and [ErrStarted]. Use
// this package directly only to write a transport.
//
// A [Transport] is the driver of a broker: it opens a [Conn], which moves each [Message] at least
// once and in order. Its documentation lists the duties of a driver, and package transporttest
// checks them. A transport for another broker is one package with a test that calls
// transporttest.Run.
//
// The client, a source or an agent of package work, does everything that is the same for all
// brokers. It reconnects with backoff and jitter, keeps unacknowledged changes, limits rates and
// exports metrics. It treats three types of a driver's errors differently: [PermanentError],
// [TemporaryError] and [TooLargeError].
package cloudevents
