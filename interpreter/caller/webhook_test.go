// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/spokewire/sdk-go/interpreter/caller"
)

// TestCredentialsAreRequestedByServer checks that credentials are requested by host and port, for each form of a target
// in a configuration.
func TestCredentialsAreRequestedByServer(t *testing.T) {
	for _, test := range []struct {
		want   string
		config admissionregistrationv1.WebhookClientConfig
	}{
		{"hook.example.com:443", at("https://hook.example.com/interpret", nil)},
		{"hook.example.com:443", at("https://Hook.Example.com:443/interpret", nil)},
		{"hook.example.com:8443", at("https://hook.example.com:8443", nil)},
		{"[2001:db8::1]:443", at("https://[2001:DB8::1]/", nil)},
		{"hook.prod.svc:443",
			admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "prod",
				Name: "hook"}}},
		{"hook.prod.svc:9443",
			admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "prod",
				Name: "hook", Port: new(int32(9443))}}},
	} {
		var asked []string
		c := configured(t, caller.Options{
			Retries:     -1,
			Credentials: func(server string) caller.Credentials { asked = append(asked, server); return caller.Credentials{} },
			Dial:        func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route") },
		}, inter(interpreting("c", test.config)))
		if _, err := c.Health(t.Context(), object()); reason(t, err).Reason != caller.ReasonUnreachable {
			t.Error(err)
		}
		if !slices.Equal(asked, []string{test.want}) {
			t.Errorf("credentials were asked for %q, want %s", asked, test.want)
		}
	}
}
