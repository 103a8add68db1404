// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// The webhook answers for its own kind, and package native for the others.
func ExampleChain() {
	webhook := httptest.NewTLSServer(interpreter.NewHandler(interpreter.HandlerFor[*unstructured.Unstructured]{
		Replica: func(_ context.Context, u *unstructured.Unstructured) (int32, *interpreter.ReplicaRequirements, error) {
			size, _, err := unstructured.NestedInt64(u.Object, "spec", "size")
			return int32(size), nil, err
		},
	}, interpreter.HandlerOptions{}))
	defer webhook.Close()

	webhooks, err := caller.New(caller.Options{AllowedHosts: []string{"127.0.0.1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer webhooks.Close()
	configuration := v1alpha1.ResourceInterpreterWebhookConfiguration{Webhooks: []v1alpha1.ResourceInterpreterWebhook{{
		Name: "pools.example.com",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL:      &webhook.URL,
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw}),
		},
		Rules: []v1alpha1.KindRuleWithOperations{{
			Operations: []v1alpha1.InterpreterOperation{v1alpha1.InterpreterOperationInterpretReplica},
			KindRule: v1alpha1.KindRule{APIGroups: []string{"example.com"}, APIVersions: []string{"*"},
				Kinds: []string{"Pool"}},
		}},
		InterpreterContextVersions: []string{"v1alpha1"},
	}}}
	if err := webhooks.SetConfigurations(
		caller.Configurations{Interpreting: []v1alpha1.ResourceInterpreterWebhookConfiguration{configuration}}); err != nil {
		fmt.Println(err)
		return
	}

	answers := caller.Chain(webhooks, native.New())
	for _, object := range []map[string]any{
		{"apiVersion": "example.com/v1", "kind": "Pool", "metadata": map[string]any{"name": "p"},
			"spec": map[string]any{"size": int64(4)}},
		{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "d"}},
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}},
	} {
		replicas, _, err := answers.Replicas(context.Background(), &unstructured.Unstructured{Object: object})
		fmt.Println(object["kind"], replicas, err)
	}
	// Output:
	// Pool 4 <nil>
	// Deployment 1 <nil>
	// ConfigMap 0 not interpreted: no webhook has a rule for InterpretReplica of v1 ConfigMap; InterpretReplica of ConfigMap is not native
}

// After Start, a caller with a client follows the configurations of a cluster. Without a client,
// SetConfigurations sets them.
func ExampleNew() {
	webhooks, err := caller.New(caller.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer webhooks.Close()
	pools := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Pool"}
	_, err = webhooks.Match(v1alpha1.InterpreterOperationInterpretHealth, pools, true)
	fmt.Println(err)

	err = webhooks.SetConfigurations(
		caller.Configurations{Interpreting: []v1alpha1.ResourceInterpreterWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "pools"},
			Webhooks: []v1alpha1.ResourceInterpreterWebhook{{
				Name:         "health.example.com",
				ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://pools.example.com/interpret")},
				Rules: []v1alpha1.KindRuleWithOperations{{
					Operations: []v1alpha1.InterpreterOperation{v1alpha1.InterpreterOperationInterpretHealth},
					KindRule: v1alpha1.KindRule{APIGroups: []string{"example.com"}, APIVersions: []string{"*"},
						Kinds: []string{"Pool"}},
				}},
				InterpreterContextVersions: []string{"v1alpha1"},
			}},
		}}})
	fmt.Println(err)
	fmt.Println(webhooks.Match(v1alpha1.InterpreterOperationInterpretHealth, pools, true))
	// Output:
	// the webhook configurations have not been read yet
	// <nil>
	// pools/health.example.com <nil>
}
