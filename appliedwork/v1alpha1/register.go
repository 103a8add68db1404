// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// GroupName is the group of the API.
	GroupName = "multicluster.x-k8s.io"
	// Kind is the kind of an AppliedWork.
	Kind = "AppliedWork"
)

var (
	// GroupVersion is the group and version of the types in this package.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
	// GroupVersionKind is the full kind of an AppliedWork.
	GroupVersionKind = GroupVersion.WithKind(Kind)
	// GroupVersionResource is the resource of AppliedWorks.
	GroupVersionResource = GroupVersion.WithResource("appliedworks")

	// SchemeGroupVersion is GroupVersion, under the name that generated code expects.
	SchemeGroupVersion = GroupVersion
	// SchemeBuilder collects the functions that register the types.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the types with a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Resource returns the group resource of a resource of this group.
func Resource(resource string) schema.GroupResource {
	return GroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &AppliedWork{}, &AppliedWorkList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
