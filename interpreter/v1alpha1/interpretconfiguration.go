// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceInterpreterWebhookConfiguration registers webhooks of the Interpret protocol.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=resourceinterpreterwebhookconfigurations,scope=Cluster,categories=karmada-io
// +kubebuilder:storageversion
type ResourceInterpreterWebhookConfiguration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Webhooks are the webhooks, each with the operations and kinds for which it is called.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Webhooks []ResourceInterpreterWebhook `json:"webhooks"`
}

// ResourceInterpreterWebhookConfigurationList is a list of [ResourceInterpreterWebhookConfiguration].
// +kubebuilder:object:root=true
type ResourceInterpreterWebhookConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceInterpreterWebhookConfiguration `json:"items"`
}

// ResourceInterpreterWebhook is one webhook of the Interpret protocol. It has no failure policy: if
// a call fails, the caller's operation fails. After an answer with code 501, the caller calls its
// next interpreter.
type ResourceInterpreterWebhook struct {
	// Name is the qualified name of the webhook: a domain of at least three parts.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}$`
	Name string `json:"name"`

	// ClientConfig has the address of the webhook, either a URL or a service, and the CAs to trust.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.service)",message="exactly one of url and service is required"
	ClientConfig admissionregistrationv1.WebhookClientConfig `json:"clientConfig"`

	// Rules select the operations and kinds for which the webhook is called. One matching rule is
	// enough. Without rules, the webhook is never called.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Rules []KindRuleWithOperations `json:"rules,omitempty"`

	// TimeoutSeconds is how long a call may take, 1 to 30 seconds. Defaults to 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=30
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// InterpreterContextVersions are the versions of ResourceInterpreterContext that the webhook
	// accepts, in order of preference. The caller uses the first version that it knows. The list must
	// include v1alpha1.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.exists(v, v == 'v1alpha1')",message="must include one of v1alpha1"
	InterpreterContextVersions []string `json:"interpreterContextVersions"`
}

// KindRuleWithOperations matches each combination of its operations and kinds.
type KindRuleWithOperations struct {
	// Operations are the operations that match. "*" matches all and must be the only entry.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="size(self) == 1 || !('*' in self)",message="'*' must be alone"
	Operations []InterpreterOperation `json:"operations"`

	// KindRule selects the kinds.
	KindRule `json:",inline"`
}

// KindRule matches each combination of its lists. In each list, "*" matches all and must be the
// only entry.
type KindRule struct {
	// APIGroups are the API groups that match; "" is the core group.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 1 || !('*' in self)",message="'*' must be alone"
	APIGroups []string `json:"apiGroups"`

	// APIVersions are the API versions that match.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="size(self) == 1 || !('*' in self)",message="'*' must be alone"
	APIVersions []string `json:"apiVersions"`

	// Kinds are the kinds that match.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="size(self) == 1 || !('*' in self)",message="'*' must be alone"
	Kinds []string `json:"kinds"`
}
