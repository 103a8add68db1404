// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"embed"
	"io/fs"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of all types of this package.
const GroupName = "config.karmada.io"

// Version is the version of all types of this package. A configuration of a webhook must list it in
// exploreReviewVersions or interpreterContextVersions.
const Version = "v1alpha1"

var (
	// GroupVersion is the group and version of all types of this package.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: Version}

	// ExploringWebhookConfigurations is the resource of [ResourceExploringWebhookConfiguration].
	ExploringWebhookConfigurations = GroupVersion.WithResource("resourceexploringwebhookconfigurations")
	// InterpreterWebhookConfigurations is the resource of [ResourceInterpreterWebhookConfiguration].
	InterpreterWebhookConfigurations = GroupVersion.WithResource("resourceinterpreterwebhookconfigurations")

	// SchemeBuilder collects the functions that add the types to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme adds the types of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ResourceExploringWebhookConfiguration{}, &ResourceExploringWebhookConfigurationList{},
		&ResourceInterpreterWebhookConfiguration{}, &ResourceInterpreterWebhookConfigurationList{},
		&ExploreReview{}, &ResourceInterpreterContext{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

//go:embed crds/*.yaml
var crds embed.FS

// CRDs returns a file system with the CustomResourceDefinitions of both configurations, one YAML
// file each.
func CRDs() fs.FS {
	folder, _ := fs.Sub(crds, "crds") // the name is valid
	return folder
}
