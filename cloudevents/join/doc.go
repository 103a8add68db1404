// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package join gives agents client certificates for their clusters, renews and revokes them.
//
// A hub serves certificates of its own CA over HTTPS, and prints a token for each new cluster:
//
//	server, err := join.NewServer(join.ServerOptions{
//		Store:    store,
//		CertFile: "hub.crt", KeyFile: "hub.key", CACertFile: "ca.crt", CAKeyFile: "ca.key",
//	})
//	go server.Start(ctx)
//	go server.Serve(ctx, listener)
//	token, err := server.CreateToken(ctx, join.TokenOptions{Cluster: "cluster1"})
//	fmt.Println(token.Reveal())
//
// An agent joins once, and then renews its certificate while it runs:
//
//	err := join.Join(ctx, join.Options{URL: "https://hub.example.com:8444", Token: token, Dir: "/var/lib/agent"})
//	renewer, err := join.NewRenewer(join.RenewerOptions{Dir: "/var/lib/agent"})
//	go renewer.Start(ctx)
//
// Its transport reads the files of the folder for each connection:
//
//	files := join.FilesIn("/var/lib/agent")
//	grpc.New(grpc.Options{Address: "hub.example.com:8443", CAFile: files.CA, CertFile: files.Cert, KeyFile: files.Key})
//
// [CreateAuthority] and [Authority.Server] make the CA and the certificates of servers for a first
// installation.
//
// # Tokens
//
// A token is <id>.<secret>.<hash>. It is for one cluster, one agent and one hour, unless
// [TokenOptions] has other values. The hash is the SHA-256 of the CA's public key, as in kubeadm:
// the agent first requests the CA, compares the hash, and only then sends the secret. The store has
// the SHA-256 of the secret. After ten wrong secrets the server deletes the token.
//
// A token is used when its certificate is issued. If the answer is lost, the agent joins again with
// the same key and receives another certificate: [Join] stores the key before the request.
//
// # Certificates
//
// The agent makes its private key, which does not leave the machine, and sends a certificate
// signing request (CSR). The server signs only the public key: ECDSA, Ed25519, or RSA with 2048 to
// 8192 bits. The common name is the cluster, the only extended usage is client authentication, and
// there are no other names. A CSR with another name is refused.
//
// A [Renewer] makes a new key, and requests a new certificate with the current one, after two
// thirds of its lifetime. It adds up to a tenth as jitter, and retries. Certificate and key are
// replaced together, in one file. When a certificate has expired, the agent needs a new token.
//
// # Revocation
//
// [Server.Revoke] refuses all certificates of a cluster at once, also those that were not issued by
// the Server. There is no list of serial numbers: a certificate has the number of its incarnation of
// the cluster as organizational unit, for example join-1, and a join after a revocation begins the
// next one. [Server.Check] refuses a revoked certificate without a read of the store, so it can check
// each message. To end open connections, set [ServerOptions].Revoked:
//
//	names := grpc.AuthorizeNames()
//	agents, err := grpc.NewServer(grpc.ServerOptions{
//		Authorizer: grpc.AuthorizerFunc(func(ctx context.Context, a grpc.Access) error {
//			if err := server.Check(a.Identity.Certificate); err != nil {
//				return err
//			}
//			return names.Authorize(ctx, a)
//		}),
//	})
//	options.Revoked = agents.Recheck
//
// A broker that is another program has an own list of the clusters: see [ServerOptions].Apply, and
// package cloudevents/mqtt/dynsec for Mosquitto.
//
// # Store
//
// Servers with a common [Store] have common tokens and revocations. A revocation reaches the other
// servers with the next event of [Store].Watch. A store that was restored from an older backup may
// lack revocations: revoke these clusters again.
//
// # Limits
//
// A request has at most 16 KiB. There are at most 1,000 tokens and 100,000 clusters. A server
// deletes a token one day after its end, or earlier to make room for another one. Clocks may differ
// by five minutes, or by a tenth of the lifetime of certificates if that is less.
package join
