// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package mqtt is the transport to an MQTT v5 broker.
//
//	transport, err := mqtt.New(mqtt.Options{
//		BrokerURL:    "mqtts://broker.example.com",
//		CAFile:       "/etc/broker/ca.crt",
//		Username:     "cluster1",
//		PasswordFile: "/etc/broker/password",
//	})
//	agent, err := work.NewAgent(transport, work.AgentOptions{ClusterName: "cluster1"})
//
// [New] checks the options; it uses neither network nor files. [LoadOptions] reads the same options
// from YAML. One Transport serves one source or agent.
//
// # Guarantees
//
// Everything is published and subscribed with QoS 1. Many published messages are in flight at once,
// up to the broker's Receive Maximum. If the callback Receive is slow, reading pauses at 4 MiB of
// unhandled messages. Receive may publish and wait for the acknowledgement. Because a pause would
// keep the transport from reading it, the pause ends when a call of Receive has taken 100 ms and an
// acknowledgement is missing.
//
// Without Options.SessionExpiry the broker discards the session when the connection ends. With it,
// the broker keeps messages for a disconnected client within its own queue limits. It also keeps
// subscriptions, even those that a later version of the client no longer requests. The client
// publishes its own unacknowledged messages again.
//
// At most 64 clients of a process connect to the same broker at a time: a restarted broker would
// ignore many more, and each would try again after seconds. The others wait.
//
// A dead link is detected after one and a half times KeepAlive. Connect and Close take a bounded
// time if the peer accepts connections but does not answer.
//
// # Security
//
// The scheme decides: mqtts and wss use TLS 1.2 or newer and nothing else. mqtt and ws send
// everything in clear text, including the password. The transport follows no redirect, no other
// server that a broker names, and no proxy of the environment. A CA file alone is enough to verify
// a broker.
//
// Certificate, key, CA and password files are read again for each connection and not kept, so
// replacing them needs no restart. An open connection does not end when they change. If a file is
// empty or partly written, or certificate and key do not match, the client tries again after the
// usual 100 ms to 10 s. A missing file, a certificate that one side rejects and a wrong password
// are a [cloudevents.PermanentError]: the client tries again every 10 s.
//
// Passwords, keys and the query of the URL appear in no error, no log line, and no printed Options,
// Transport or connection. There is one exception: fmt calls no methods on unexported fields. If
// Options are in such a field of your struct, use PasswordFile.
//
// # Refused messages
//
// A broker may refuse a message and keep the connection. For a reason that may end soon, such as
// quota exceeded or server busy, the callback of Publish receives a [cloudevents.TemporaryError],
// and the client publishes again on the same connection. For packet too large, the callback
// receives a [cloudevents.TooLargeError]. After any other refusal, such as not authorized, the
// message waits for the next connection. All errors but TooLargeError wrap a [*ReasonError].
//
// # Event format
//
// In structured mode the payload is the event in the CloudEvents JSON format and the content type
// is application/cloudevents+json. In binary mode the payload is the event's data, and the content
// type is that of the data. Each attribute is a user property with the prefix `ce-`, as in
// cloudevents/sdk-go. Both modes are read, binary mode also without the prefix, as in the MQTT
// binding of CloudEvents. A message without a content type and without attributes is read as
// structured, since MQTT 3.1.1 clients send it in this form.
//
// An attribute that is longer than 65,535 bytes fits no user property: in binary mode such an event
// is refused as too large. paho would truncate it.
//
// # Design
//
// Each connection has a paho.Client. The transport does not use autopaho, which also reconnects and
// keeps a queue, as package work does for every transport. A second queue would send outdated
// events of a work. Publish of autopaho waits for the acknowledgement, so each goroutine would have
// one message in flight.
//
// Three small parts replace defaults of paho.Client. A net.Conn gathers the four writes that paho
// makes for each message, and reads through a buffer. It drops the properties of a message if they
// exceed 256 KiB. A session stores only the callbacks that wait for acknowledgements, not the
// messages. A pinger observes bytes, not packets, so that a long message on a slow link counts as a
// sign of life.
//
// Package codec writes and reads messages. The binding of cloudevents/sdk-go is slow and decodes
// numbers as floats, which loses bits of 64-bit versions.
package mqtt
