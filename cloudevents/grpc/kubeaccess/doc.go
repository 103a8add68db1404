// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeaccess decides about the clients of package grpc with the RBAC of a Kubernetes API
// server. RBAC that was written for the gRPC server of OCM's hub works unchanged.
//
//	reviews, err := kubeaccess.New(config, kubeaccess.Options{})
//	server, err := grpc.NewServer(grpc.ServerOptions{
//		CertFile: "/etc/hub/tls.crt", KeyFile: "/etc/hub/tls.key", ClientCAFile: "/etc/hub/clients-ca.crt",
//		Tokens: reviews, Authorizer: reviews,
//	})
//
// The user of the rest.Config creates TokenReviews and SubjectAccessReviews: it needs the ClusterRole
// system:auth-delegator. The CA in ClientCAFile decides which users and groups exist, so its
// certificates need the same care as those of the API server's client CA.
//
// # Agents
//
// An agent needs the rights of OCM's ClusterRole open-cluster-management:managedcluster:work, in the
// namespace with the name of its cluster. The table has the resources of the API group
// work.open-cluster-management.io that each action needs.
//
//	subscribe to specs and requests of sources   watch manifestworks
//	publish statuses                             update manifestworks/status
//	request specs                                list manifestworks
//	publish and read its presence                watch manifestworks
//
// The profile ManifestBundle has one topic for statuses and for requests to one source, so it needs
// both rights. A request of a source to all agents has no works: each authenticated client may read
// it.
//
// # Sources
//
// A source over the network needs two kinds of rights. The first is the verb use of its name, as a
// resource of the API group cloudevents.spokewire.io. This resource exists only in RBAC. It prevents a
// source from acting as another source:
//
//	rules:
//	- apiGroups: [cloudevents.spokewire.io]
//	  resources: [sources]
//	  resourceNames: [hub]
//	  verbs: [use]
//
// The second are the rights of a client that writes works at the API server, in the namespaces of its
// clusters:
//
//	publish specs                                create, update and delete manifestworks
//	subscribe to statuses and requests of agents watch manifestworks
//	request statuses                             list manifestworks/status
//
// A source of package work subscribes for all clusters, and a request may be for all clusters: a
// ClusterRoleBinding must give these rights.
//
// # Time
//
// A decision is used for at most Options.CacheTTL after its request. So a removed right no longer
// allows publications and new subscriptions then. A connection keeps its subscriptions and its user
// until it ends, even if a right is removed or its token expires.
//
// If the API server does not decide within Options.Timeout, the client receives the status code
// Unavailable and tries again. At most one line a minute is logged for each cause. If the API server
// refuses to review a token, the line has only the HTTP status, since its text may quote the token.
//
// # Limits
//
// Decisions have at most 16 MiB, and identities of tokens another 16 MiB. Tokens are not stored, and
// a token has at most 64 KiB. Concurrent calls with the same question make one request.
//
// Only users and groups are sent for review, as by OCM's hub, without other attributes of a token.
package kubeaccess
