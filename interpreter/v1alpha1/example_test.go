// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"io/fs"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// Validate returns an error with the path of each invalid field.
func ExampleResourceInterpreterWebhookConfiguration_Validate() {
	c := v1alpha1.ResourceInterpreterWebhookConfiguration{Webhooks: []v1alpha1.ResourceInterpreterWebhook{{
		Name: "workload.example.com",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL: new("http://hook.example.com/interpret"),
		},
		InterpreterContextVersions: []string{"v1alpha1"},
		TimeoutSeconds:             new(int32(60)),
	}}}
	for _, err := range c.Validate() {
		fmt.Println(err)
	}
	// Output:
	// webhooks[0].clientConfig.url: Invalid value: the scheme is "http": it must be https
	// webhooks[0].timeoutSeconds: Invalid value: 60: must be between 1 and 30 seconds
}

// SetDefaults sets the same defaults as the API server.
func ExampleResourceExploringWebhookConfiguration_SetDefaults() {
	c := v1alpha1.ResourceExploringWebhookConfiguration{
		Webhooks: []v1alpha1.ResourceExploringWebhook{{Name: "workload.example.com"}},
	}
	c.SetDefaults()
	fmt.Println(*c.Webhooks[0].FailurePolicy, *c.Webhooks[0].TimeoutSeconds)
	// Output: Fail 10
}

// The CustomResourceDefinitions are for installers and for envtest.
func ExampleCRDs() {
	files, err := fs.Glob(v1alpha1.CRDs(), "*.yaml")
	for _, file := range files {
		fmt.Println(file)
	}
	fmt.Println(err)
	// Output:
	// config.karmada.io_resourceexploringwebhookconfigurations.yaml
	// config.karmada.io_resourceinterpreterwebhookconfigurations.yaml
	// <nil>
}

func ExampleAddToScheme() {
	scheme := runtime.NewScheme()
	err := v1alpha1.AddToScheme(scheme)
	fmt.Println(scheme.Recognizes(v1alpha1.GroupVersion.WithKind("ResourceInterpreterWebhookConfiguration")), err)
	// Output: true <nil>
}

// Each operation has a name in both protocols, except one.
func ExampleInterpreterOperations() {
	for _, o := range v1alpha1.InterpreterOperations() {
		explore, _ := o.Explore()
		fmt.Println(strings.TrimSpace(fmt.Sprintf("%-19s %s", o, explore)))
	}
	// Output:
	// InterpretReplica    ExploreReplica
	// InterpretComponent
	// ReviseReplica       ExploreReplicaRevising
	// Retain              ExploreRetaining
	// AggregateStatus     ExploreStatusAggregating
	// InterpretDependency ExploreDependencies
	// InterpretStatus     ExploreStatus
	// InterpretHealth     ExploreHealthy
	// Prune               ExplorePacking
}
