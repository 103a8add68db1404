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

	// Webhooks are the webhooks, what they are asked and about which kinds.
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

// ResourceInterpreterWebhook is one webhook of the Interpret protocol. There is no failure policy:
// without the answer, the operation of the caller fails. Code 501 counts as no answer of this
// webhook, and the next interpreter is called.
type ResourceInterpreterWebhook struct {
	// Name is the qualified name of the webhook: a domain of at least three parts.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}$`
	Name string `json:"name"`

	// ClientConfig says how to reach the webhook: exactly one of a URL and a service, and the CAs to trust.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.service)",message="exactly one of url and service is required"
	ClientConfig admissionregistrationv1.WebhookClientConfig `json:"clientConfig"`

	// Rules say which operations on which kinds the webhook is asked. One that fits is enough; without rules, it is never
	// asked.
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

	// InterpreterContextVersions are the versions of ResourceInterpreterContext that the webhook accepts, the preferred
	// one first. The first that the caller knows is used; one of them must be known.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.exists(v, v == 'v1alpha1')",message="must include one of v1alpha1"
	InterpreterContextVersions []string `json:"interpreterContextVersions"`
}

// KindRuleWithOperations says which operations on which kinds: each combination of its lists.
type KindRuleWithOperations struct {
	// Operations are the operations. "*" stands for all and must be alone.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="size(self) == 1 || !('*' in self)",message="'*' must be alone"
	Operations []InterpreterOperation `json:"operations"`

	// KindRule has the kinds.
	KindRule `json:",inline"`
}

// KindRule says which kinds: each combination of its lists. "*" stands for all and must be alone in its list.
type KindRule struct {
	// APIGroups are the API groups; "" is the core group.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 1 || !('*' in self)",message="'*' must be alone"
	APIGroups []string `json:"apiGroups"`

	// APIVersions are the API versions.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="size(self) == 1 || !('*' in self)",message="'*' must be alone"
	APIVersions []string `json:"apiVersions"`

	// Kinds are the kinds.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="size(self) == 1 || !('*' in self)",message="'*' must be alone"
	Kinds []string `json:"kinds"`
}
