// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package kinds has the built-in kinds of Kubernetes, with their resources and scopes. On a real
// cluster, discovery returns them. Clusters in memory, and the check of manifests before they are
// sent, have only this table.
package kinds

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
)

// Kind is one kind that a cluster stores.
type Kind struct {
	// GVK is the group, version and kind as written in a manifest.
	GVK schema.GroupVersionKind
	// Resource is the plural, lower-case name, such as "deployments".
	Resource string
	// Namespaced is whether its objects have a namespace.
	Namespaced bool
}

// GVR returns the kind's resource with group and version.
func (k Kind) GVR() schema.GroupVersionResource {
	return k.GVK.GroupVersion().WithResource(k.Resource)
}

// CRD is the kind that defines other kinds.
var CRD = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")

// APIService is the kind that adds an aggregated API server. client-go's scheme does not have it.
var APIService = schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}

// Minor is the minor version of Kubernetes for this table: that of client-go's types.
const Minor = 37

// Namespace is the kind of namespaces.
var Namespace = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// clusterScoped lists the cluster-scoped built-in kinds. client-go's scheme does not have the
// scope.
var clusterScoped = sets.New(
	"/Namespace", "/Node", "/PersistentVolume", "/ComponentStatus",
	"admissionregistration.k8s.io/MutatingAdmissionPolicy",
	"admissionregistration.k8s.io/MutatingAdmissionPolicyBinding",
	"admissionregistration.k8s.io/MutatingWebhookConfiguration",
	"admissionregistration.k8s.io/ValidatingAdmissionPolicy",
	"admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding",
	"admissionregistration.k8s.io/ValidatingWebhookConfiguration",
	"apiextensions.k8s.io/CustomResourceDefinition",
	"certificates.k8s.io/CertificateSigningRequest", "certificates.k8s.io/ClusterTrustBundle",
	"flowcontrol.apiserver.k8s.io/FlowSchema", "flowcontrol.apiserver.k8s.io/PriorityLevelConfiguration",
	"internal.apiserver.k8s.io/StorageVersion",
	"networking.k8s.io/IPAddress", "networking.k8s.io/IngressClass", "networking.k8s.io/ServiceCIDR",
	"node.k8s.io/RuntimeClass",
	"rbac.authorization.k8s.io/ClusterRole", "rbac.authorization.k8s.io/ClusterRoleBinding",
	"resource.k8s.io/DeviceClass", "resource.k8s.io/DeviceTaintRule", "resource.k8s.io/ResourceSlice",
	"resource.k8s.io/ResourcePoolStatusRequest",
	"scheduling.k8s.io/PriorityClass",
	"storage.k8s.io/CSIDriver", "storage.k8s.io/CSINode", "storage.k8s.io/StorageClass",
	"storage.k8s.io/VolumeAttachment", "storage.k8s.io/VolumeAttributesClass",
	"storagemigration.k8s.io/StorageVersionMigration",
)

// notStored lists types with object metadata that no cluster stores: they are requests, or parts of
// other resources.
var notStored = sets.New(
	"Binding", "Eviction", "PodStatusResult", "RangeAllocation", "Scale", "TokenRequest", "TokenReview",
	"SubjectAccessReview", "LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview",
	"SelfSubjectReview", "ImageReview", "DeploymentRollback",
)

// BuiltIn returns a built-in kind, or false.
func BuiltIn(gvk schema.GroupVersionKind) (Kind, bool) {
	switch gvk {
	case CRD:
		return Kind{GVK: gvk, Resource: "customresourcedefinitions"}, true
	case APIService:
		return Kind{GVK: gvk, Resource: "apiservices"}, true
	}
	obj, err := scheme.Scheme.New(gvk)
	if err != nil || notStored.Has(gvk.Kind) {
		return Kind{}, false
	}
	// Options, lists and watch events are registered in every group, but are no objects.
	if _, ok := obj.(metav1.Object); !ok || removed(obj) {
		return Kind{}, false
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return Kind{
		GVK:        gvk,
		Resource:   plural.Resource,
		Namespaced: !clusterScoped.Has(gvk.Group + "/" + gvk.Kind),
	}, true
}

// removed reports whether Kubernetes has removed the version of a type: client-go keeps it for
// older clusters.
func removed(obj runtime.Object) bool {
	r, ok := obj.(interface{ APILifecycleRemoved() (major, minor int) })
	if !ok {
		return false
	}
	major, minor := r.APILifecycleRemoved()
	return major < 1 || major == 1 && minor <= Minor
}

// Defined returns the kinds of a CustomResourceDefinition, one for each served version. It returns
// nil for any other object, and an error for an incomplete definition.
func Defined(obj *unstructured.Unstructured) ([]Kind, error) {
	if obj.GroupVersionKind() != CRD {
		return nil, nil
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &crd); err != nil {
		return nil, fmt.Errorf("not a valid CustomResourceDefinition: %w", err)
	}
	names := crd.Spec.Names
	switch {
	case crd.Spec.Group == "":
		return nil, fmt.Errorf("the CustomResourceDefinition %q has no spec.group", crd.Name)
	case names.Kind == "" || names.Plural == "":
		return nil, fmt.Errorf("the CustomResourceDefinition %q needs spec.names.kind and spec.names.plural", crd.Name)
	case crd.Name != names.Plural+"."+crd.Spec.Group:
		return nil, fmt.Errorf("the CustomResourceDefinition %q must be named %q", crd.Name,
			names.Plural+"."+crd.Spec.Group)
	}
	var kinds []Kind
	for _, v := range crd.Spec.Versions {
		if v.Served {
			kinds = append(kinds, Kind{
				GVK:        schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: names.Kind},
				Resource:   strings.ToLower(names.Plural),
				Namespaced: crd.Spec.Scope != apiextensionsv1.ClusterScoped,
			})
		}
	}
	if len(kinds) == 0 {
		return nil, fmt.Errorf("the CustomResourceDefinition %q serves no version", crd.Name)
	}
	return kinds, nil
}
