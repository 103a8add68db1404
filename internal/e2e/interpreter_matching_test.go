// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// matchKinds are the kinds and resources of the rules and objects in the matching tests.
var matchKinds = []struct {
	gvk        schema.GroupVersionKind
	resource   string
	namespaced bool
}{
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, "deployments", true},
	{schema.GroupVersionKind{Group: "apps", Version: "v1beta1", Kind: "Deployment"}, "deployments", true},
	{schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Cluster"}, "clusters", false},
	{schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "pods", true},
	{schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "namespaces", false},
	{schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Namespace"}, "namespaces", false},
}

// TestInterpreterMatching: for random rules, the caller selects the first webhook with a rule that
// the API server's own matcher accepts.
func TestInterpreterMatching(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		matching(t, rand.New(rand.NewPCG(seed, 1)))
	}
}

// FuzzInterpreterMatching checks more rules than TestInterpreterMatching.
func FuzzInterpreterMatching(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) { matching(t, rand.New(rand.NewPCG(a, b))) })
}

// pick returns one to three different values of a list, or only "*".
func pick[T ~string](r *rand.Rand, list ...T) []T {
	if r.IntN(4) == 0 {
		return []T{"*"}
	}
	var out []T
	for _, i := range r.Perm(len(list))[:1+r.IntN(min(3, len(list)))] {
		out = append(out, list[i])
	}
	return out
}

func matching(t *testing.T, r *rand.Rand) {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, k := range matchKinds {
		mapper.AddSpecific(k.gvk, k.gvk.GroupVersion().WithResource(k.resource),
			k.gvk.GroupVersion().WithResource(k.resource), meta.RESTScopeRoot)
	}
	c, err := caller.New(caller.Options{Mapper: mapper, AllowedHosts: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	var configurations []v1alpha1.ResourceExploringWebhookConfiguration
	for i := range 1 + r.IntN(5) {
		configuration := v1alpha1.ResourceExploringWebhookConfiguration{}
		configuration.Name = fmt.Sprintf("c%d", i)
		for j := range 1 + r.IntN(3) {
			hook := v1alpha1.ResourceExploringWebhook{Name: fmt.Sprintf("w%d.example.com", j),
				ExploreReviewVersions: []string{"v1alpha1"},
				ClientConfig:          admissionregistrationv1.WebhookClientConfig{URL: new("https://nowhere.example.com/")}}
			for range r.IntN(4) {
				hook.Rules = append(hook.Rules, randomRule(r))
			}
			configuration.Webhooks = append(configuration.Webhooks, hook)
		}
		configurations = append(configurations, configuration)
	}
	if err := c.SetConfigurations(caller.Configurations{Exploring: configurations}); err != nil {
		t.Fatal(err)
	}
	for _, k := range matchKinds {
		for _, operation := range []v1alpha1.OperationType{v1alpha1.ExploreHealthy, v1alpha1.ExploreReplica} {
			for _, namespace := range []string{"", "ns"} {
				o, _ := operation.Interpreter()
				got, err := c.Match(o, k.gvk, namespace != "")
				want := firstMatch(configurations, operation, k.gvk, k.resource, namespace)
				if err != nil || got != want {
					t.Fatalf("%s of %s in %q: %q (%v), the API server says %q\n%+v", operation, k.gvk, namespace, got, err, want,
						configurations)
				}
			}
		}
	}
}

func randomRule(r *rand.Rand) v1alpha1.RuleWithOperations {
	rule := v1alpha1.RuleWithOperations{Operations: pick(r, v1alpha1.ExploreHealthy, v1alpha1.ExploreReplica,
		v1alpha1.ExploreStatus)}
	rule.APIGroups = pick(r, "", "apps", "example.com", "other.example.com")
	rule.APIVersions = pick(r, "v1", "v1beta1", "v2")
	rule.Resources = pick(r, "deployments", "clusters", "pods", "namespaces", "pods/*", "deployments/*")
	if rule.Resources[0] == "*" && r.IntN(2) == 0 {
		rule.Resources[0] = "*/*"
	}
	if scope := r.IntN(4); scope > 0 {
		rule.Scope = new([]admissionregistrationv1.ScopeType{"*", "Cluster", "Namespaced"}[scope-1])
	}
	return rule
}

// firstMatch returns the first match of the API server's matcher, with the operations mapped to
// operations that it supports.
func firstMatch(
	configurations []v1alpha1.ResourceExploringWebhookConfiguration, operation v1alpha1.OperationType,
	gvk schema.GroupVersionKind, resource, namespace string,
) string {
	attributes := admission.NewAttributesRecord(nil, nil, gvk, namespace, "name",
		gvk.GroupVersion().WithResource(resource), "", admission.Operation(operation), nil, false, nil)
	for _, configuration := range configurations {
		for _, hook := range configuration.Webhooks {
			for _, rule := range hook.Rules {
				theirs := admissionregistrationv1.RuleWithOperations{Rule: rule.Rule}
				for _, o := range rule.Operations {
					theirs.Operations = append(theirs.Operations, admissionregistrationv1.OperationType(o))
				}
				matcher := rules.Matcher{Rule: theirs, Attr: attributes}
				if matcher.Matches() {
					return configuration.Name + "/" + hook.Name
				}
			}
		}
	}
	return ""
}
