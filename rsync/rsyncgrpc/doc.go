// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package rsyncgrpc has a gRPC server for an engine of package rsync, and a client with the
// methods, results and errors of the engine.
//
//	options := rsyncgrpc.ServerOptions{CertFile: "tls.crt", KeyFile: "tls.key", ClientCAFile: "clients.crt"}
//	server, err := rsyncgrpc.NewServer(engine, options)
//	go engine.Start(ctx)
//	go server.Start(ctx) // at 127.0.0.1:9031
//
//	clientOptions := rsyncgrpc.ClientOptions{CAFile: "ca.crt", CertFile: "me.crt", KeyFile: "me.key"}
//	client, err := rsyncgrpc.NewClient("127.0.0.1:9031", clientOptions)
//	ref, err := client.Instantiate(ctx, "shop")
//	status, err := client.Wait(ctx, ref)
//
// The engine and the client implement [Engine], so a program can use either. [Register] adds the
// services to an existing gRPC server, which then has its own TLS, interceptors and limits.
//
// # Client
//
// The client returns the errors of the engine, for errors.Is and errors.As: [rsync.ErrNotFound] and
// the other variables, [*rsync.EventError], [*appcontext.Error] with all problems,
// [*store.SizeError], store.ErrCompacted, and the errors of ctx. If no server answers, it returns
// [ErrUnavailable].
//
// After a failure of the connection or the server, the client repeats a call for
// [ClientOptions].RetryTimeout. Repeated calls have no second effect: events have an idempotency
// key. If an attempt had no answer, a repeated Create that finds the same context returns success.
// So does a repeated Delete that finds no context.
//
// Wait and Watch continue over several connections, and over several servers on the same store,
// until ctx ends. They do not delay other calls, because they use connections of their own. A Watch
// returns each change once and in order. If its last revision is too old, or the server has another
// store, it ends with store.ErrCompacted: then begin with 0.
//
// # Server
//
// rsync/proto/rsync/v1/rsync.proto defines the service rsync.v1.Engine for other languages, with
// the codes and reasons of errors. The health service is SERVING while the engine is Healthy, or,
// for an [Engine] without Healthy, while the store answers. [ServerOptions].Reflection adds
// reflection.
//
// # Access
//
// A client of the engine may create any object on any cluster. Therefore:
//
//   - A [Server] listens on 127.0.0.1 unless [ServerOptions].Addr is set.
//
//   - It requires certificates of the CAs in [ServerOptions].ClientCAFile, unless AnyClient or
//     Insecure is set. With AnyClient or Insecure, the server logs an error at its start if its
//     address is not a loopback address.
//
//   - [Options].Authorizer allows or denies each call, by the names in the client's certificate,
//     the verb, the app context, its apps and its clusters. Denied calls return [ErrDenied].
//
// [Rules] implements an Authorizer as a table:
//
//	rsyncgrpc.Rules{
//		{Clients: []string{"uri:spiffe://example.com/orchestrator"}},
//		{Clients: []string{"cn:shop"}, AppContexts: []string{"shop-*"}, Clusters: []string{"edge+*"}},
//		{Clients: []string{"cn:dashboard"}, Verbs: []rsyncgrpc.Verb{rsyncgrpc.VerbWatch, rsyncgrpc.VerbList}},
//	}
//
// VerbRead allows reading manifests, including Secrets, so the dashboard does not have it. Update
// and Diff name two app contexts and need the verb for both.
//
// Rules do not limit kinds and namespaces. A client that may create and instantiate app contexts on
// a cluster has all permissions of the engine there. Rules are fixed at the start. Use an
// [AuthorizerFunc] for decisions that change. There is no revocation list, and open connections
// survive a change of ClientCAFile: deny revoked clients in the Authorizer. Health checks need a
// certificate too, so a kubelet can only probe the port (tcpSocket).
//
// # Limits
//
// [ServerOptions] limits the connections, the calls on each, the time in which a request arrives,
// and the memory of all calls together. A request may have 262,144 parts (messages and list
// elements). Only two requests may have more than 64 KiB: Create, and Enqueue, which queues an
// event. An Enqueue may have up to 1 MiB. Other requests of more than 64 KiB fail with TOO_LARGE.
// In addition, calls that create or read app contexts share 256 MiB of memory. If it is in use,
// they wait. A client gets at most three quarters of it, and reads one app context at a time. A
// header of more than 4 KiB ends the connection. A server with services from [Register] has its own
// limits.
//
// By default a Go heap doubles before a garbage collection. If a process must stay below twice
// these limits, set GOMEMLIMIT or call runtime/debug.SetMemoryLimit, as examples/rsync does with
// 192 MiB.
//
// The answers of Diff and Detached may have any size. The calls share another 128 MiB. One such
// call of each client can be in progress at a time, and two such calls in total. If a client does
// not read a message for [Options].WatchLag, the call fails.
//
// The server buffers [Options].WatchBuffer changes of a Watch. If the buffer stays full for
// [Options].WatchLag, the Watch ends with the reason SLOW, and [Client] resumes it from the history
// of the store.
//
// Certificates, keys and CAs are read for each handshake. The server logs an unusable file, for
// example one half of a pair that is being replaced, and uses the earlier one.
//
// # EMCO
//
// Unless [Options].WithoutEMCO is set, the server also has the services installapp, updateapp and
// readyNotify of EMCO's rsync, with their full names, for example /installapp/InstallApp. The
// answer true means that the event is queued. With the answer false, the message has the reason.
// Only a denied call returns a gRPC error. Calls have no idempotency keys: a repeated call queues
// another event. The app context must be in the engine, or [Options].EMCOImporter must find it in
// EMCO's etcd.
//
// Alert streams a Notification for each app on each cluster when an Instantiate or an Update is
// done there. It begins with those that are already done. It ends after an Unsubscribe with the
// same client name and context, or when the context is deleted. EMCO's rsync sends Notifications
// from the reports of EMCO's agents. This server sends them when the event is done on the cluster.
// The event waits for ready objects only for hooks, waves and dependencies on Ready.
//
// A program may also link EMCO's generated code: see package emcopb.
//
// METRICS.md lists the metrics of [Options].MetricsRegisterer.
package rsyncgrpc
