// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package rsyncgrpc serves an engine of package rsync over gRPC, and has the client for it, whose methods, results and errors
// are those of the engine.
//
//	server, err := rsyncgrpc.NewServer(engine, rsyncgrpc.ServerOptions{CertFile: "tls.crt", KeyFile: "tls.key", ClientCAFile: "clients.crt"})
//	go engine.Start(ctx)
//	go server.Start(ctx) // at 127.0.0.1:9031
//
//	client, err := rsyncgrpc.NewClient("127.0.0.1:9031", rsyncgrpc.ClientOptions{CAFile: "ca.crt", CertFile: "me.crt", KeyFile: "me.key"})
//	ref, err := client.Instantiate(ctx, "shop")
//	status, err := client.Wait(ctx, ref)
//
// Both are an [Engine], so a program can use either. [Register] adds the services to a gRPC server that is there already; what
// that one has of TLS, interceptors and limits is then its own business.
//
// # Client
//
// Errors are those of the engine, for errors.Is and errors.As: [rsync.ErrNotFound] and the other sentinels, [*rsync.EventError],
// [*appcontext.Error] with all problems and where they are, [*store.SizeError], store.ErrCompacted, and the errors of the
// context. A server that does not answer is [ErrUnavailable].
//
// A call that failed because the connection or the server did, is made again, for [ClientOptions].RetryTimeout. It does
// nothing twice: events are queued with an idempotency key, the caller's or a random one; a Create that finds the same context,
// byte for byte, after an attempt without an answer, and a Delete that then finds none, have succeeded.
//
// Wait and Watch go on over any number of connections and servers on the same store, until their context ends. They have
// connections of their own, a hundred on each, so that they hold up no other call, however many they are. A Watch has
// each change once and in order; it asks for what it missed by the revision of the last change. When that is too long ago, or
// the server's store is another one than before, it ends with store.ErrCompacted: begin with 0.
//
// # Server
//
// The service is rsync.v1.Engine; rsync/proto/rsync/v1/rsync.proto has it for other languages, and says which codes and
// reasons errors have. With it come health (SERVING while the engine is
// Healthy: it is started, has its lease, and its store accepts writes; of an engine elsewhere, while its store
// answers), and with [ServerOptions].Reflection also reflection.
//
// # Access
//
// A client of the engine may create any object on any cluster. Hence:
//
//   - A [Server] listens on 127.0.0.1 unless [ServerOptions].Addr is set.
//
//   - It requires certificates of the CAs in [ServerOptions].ClientCAFile, or an explicit AnyClient or Insecure. It logs an error at
//     the start when it accepts every client at an address that is no loopback address, also with an Authorizer.
//
//   - [Options].Authorizer decides which client may do what with which app context, by the names in the client's certificate, and
//     by apps and clusters. Calls that it denies return [ErrDenied].
//
// [Rules] is a table for it:
//
//	rsyncgrpc.Rules{
//		{Clients: []string{"uri:spiffe://example.com/orchestrator"}},
//		{Clients: []string{"cn:shop"}, AppContexts: []string{"shop-*"}, Clusters: []string{"edge+*"}},
//		{Clients: []string{"cn:dashboard"}, Verbs: []rsyncgrpc.Verb{rsyncgrpc.VerbWatch, rsyncgrpc.VerbList}},
//	}
//
// VerbRead returns the manifests of an app context, Secrets too; so the dashboard does not have it.
// Update and Diff name two app contexts and need the verb for both. VerbDetach decides by the apps
// on the cluster of the call. Forget concerns all app contexts: a rule with AppContexts or Apps
// does not allow it, a rule with Clusters allows it there.
//
// Rules do not limit kinds and namespaces: a client that may create and instantiate app contexts on
// a cluster can do everything there that the engine can. Rules are read at the start; an
// [AuthorizerFunc] can decide by what changes. There is no list of revoked certificates, and open
// connections survive a change of ClientCAFile: deny the client in the Authorizer. Health checks
// need a certificate too, so a kubelet can only probe the port (tcpSocket).
//
// # Limits
//
// All calls together hold at most [ServerOptions].MaxCallBytes. Beyond it the server closes the
// connection that holds most, of the client that holds most, and the other connections go on. A
// request has at most 262,144 parts (messages and list elements), and only a Create more than 64
// KiB: others fail with TOO_LARGE. Calls that create or read app contexts wait for memory, another
// 256 MiB in all; a client has at most three quarters of it, and reads one app context at a time. A
// request must arrive within [ServerOptions].RequestTimeout, and its header may have 4 KiB.
// MaxConnections and MaxConcurrentStreams bound connections and the calls on each; clients share
// the connections. A server that got its services with [Register] has the limits of its own
// options.
//
// By default a Go heap doubles before garbage is collected. If a process must stay below twice these limits, set GOMEMLIMIT or call
// runtime/debug.SetMemoryLimit, as examples/rsync does with 224 MiB.
//
// Diff and Detached send their answers in messages of some 300 KiB, so an answer of any size fits.
// They take turns for 128 MiB more: one of a client at a time, two in all. A client that does not
// read a message for [Options].WatchLag loses the answer.
//
// A Watch whose client reads too slowly holds [Options].WatchBuffer changes. One that is behind for [Options].WatchLag is ended
// with the reason SLOW, and goes on from the store's history when the client asks again, which ours does by itself. So no client
// makes the server keep more and more.
//
// Certificates, keys and CAs are read anew for each handshake. What cannot be read or used, like one half of a pair that is
// being replaced, is logged and leaves the one before in place. Connections that exist go on.
//
// # EMCO
//
// The services installapp, updateapp and readyNotify of EMCO's rsync are served too, unless [Options].WithoutEMCO is set, with their
// full names, such as /installapp/InstallApp. A true answer means that the event is queued; false that it is not, and the
// message has the reason. The status of gRPC is an error only for calls that are denied. They have no idempotency keys: a call that is made again queues again.
// The app context must be in the engine, or [Options].EMCOImporter must find it in EMCO's etcd.
//
// Alert streams a Notification for each app on each cluster where an Instantiate or an Update has been done: at once for those
// that are, and later for the others. It ends with Unsubscribe by the same client name about the same context, or the
// context's deletion. EMCO sends from the reports of its agents on clusters; here the event being done there is what counts, which for
// hooks and dependencies on Ready includes that the objects are ready.
//
// The messages of these services are in a registry of their own, see package emcopb, so that a program may link EMCO's generated
// code too.
//
// # Metrics
//
// With [Options].MetricsRegisterer there are, each with the label name, and the prefix spokewire_rsync_grpc_:
//
//	calls_total{method,code}    counter    calls that ended, by the code of gRPC; false answers of EMCO's services are OK
//	call_seconds{method}        histogram  how long they took, but for Wait, Watch, Diff and Alert
//	calls_in_flight{method}     gauge      calls that have not ended
//	slow_watches_total          counter    watches that were ended because their client read too slowly
//	certificate_errors_total    counter    files that could not be used
//	budget_closed_connections_total  counter  connections that were closed because all calls together held too many bytes
package rsyncgrpc
