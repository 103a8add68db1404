// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// What is wrong is told with the path of each field.
func ExampleResourceInterpreterWebhookConfiguration_Validate() {
	c := v1alpha1.ResourceInterpreterWebhookConfiguration{Webhooks: []v1alpha1.ResourceInterpreterWebhook{{
		Name:                       "workload.example.com",
		ClientConfig:               admissionregistrationv1.WebhookClientConfig{URL: new("http://hook.example.com/interpret")},
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
