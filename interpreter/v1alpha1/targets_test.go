// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// TestTargets checks that an accepted target is called at the server and at the path that it names.
func TestTargets(t *testing.T) {
	const (
		at    = "webhooks[0].clientConfig."
		path  = at + "service.path: Invalid value: must be a path that begins with one /, without //, . and .. in it, query, fragment and %"
		port  = at + "url: Invalid value: has a port that is not between 1 and 65535"
		label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character"
	)
	for _, test := range []struct{ url, name, namespace, path, want string }{
		{url: "https://a.example.com:65535/x"},
		{url: "https://bücher.example.com/x"},
		{url: "https://a.example.com:0/x", want: port},
		{url: "https://a.example.com:65536/x", want: port},
		{name: "hook", namespace: "prod", path: "/"},
		{name: "hook", namespace: "prod", path: "/interpret_Workload.v1/"},
		{name: "evil.example.com/x", namespace: "prod", want: at + `service.name: Invalid value: "evil.example.com/x": ` + label},
		{name: "hook", namespace: "a_b", want: at + `service.namespace: Invalid value: "a_b": ` + label},
		{name: "hook", namespace: "prod", path: "/a/../b", want: path},
		{name: "hook", namespace: "prod", path: "//b", want: path},
		{name: "hook", namespace: "prod", path: "/a%2Fb", want: path},
		{name: "hook", namespace: "prod", path: "/a?", want: path},
		{name: "hook", namespace: "prod", path: "/a#", want: path},
	} {
		_, interpreting := good()
		client := &interpreting.Webhooks[0].ClientConfig
		*client = admissionregistrationv1.WebhookClientConfig{URL: &test.url}
		if test.name != "" {
			*client = admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: test.name, Namespace: test.namespace}}
		}
		if test.path != "" {
			client.Service.Path = &test.path
		}
		got := ""
		if err := interpreting.Validate().ToAggregate(); err != nil {
			got = err.Error()
		}
		if got != test.want && (test.want == "" || !strings.HasPrefix(got, test.want)) {
			t.Errorf("%+v:\ngot  %s\nwant %s", test, got, test.want)
		}
	}
}
