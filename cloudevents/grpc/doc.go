// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package grpc is a broker inside a hub's process, and the transport to it, over gRPC.
//
// A hub serves its agents without another program:
//
//	server, err := grpc.NewServer(grpc.ServerOptions{
//		CertFile: "/etc/hub/tls.crt", KeyFile: "/etc/hub/tls.key", ClientCAFile: "/etc/hub/clients-ca.crt",
//	})
//	source, err := work.NewSource(server.Transport(), work.SourceOptions{SourceID: "hub"})
//	go source.Start(ctx)
//	err = server.Serve(ctx, listener)
//
// An agent connects to it:
//
//	transport, err := grpc.New(grpc.Options{
//		Address: "hub.example.com:8443", CAFile: "/etc/agent/ca.crt",
//		CertFile: "/etc/agent/tls.crt", KeyFile: "/etc/agent/tls.key",
//	})
//	agent, err := work.NewAgent(transport, work.AgentOptions{ClusterName: "cluster1"})
//
// [New] and [NewServer] check the options; they use neither network nor files.
//
// # Guarantees
//
// A subscriber acknowledges a message after Receive and Commit. The server acknowledges a
// publication when the message is in the queue of every subscriber. Messages of one connection on
// one topic arrive in the order of Publish. The server stores nothing for clients that are away: as
// with an MQTT broker, package work repairs the loss.
//
// No client delays another. Both sides always read, and the server never waits for a subscriber. If
// the queue of a subscriber is full, the publisher receives a [cloudevents.TemporaryError] for that
// message alone and publishes it again later. If a full queue makes no progress for 30 s, the
// subscriber's connection ends with the code ResourceExhausted. One user may fill half of a queue
// with its publications, two users a third each, and so on.
//
// At most 64 clients of a process connect to the same server at a time. The others wait.
//
// A dead link is detected after one and a half times KeepAlive by the client, and after 40 s by the
// server. Connect and Close take a bounded time if the peer accepts connections but does not answer.
//
// # Limits
//
// A message has at most 16 MiB. A queue has at most 64 MiB, and all queues together 1 GiB; with the
// latter exceeded, each subscriber still has 64 KiB. A client has at most 4 MiB of unacknowledged
// publications, and the server sends it at most 4 MiB of unacknowledged messages. In each case, one
// larger message is allowed. A connection has at most 64 filters of 32 levels and 4 KiB.
//
// # Security
//
// A client has a certificate or a bearer token. The common name of a certificate is the user, and
// its organizations are the groups. [ServerOptions].Authorizer decides as which source or agent a
// user may act; see [Access]. By default, a user acts only as the agent of the cluster with its
// name. Package kubeaccess uses the RBAC of a Kubernetes API server instead. The server and its
// in-process transport are trusted.
//
// Certificate, key, CA and token files are read again for each connection, so replacing them needs
// no restart. An open connection does not end when they change. Tokens and keys appear in no error,
// no log line, and no printed Options.
//
// A connection ends with the certificate of its client. Each 5 min, and after [Server.Recheck], the
// server checks tokens and subscriptions of connected clients again, and ends connections that it
// would not accept. Each publication is checked. Package cloudevents/join issues certificates to
// agents, and revokes them.
//
// # OCM
//
// The server also accepts agents and sources of Open Cluster Management (OCM) with its gRPC driver,
// and a Transport connects to OCM's server and to others with its service. Both need the profile
// [codec.ManifestBundle]. This service has no acknowledgements: a message may be lost, and only those
// about one work keep their order. Package work repairs a loss. [COMPATIBILITY.md] lists the tested
// versions.
//
// # Protocol
//
// [PROTOCOL.md] has the messages, their order, and the status codes, also of OCM's service.
//
// [PROTOCOL.md]: https://github.com/spokewire/sdk-go/blob/main/cloudevents/grpc/PROTOCOL.md
// [COMPATIBILITY.md]: https://github.com/spokewire/sdk-go/blob/main/cloudevents/grpc/COMPATIBILITY.md
// [codec.ManifestBundle]: https://pkg.go.dev/github.com/spokewire/sdk-go/codec#ManifestBundle
package grpc
