// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of AppliedWork (group multicluster.x-k8s.io), which records the
// objects of a work on a managed cluster and owns them. Its types have the JSON of
// kubernetes-sigs/work-api. Additional fields are optional: a CRD without them may prune them
// without harm.
//
//	apiVersion: multicluster.x-k8s.io/v1alpha1
//	kind: AppliedWork
//	metadata:
//	  name: cluster1-work-01
//	spec:
//	  workName: work-01
//	  workNamespace: cluster1
//	status:
//	  appliedResources:
//	  - ordinal: 0
//	    version: v1
//	    kind: ConfigMap
//	    resource: configmaps
//	    namespace: default
//	    name: settings
//	    uid: 6a4f2a0e-4c1b-4a35-9a0e-3a7d9a9f6d11
//	  - ordinal: 1          # no namespace: cluster-scoped; no uid: about to be applied
//	    group: rbac.authorization.k8s.io
//	    version: v1
//	    kind: ClusterRole
//	    resource: clusterroles
//	    name: reader
//
// [EnsureCRD] installs the CRD, and [AddToScheme] registers the types. Package
// applyconfiguration/appliedwork/v1alpha1 has the configurations for server-side apply.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=multicluster.x-k8s.io
package v1alpha1

//go:generate controller-gen object:headerFile=boilerplate.txt crd:headerFile=boilerplate.yaml.txt,maxDescLen=400 output:crd:dir=. paths=.
//go:generate controller-gen applyconfiguration:headerFile=boilerplate.txt paths=.
