// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpretertest

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Run runs cases against a target, each as a subtest.
func Run(t *testing.T, target interpreter.Interpreter, cases ...Case) {
	t.Helper()
	for i := range cases {
		t.Run(cases[i].Name, func(t *testing.T) {
			if d := Check(t.Context(), target, cases[i]); d != "" {
				t.Errorf("%s\n%s", cases[i].Reason, d)
			}
		})
	}
}

// RunFile runs the cases of a file.
func RunFile(t *testing.T, target interpreter.Interpreter, path string) {
	t.Helper()
	cases, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatalf("%s has no cases", path)
	}
	Run(t, target, cases...)
}

// URL returns a target that sends all queries to the webhook at an https URL, in one of the
// protocols. The CA bundle, in PEM, must verify its certificate.
func URL(t testing.TB, protocol interpreter.Protocol, url string, caBundle []byte) *caller.Caller {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, meta.RESTScopeNamespace)
	c, err := caller.New(caller.Options{
		Mapper:           mapper,
		AllowedHosts:     []string{"*"},
		AllowedAddresses: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.SetConfigurations(everything(protocol, url, caBundle, true)); err != nil {
		t.Fatal(err)
	}
	return c
}

// everything returns a configuration that sends all queries to one webhook. Queries about Secrets
// need a rule of their own, which a caller without a mapper does not accept.
func everything(protocol interpreter.Protocol, url string, caBundle []byte, secrets bool) caller.Configurations {
	client := admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: caBundle}
	all := []string{"*"}
	if protocol == interpreter.ProtocolExplore {
		rule := func(groups, versions, resources []string) v1alpha1.RuleWithOperations {
			return v1alpha1.RuleWithOperations{Operations: []v1alpha1.OperationType{v1alpha1.ExploreAll},
				Rule: admissionregistrationv1.Rule{APIGroups: groups, APIVersions: versions, Resources: resources}}
		}
		rules := []v1alpha1.RuleWithOperations{rule(all, all, all)}
		if secrets {
			rules = append(rules, rule([]string{""}, []string{"v1"}, []string{"secrets"}))
		}
		c := v1alpha1.ResourceExploringWebhookConfiguration{Webhooks: []v1alpha1.ResourceExploringWebhook{{
			Name: "webhook.interpretertest.local", ClientConfig: client, ExploreReviewVersions: []string{v1alpha1.Version},
			Rules: rules,
		}}}
		c.Name = "interpretertest"
		return caller.Configurations{Exploring: []v1alpha1.ResourceExploringWebhookConfiguration{c}}
	}
	rule := func(groups, versions, kinds []string) v1alpha1.KindRuleWithOperations {
		operations := []v1alpha1.InterpreterOperation{v1alpha1.InterpreterOperationAll}
		return v1alpha1.KindRuleWithOperations{Operations: operations,
			KindRule: v1alpha1.KindRule{APIGroups: groups, APIVersions: versions, Kinds: kinds}}
	}
	rules := []v1alpha1.KindRuleWithOperations{rule(all, all, all)}
	if secrets {
		rules = append(rules, rule([]string{""}, []string{"v1"}, []string{"Secret"}))
	}
	c := v1alpha1.ResourceInterpreterWebhookConfiguration{Webhooks: []v1alpha1.ResourceInterpreterWebhook{{
		Name: "webhook.interpretertest.local", ClientConfig: client, InterpreterContextVersions: []string{v1alpha1.Version},
		Rules: rules,
	}}}
	c.Name = "interpretertest"
	return caller.Configurations{Interpreting: []v1alpha1.ResourceInterpreterWebhookConfiguration{c}}
}

// diff compares two values as YAML, line by line.
func diff(what string, want, got any) string {
	w, g := text(want), text(got)
	if w == g {
		return ""
	}
	return fmt.Sprintf("%s (-want +got):\n%s", what, cmp.Diff(strings.Split(w, "\n"), strings.Split(g, "\n")))
}

func text(v any) string {
	out, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%v: %v", v, err)
	}
	if s := string(out); s != "null\n" && s != "[]\n" {
		return s
	}
	return ""
}

func compareErrors(want string, err error) string {
	switch {
	case err == nil:
		return fmt.Sprintf("there was an answer, want the error %q", want)
	case want == "":
		return fmt.Sprintf("there was no answer: %v", err)
	case !strings.Contains(err.Error(), want):
		return fmt.Sprintf("the error was %q, want %q", err, want)
	}
	return ""
}
