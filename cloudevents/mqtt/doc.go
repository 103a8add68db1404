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
//	agent, err := work.NewAgent(transport, work.AgentOptions{ClusterName: "cluster1", Sources: []string{"my-controller"}})
//
// [New] checks the options and touches neither network nor files. [LoadOptions] reads the same options from YAML.
// One Transport serves one source or agent.
//
// # What it guarantees
//
// Everything is published and subscribed with QoS 1. A message is acknowledged to the broker after Receive
// returned; many published messages are under way at once, as many as the broker's Receive Maximum allows.
// Receive may publish: acknowledgements are read by another goroutine than the one that calls it. While Receive
// handles messages more slowly than they arrive, reading stops at 4 MiB of unhandled messages. After
// 100 ms without a handled message it continues, but only while a published message waits for its acknowledgement.
//
// Without Options.SessionExpiry the broker forgets the client when its connection ends. With it the broker
// keeps what arrives for the client while it is away, as long as its own queue limits allow. Subscriptions of
// the kept session live on too, also those that a later version no longer asks for. What the client itself had not
// got acknowledged is not part of that: the Engine publishes it again.
//
// A dead link is found after one and a half times KeepAlive. Connect and Close take a bounded time against a
// peer that accepts connections and is silent.
//
// # Security
//
// The scheme decides: mqtts and wss use TLS 1.2 or newer and nothing else, mqtt and ws send everything in clear
// text, the password included. No redirect, no other server that a broker names, and no proxy of the environment is
// followed. A CA file alone is enough to verify a broker.
//
// Certificate, key, CA and password files are read again for each connection, and nothing of them is kept between, so
// replacing them needs no restart. An open connection does not end because of it: what is new counts from the
// next one on. Files that are half written, or a certificate and a key that do not match, fail an attempt to
// connect with an error that says so; the next attempt comes after the usual 100 ms to 10 s. A file that is
// missing, a certificate that is not accepted by either side and a wrong password are a
// [cloudevents.PermanentError]: the Engine tries again every 10 s.
//
// Neither a password nor a key nor the query of the URL is part of an error, of a log line, or of a printed Options,
// Transport or connection; only fmt on an unexported field of a struct of yours would show it, as it
// asks no method there: use PasswordFile in such a place.
//
// # What the broker refuses
//
// A broker may refuse a message and keep the connection. For a reason that may be over soon (quota exceeded,
// unspecified error, implementation specific error, server busy) done gets a [cloudevents.TemporaryError], and the
// Engine publishes again on the same connection. For packet too large it gets a [cloudevents.TooLargeError].
// Anything else, such as not authorized, waits for the next connection. All but the second hold a [*ReasonError].
//
// # What an event looks like
//
// In structured mode the payload is the event in the CloudEvents JSON format and the content type is
// application/cloudevents+json. In binary mode the payload is the event's data, the content type is that of the
// data, and each attribute is a user property whose name begins with `ce-`, as cloudevents/sdk-go writes it.
// Both are read, the second also without the prefix, which is how the MQTT binding of CloudEvents has it. A
// message without a content type and without attributes is read as structured, since that is what MQTT 3.1.1
// clients send.
//
// An attribute that is longer than 65,535 bytes fits no user property: in binary mode such an event is refused as
// too large, where paho would cut it off.
//
// # How it is built, and why
//
// It runs on paho.Client, one for each connection. autopaho was judged first: it reconnects and keeps a queue
// in memory or files, but the Engine does both for every transport and must, because its outbox keeps only the
// newest event of a work; a queue beneath it would send every one. Its Publish waits for the
// acknowledgement, which leaves one message under way for each goroutine.
//
// Three small parts stand beneath paho.Client: a net.Conn that gathers the four writes paho makes
// for each message, reads through a buffer, and drops the properties of a message that has more
// than 256 KiB; a session that keeps nothing but who waits for which acknowledgement (paho's own
// encodes each message a second time to be able to send it again, which is the Engine's part here);
// and a pinger that looks at bytes, not packets, so that a long message on a slow link counts as a
// sign of life.
//
// Messages are written and read by package codec rather than by the binding of cloudevents/sdk-go: that one
// decodes numbers as floats, which loses bits of 64-bit versions, checks one attribute at a time, and is slow.
package mqtt
