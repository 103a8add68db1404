// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package grpc contains a broker that runs inside the hub's process, and the transport that
// connects to it over gRPC.
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
// A subscriber acknowledges a message when Receive of its ConnectOptions has returned and Commit
// has succeeded. The server acknowledges a publication when the message is in the queue of every
// subscriber. Messages of one connection on one topic arrive in the order of Publish. The server
// stores nothing for offline clients: as with an MQTT broker, package work repairs the loss.
//
// No client delays another. Both sides read even while a handler is busy, and the server never
// waits for a subscriber. If the queue of a subscriber is full, the publisher receives a
// [cloudevents.TemporaryError]. The publisher's other messages are not affected. Sources and agents
// publish the message again after 100 ms to 10 s. If a full queue makes no progress for 30 s, the
// subscriber's connection ends with the code ResourceExhausted. If n users publish to a queue, each
// may fill 1/(n+1) of it. The in-process transport may fill all of it.
//
// At most 64 clients of a process connect to the same server at a time. The others wait.
//
// The client closes a dead link after 1.5 × KeepAlive (45 s by default), the server after 40 s. If
// the peer does not answer, Connect returns after ConnectTimeout (10 s by default) and at most 1 s
// more. Close returns after at most 1 s, or when a running callback has returned.
//
// # Limits
//
// A message has at most 16 MiB. A queue has at most 64 MiB; an empty queue accepts any message.
// When all queues together reach 1 GiB, each subscriber may still queue 64 KiB. A client has at
// most 4 MiB of unacknowledged publications, and at most 4 MiB of unacknowledged deliveries. A
// single message may exceed either 4 MiB limit if nothing else is unacknowledged. A connection has
// at most 64 filters of 32 levels and 4 KiB, and 16 calls at a time.
//
// The server closes a connection with more than two of the largest messages that are received in
// part. If all connections together have a quarter of MaxTotalQueueBytes in such messages, it closes
// one of the client that has most. The subscribers of one user may fill half of MaxTotalQueueBytes,
// those of two users a third each, and so on.
//
// # Security
//
// A client has a certificate or a bearer token. The common name of a certificate is the user, and
// its organizations are the groups. [ServerOptions].Authorizer decides which source or agent a user
// may act as; see [Access]. By default, a user acts only as the agent of the cluster with its name.
// Package kubeaccess uses the RBAC of a Kubernetes API server instead. The server and its
// in-process transport are trusted.
//
// Certificate, key, CA and token files are read again for each connection, so replacing them needs
// no restart. A server that cannot read its files logs this, and uses the previous ones. An open
// connection does not end when they change. Tokens and keys appear in no error, no log line, and no
// printed Options.
//
// # Logs
//
// The server logs to the klog logger in the context of Serve. It logs its start, and as errors the
// clients that it refuses: with the user or the address, and the reason "not authenticated",
// "access denied", "TLS handshake failed", "unfinished messages" or "its queue is full". Each
// combination has at most one line a minute, which counts the lines left out. At level 1, it logs
// connections that it closed for MaxConnections or for a late handshake.
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
// [codec.ManifestBundle]. This service has no acknowledgements: a message may be lost, and messages
// about different works may be reordered. Package work repairs a loss. [COMPATIBILITY.md] lists the
// tested versions.
//
// # Protocol
//
// [PROTOCOL.md] has the messages, their order, the access that each topic needs, and the status
// codes, also of OCM's service.
//
// [PROTOCOL.md]: https://github.com/spokewire/sdk-go/blob/main/cloudevents/grpc/PROTOCOL.md
// [COMPATIBILITY.md]: https://github.com/spokewire/sdk-go/blob/main/cloudevents/grpc/COMPATIBILITY.md
// [codec.ManifestBundle]: https://pkg.go.dev/github.com/spokewire/sdk-go/codec#ManifestBundle
package grpc
