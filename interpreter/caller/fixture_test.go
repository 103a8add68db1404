// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller_test

import (
	"context"
	"encoding/pem"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"go.uber.org/goleak"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

func TestMain(m *testing.M) {
	quiet := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(quiet)
	_ = quiet.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL"})
	klog.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

// serve runs a webhook with TLS and returns its server and CA.
func serve(t testing.TB, h http.Handler) (*httptest.Server, []byte) {
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	return server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func at(url string, ca []byte) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca}
}

// interpreting returns a configuration with one webhook, for the rules or for all requests.
func interpreting(
	name string, client admissionregistrationv1.WebhookClientConfig, rules ...v1alpha1.KindRuleWithOperations,
) v1alpha1.ResourceInterpreterWebhookConfiguration {
	if len(rules) == 0 {
		rules = []v1alpha1.KindRuleWithOperations{kindRule("*", "*", "*", "*")}
	}
	c := v1alpha1.ResourceInterpreterWebhookConfiguration{Webhooks: []v1alpha1.ResourceInterpreterWebhook{{
		Name: "w." + name + ".example.com", ClientConfig: client, Rules: rules,
		InterpreterContextVersions: []string{"v1alpha1"},
	}}}
	c.Name = name
	return c
}

func kindRule(operation v1alpha1.InterpreterOperation, group, version, kind string) v1alpha1.KindRuleWithOperations {
	return v1alpha1.KindRuleWithOperations{Operations: []v1alpha1.InterpreterOperation{operation},
		KindRule: v1alpha1.KindRule{APIGroups: []string{group}, APIVersions: []string{version}, Kinds: []string{kind}}}
}

// exploring returns a configuration with one webhook, for the rules or for all requests.
func exploring(
	name string, client admissionregistrationv1.WebhookClientConfig, rules ...v1alpha1.RuleWithOperations,
) v1alpha1.ResourceExploringWebhookConfiguration {
	if len(rules) == 0 {
		rules = []v1alpha1.RuleWithOperations{resourceRule("*", "*", "*", "*", "*")}
	}
	c := v1alpha1.ResourceExploringWebhookConfiguration{Webhooks: []v1alpha1.ResourceExploringWebhook{{
		Name: "w." + name + ".example.com", ClientConfig: client, Rules: rules, ExploreReviewVersions: []string{"v1alpha1"},
	}}}
	c.Name = name
	return c
}

func resourceRule(
	operation v1alpha1.OperationType, group, version, resource string, scope admissionregistrationv1.ScopeType,
) v1alpha1.RuleWithOperations {
	return v1alpha1.RuleWithOperations{Operations: []v1alpha1.OperationType{operation},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version},
			Resources: []string{resource}, Scope: &scope}}
}

// configured returns a caller with configurations. It may call test servers.
func configured(t testing.TB, options caller.Options, configurations caller.Configurations) *caller.Caller {
	t.Helper()
	if options.AllowedHosts == nil {
		options.AllowedHosts, options.AllowedAddresses = []string{"*"}, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	c, err := caller.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.SetConfigurations(configurations); err != nil {
		t.Fatal(err)
	}
	return c
}

func inter(c ...v1alpha1.ResourceInterpreterWebhookConfiguration) caller.Configurations {
	return caller.Configurations{Interpreting: c}
}

func explore(c ...v1alpha1.ResourceExploringWebhookConfiguration) caller.Configurations {
	return caller.Configurations{Exploring: c}
}

func object() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Workload",
		"metadata": map[string]any{"name": "w", "namespace": "n"}, "spec": map[string]any{"replicas": int64(1)}}}
}

// healthy returns a webhook that answers InterpretHealth with ok.
func healthy(ok bool) http.Handler {
	return interpreter.NewHandler(interpreter.HandlerFor[*unstructured.Unstructured]{
		Health: func(context.Context, *unstructured.Unstructured) (bool, error) { return ok, nil },
	}, interpreter.HandlerOptions{})
}

// serveCA returns the URL and the CA of a running server.
func serveCA(server *httptest.Server) (string, []byte) {
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
