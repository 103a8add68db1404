// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/pem"
	"net/http/httptest"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// startWebhook runs the webhook of Workloads behind TLS, and returns a caller that is configured for it.
func startWebhook() (*caller.Caller, func(), error) {
	server := httptest.NewTLSServer(interpreter.NewHandler(workloadHandler(), interpreter.HandlerOptions{}))
	webhooks, err := caller.New(caller.Options{AllowedHosts: []string{"127.0.0.1"}})
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	stop := func() {
		webhooks.Close()
		server.Close()
	}
	configuration := v1alpha1.ResourceInterpreterWebhookConfiguration{Webhooks: []v1alpha1.ResourceInterpreterWebhook{{
		Name: "workload.example.io",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL:      &server.URL,
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
		Rules: []v1alpha1.KindRuleWithOperations{{
			Operations: []v1alpha1.InterpreterOperation{ // all operations of explain except components
				v1alpha1.InterpreterOperationInterpretReplica, v1alpha1.InterpreterOperationInterpretHealth,
				v1alpha1.InterpreterOperationInterpretStatus, v1alpha1.InterpreterOperationInterpretDependency,
			},
			KindRule: v1alpha1.KindRule{APIGroups: []string{"workload.example.io"}, APIVersions: []string{"v1alpha1"},
				Kinds: []string{"Workload"}},
		}},
		InterpreterContextVersions: []string{v1alpha1.Version},
	}}}
	configurations := caller.Configurations{
		Interpreting: []v1alpha1.ResourceInterpreterWebhookConfiguration{configuration},
	}
	if err := webhooks.SetConfigurations(configurations); err != nil {
		stop()
		return nil, nil, err
	}
	return webhooks, stop, nil
}
