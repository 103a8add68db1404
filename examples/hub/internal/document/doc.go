// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package document has the documents that configure the hub, in YAML or JSON. A file may have
// several documents, separated by lines of three dashes, and up to 64 MiB; a document may have 1
// MiB. examples/hub/samples has one of each kind.
//
// A Cluster is identified by its name, which is also the name of its agent on the broker:
//
//	apiVersion: hub.spokewire.io/v1alpha1
//	kind: Cluster
//	metadata:
//	  name: cluster1
//	  labels: {region: north}
//
// An Application has parts, each with templates of manifests. Parts are rolled out at the same
// time, unless one depends on another. A dependent part waits until the other part is Ready on the
// same cluster, and then for an optional time.
//
//	apiVersion: hub.spokewire.io/v1alpha1
//	kind: Application
//	metadata: {name: shop}
//	spec:
//	  parts:
//	  - name: database
//	    manifests:
//	    - template: |
//	        apiVersion: v1
//	        kind: ConfigMap
//	        ...
//	  - name: web
//	    dependsOn:
//	    - {part: database, wait: 2s}
//	    manifests:
//	    - hook: pre-install      # for example a Job: the rest of the part waits until it is ready
//	      template: ...
//	    - template: ...
//
// A part is Ready when the agent of the cluster has applied all of its objects and the objects are
// ready: replicas are available, Jobs are complete, and webhooks that interpret them report them as
// healthy. With condition: Deployed the dependent part waits only until the objects are written for
// the agent. This does not wait for a cluster that is offline, where the second part may be applied
// before the first.
//
// Templates are Go text/template templates and may produce several YAML documents. A label that a
// cluster does not have is an error. Package render describes their variables and functions. Hooks
// are crd-install, pre-install, post-install, pre-delete and post-delete.
//
// A Placement selects the clusters for applications, by names, by labels, or both. An empty
// selector selects all clusters.
//
//	apiVersion: hub.spokewire.io/v1alpha1
//	kind: Placement
//	metadata: {name: north}
//	spec:
//	  applications: [shop]
//	  clusters:
//	    names: [cluster7]
//	    selector: {matchLabels: {region: north}}
//
// An Application may have spec.rollout, with the fields of rsync.Rollout and rsync.RolloutGroup in
// lower camel case. The clusters of a group are selected as in a Placement. README.md of
// examples/hub describes rollouts, and rsync/ROLLOUT.md all fields.
//
// The last two kinds configure webhooks that report the health of kinds that the hub does not
// support: ResourceInterpreterWebhookConfiguration and ResourceExploringWebhookConfiguration of
// config.karmada.io/v1alpha1.
//
// Decoding is strict: an unknown or duplicate field is an error that names file, document and
// field.
package document
