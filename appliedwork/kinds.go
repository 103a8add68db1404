// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Ranks are the order in which kinds are applied. Prune uses the reverse order.
const (
	rankFoundation = iota // Namespaces and CRDs
	rankSettings          // objects that others refer to
	rankContent           // all other kinds
	rankGates             // kinds that can refuse requests for the others: applied last, deleted first
	ranks
)

var kindRanks = map[schema.GroupKind]int{
	namespaceKind: rankFoundation,
	crdKind:       rankFoundation,

	{Kind: "ServiceAccount"}:                            rankSettings,
	secretKind:                                          rankSettings,
	{Kind: "ConfigMap"}:                                 rankSettings,
	{Kind: "LimitRange"}:                                rankSettings,
	{Kind: "ResourceQuota"}:                             rankSettings,
	{Kind: "PersistentVolume"}:                          rankSettings,
	{Kind: "PersistentVolumeClaim"}:                     rankSettings,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:     rankSettings,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}: rankSettings,
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:        rankSettings,
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}: rankSettings,
	{Group: "networking.k8s.io", Kind: "IngressClass"}:  rankSettings,
	roleKind:               rankSettings,
	roleBindingKind:        rankSettings,
	clusterRoleKind:        rankSettings,
	clusterRoleBindingKind: rankSettings,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:        rankGates,
	{Group: admission, Kind: "ValidatingWebhookConfiguration"}:   rankGates,
	{Group: admission, Kind: "MutatingWebhookConfiguration"}:     rankGates,
	{Group: admission, Kind: "ValidatingAdmissionPolicy"}:        rankGates,
	{Group: admission, Kind: "ValidatingAdmissionPolicyBinding"}: rankGates,
	{Group: admission, Kind: "MutatingAdmissionPolicy"}:          rankGates,
	{Group: admission, Kind: "MutatingAdmissionPolicyBinding"}:   rankGates,
}

const (
	admission = "admissionregistration.k8s.io"
	rbacGroup = "rbac.authorization.k8s.io"
)

var (
	namespaceKind = schema.GroupKind{Kind: "Namespace"}
	crdKind       = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	secretKind    = schema.GroupKind{Kind: "Secret"}

	roleKind               = schema.GroupKind{Group: rbacGroup, Kind: "Role"}
	clusterRoleKind        = schema.GroupKind{Group: rbacGroup, Kind: "ClusterRole"}
	roleBindingKind        = schema.GroupKind{Group: rbacGroup, Kind: "RoleBinding"}
	clusterRoleBindingKind = schema.GroupKind{Group: rbacGroup, Kind: "ClusterRoleBinding"}
)

// isContainer reports whether Kubernetes deletes other objects together with an object.
func isContainer(key Key) bool {
	kind := key.GroupKind()
	return kind == namespaceKind || kind == crdKind
}

// DefaultProtected returns the default of [Options].Protected: the namespaces default, kube-system,
// kube-public and kube-node-lease, and the CRD of AppliedWork.
func DefaultProtected() []Key {
	return []Key{
		{Kind: "Namespace", Name: "default"},
		{Kind: "Namespace", Name: "kube-system"},
		{Kind: "Namespace", Name: "kube-public"},
		{Kind: "Namespace", Name: "kube-node-lease"},
		{Group: crdKind.Group, Kind: crdKind.Kind, Name: v1alpha1.GroupVersionResource.GroupResource().String()},
	}
}

// byRank groups the indices of n objects by rank, in the order of application.
func byRank(n int, kind func(int) schema.GroupKind) [ranks][]int {
	var waves [ranks][]int
	for i := range n {
		rank, ok := kindRanks[kind(i)]
		if !ok {
			rank = rankContent
		}
		waves[rank] = append(waves[rank], i)
	}
	return waves
}

// kindOf returns the kind that a CRD defines, and the plural name of its resource.
func kindOf(crd *unstructured.Unstructured) (kind schema.GroupKind, plural string) {
	kind = schema.GroupKind{Group: textAt(crd, "spec", "group"), Kind: textAt(crd, "spec", "names", "kind")}
	return kind, textAt(crd, "spec", "names", "plural")
}

func textAt(obj *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(obj.Object, path...)
	return s
}

func servedVersions(crd *unstructured.Unstructured) (names []string) {
	versions, _, _ := unstructured.NestedFieldNoCopy(crd.Object, "spec", "versions")
	list, _ := versions.([]any)
	for _, v := range list {
		if v, ok := v.(map[string]any); ok && v["served"] == true {
			name, _ := v["name"].(string)
			names = append(names, name)
		}
	}
	return names
}
