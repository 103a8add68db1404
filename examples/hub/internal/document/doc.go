// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package document has the documents that tell the hub what to run where, in YAML or JSON. A file may have any number of
// them, divided by lines of three dashes, and 64 MiB; a document may have 1 MiB. examples/hub/samples has one of each.
//
// A Cluster is known to the hub by its name, which is also the name of its agent on the broker:
//
//	apiVersion: hub.spokewire.io/v1alpha1
//	kind: Cluster
//	metadata:
//	  name: cluster1
//	  labels: {region: north}
//
// An Application has parts, each with templates of manifests. Parts are rolled out at the same time, unless one depends on another: then
// it waits until that is Ready on the same cluster, and for a time more.
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
//	    - hook: pre-install      # a Job, say: applied before the others of the part, and waited for
//	      template: ...
//	    - template: ...
//
// A part is Ready when the agent of the cluster has applied all of its objects, and they do what they are for: replicas are available, Jobs are
// complete, and a webhook that judges them finds them healthy. With condition: Deployed the part that depends on it waits only until they are
// written for the agent. That does not wait for a cluster that is away, and there the second part may be applied before the first one.
//
// Templates are those of Go's text/template, and make any number of YAML documents; a label that a cluster does not have is an error.
// Package render says what they can use. Hooks are crd-install, pre-install, post-install, pre-delete and post-delete.
//
// A Placement says which applications run on which clusters, by their names, by their labels, or both. An empty selector selects all.
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
// lower camel case. The clusters of a group are selected as in a Placement. Limits are numbers or
// percentages, and times are texts:
//
//	spec:
//	  rollout:
//	    groups:
//	    - name: canary
//	      clusters: {selector: {matchLabels: {region: north}}}
//	      maxConcurrency: 1     # also maxFailures
//	      approveBefore: true
//	      wait: 10m
//	      approveAfter: true
//	    maxConcurrency: 10%
//	    maxFailures: 1
//	    until: Ready            # or Deployed
//	    minSuccessTime: 1m
//	    progressDeadline: 10m
//	    rollbackOnFailure: true
//
// The doc of examples/hub describes rollouts, and rsync/ROLLOUT.md all fields.
//
// And there are the configurations of webhooks that say whether objects are healthy of kinds that the hub does not know:
// ResourceInterpreterWebhookConfiguration and ResourceExploringWebhookConfiguration of config.karmada.io/v1alpha1.
//
// Decoding is strict: a field that there is not, or that is there twice, is an error, which names file, document and field.
package document
