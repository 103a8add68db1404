// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiserver serves the works of a source or an agent as an aggregated API of a Kubernetes
// cluster. kubectl, the garbage collector and all other clients of the cluster then use ManifestWorks
// like any other resource, without a CRD.
//
//	options := apiserver.NewOptions()
//	options.AddFlags(pflag.CommandLine) // --secure-port, --tls-cert-file, --kubeconfig, --read-only, …
//	pflag.Parse()
//	server, err := apiserver.New(source, options)
//	…
//	err = server.Start(ctx) // until ctx ends
//
// The program examples/work-apiserver is a complete server. Its folder has the manifests for a
// cluster: an APIService, which makes the API server of the cluster forward requests for works to
// this server, and RBAC. Use package restconfig instead for clients in the process of the source.
//
// # What the server does
//
// The server is the generic server of k8s.io/apiserver, without etcd:
//   - Authentication: the front proxy of the cluster, client certificates of the cluster, and tokens
//     by TokenReview. Requests without credentials are anonymous, and RBAC refuses them.
//   - Authorization: SubjectAccessReview for each request, cached for 10 s. The namespace of a work is
//     its cluster, so a Role in a namespace gives rights for the works of one cluster.
//   - Admission: works are created only in existing namespaces, and pass the webhooks and policies of
//     the cluster that select them.
//   - Audit, priority and fairness, metrics at /metrics, and the probes /livez and /readyz.
//   - Certificates and CAs are read again when their files change.
//
// The source or the agent executes requests by the rules of its clientset: writes return when they
// are stored, an agent does not create works, and a source does not write statuses. Discovery shows
// only the supported verbs. With [Options].ReadOnly these are get, list and watch; all other requests
// are refused with MethodNotSupported.
//
// # Start and end
//
// Start the source with the server, and end it after the server. When the source has ended, requests
// for works return ServiceUnavailable with a Retry-After header.
//
// Before the source is started, /readyz fails, and a Service sends no requests to this replica. While
// the broker is unreachable, the server is ready: the source executes reads and queues writes. The
// metric spokewire_cloudevents_connected and the log show the outage.
//
// After the end of the context of [Server.Start], the server completes its requests, which takes at
// most a minute, and ends its watches. Clients then continue their watches at another replica.
//
// # Several replicas
//
// Several servers can be endpoints of one Service if their sources are replicas with a
// work.SharedStore, for example package pgstore, and SourceOptions.SharedGroup. All have the same
// resourceVersions. A read or a watch from a version waits up to 3 s for it; a watch continues at any
// replica. A read without a version may be a moment behind a write at another replica.
//
// A write makes its replica the leader. The API server of a cluster sends the requests of most clients
// over one HTTP/2 connection to one replica, so the leader rarely changes. A write in progress at the
// previous leader returns ServiceUnavailable; clients try again.
//
// # Where the CRD of ManifestWork is installed
//
// An APIService for the group version of a CRD hides the CRD: the works in etcd stay, but no client
// sees them. README.md of examples/work-apiserver describes the move.
package apiserver
