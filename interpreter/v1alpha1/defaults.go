// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Defaults of configurations.
const (
	DefaultTimeoutSeconds = 10  // the time limit of a call
	DefaultServicePort    = 443 // the port of a service
)

// SetDefaults sets the defaults of unset fields: failurePolicy Fail, timeoutSeconds 10, scope * in
// rules and port 443 of services.
func (c *ResourceExploringWebhookConfiguration) SetDefaults() {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		setClientDefaults(&w.ClientConfig, &w.TimeoutSeconds)
		if w.FailurePolicy == nil {
			w.FailurePolicy = new(admissionregistrationv1.Fail)
		}
		for j := range w.Rules {
			if w.Rules[j].Scope == nil {
				w.Rules[j].Scope = new(admissionregistrationv1.AllScopes)
			}
		}
	}
}

// SetDefaults sets the defaults of unset fields: timeoutSeconds 10 and port 443 of services.
func (c *ResourceInterpreterWebhookConfiguration) SetDefaults() {
	for i := range c.Webhooks {
		setClientDefaults(&c.Webhooks[i].ClientConfig, &c.Webhooks[i].TimeoutSeconds)
	}
}

func setClientDefaults(client *admissionregistrationv1.WebhookClientConfig, timeout **int32) {
	if *timeout == nil {
		*timeout = new(int32(DefaultTimeoutSeconds))
	}
	if client.Service != nil && client.Service.Port == nil {
		client.Service.Port = new(int32(DefaultServicePort))
	}
}
