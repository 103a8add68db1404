// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeaccess authenticates and authorizes the clients of package grpc with a Kubernetes API
// server and its RBAC. RBAC that was written for the gRPC server of OCM's hub works unchanged.
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
// With ManifestBundle, statuses and requests share a topic, so an agent needs update
// manifestworks/status and list manifestworks. Every authenticated client may read the broadcast
// requests of sources; they contain no manifests.
//
// Without OCM, these objects give the rights to the agent with the user cluster1:
//
//	apiVersion: rbac.authorization.k8s.io/v1
//	kind: ClusterRole
//	metadata: {name: work-agent}
//	rules:
//	- apiGroups: [work.open-cluster-management.io]
//	  resources: [manifestworks]
//	  verbs: [watch, list]
//	- apiGroups: [work.open-cluster-management.io]
//	  resources: [manifestworks/status]
//	  verbs: [update]
//	---
//	apiVersion: rbac.authorization.k8s.io/v1
//	kind: RoleBinding
//	metadata: {name: work-agent, namespace: cluster1}
//	roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: work-agent}
//	subjects:
//	- {apiGroup: rbac.authorization.k8s.io, kind: User, name: cluster1}
//
// # Sources
//
// A source over the network needs two kinds of rights. The first is the verb use of its name, as a
// resource of the API group cloudevents.spokewire.io. This resource exists only in RBAC. It
// prevents a source from acting as another source. The second are the rights of a client that
// writes works at the API server:
//
//	publish specs                                create, update and delete manifestworks
//	subscribe to statuses and requests of agents watch manifestworks
//	request statuses                             list manifestworks/status
//
// A source subscribes to all clusters: bind these rights with a ClusterRoleBinding. Here the user
// controller acts as the source hub2:
//
//	apiVersion: rbac.authorization.k8s.io/v1
//	kind: ClusterRole
//	metadata: {name: source-hub2}
//	rules:
//	- apiGroups: [cloudevents.spokewire.io]
//	  resources: [sources]
//	  resourceNames: [hub2]
//	  verbs: [use]
//	- apiGroups: [work.open-cluster-management.io]
//	  resources: [manifestworks]
//	  verbs: [create, update, delete, watch]
//	- apiGroups: [work.open-cluster-management.io]
//	  resources: [manifestworks/status]
//	  verbs: [list]
//	---
//	apiVersion: rbac.authorization.k8s.io/v1
//	kind: ClusterRoleBinding
//	metadata: {name: source-hub2}
//	roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: source-hub2}
//	subjects:
//	- {apiGroup: rbac.authorization.k8s.io, kind: User, name: controller}
//
// # Time
//
// Decisions are cached for Options.CacheTTL (10 s by default). A removed right therefore still
// allows publications and new subscriptions for that time. A connection keeps its subscriptions and
// its user until it ends, even if a right is removed or its token expires.
//
// If the API server does not decide within Options.Timeout, the client receives the status code
// Unavailable and tries again. At most one line a minute is logged for each cause. If the API server
// refuses to review a token, the line has only the HTTP status, since its text may quote the token.
//
// # Limits
//
// The cache of decisions is limited to 16 MiB, and the cache of the identities of tokens to another
// 16 MiB. Tokens are not stored, and a token has at most 64 KiB. Concurrent calls with the same
// question make one request.
//
// Only users and groups are sent for review, as by OCM's hub, without other attributes of a token.
package kubeaccess
