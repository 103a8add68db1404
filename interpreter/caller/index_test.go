// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller_test

import (
	"fmt"
	"runtime"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

var nowhere = admissionregistrationv1.WebhookClientConfig{URL: new("https://nowhere.example.com/")}

var workloadKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Workload"}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(workloadKind, meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeRoot)
	return m
}

func TestMatch(t *testing.T) {
	namespace := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	unknown := schema.GroupVersionKind{Group: "new.example.com", Version: "v1", Kind: "New"}
	const all, cluster, namespaced = admissionregistrationv1.AllScopes, admissionregistrationv1.ClusterScope,
		admissionregistrationv1.NamespacedScope
	tests := []struct {
		name, reason   string
		configurations caller.Configurations
		operation      interpreter.Operation
		kind           schema.GroupVersionKind
		inNamespace    bool
		want           string
	}{
		{"no rule", "", caller.Configurations{}, v1alpha1.InterpreterOperationPrune, workloadKind, true, ""},
		{"a kind", "", inter(interpreting("a", nowhere, kindRule("Prune", "example.com", "v1", "Workload"))),
			v1alpha1.InterpreterOperationPrune, workloadKind, true, "a/w.a.example.com"},
		{"another operation", "", inter(interpreting("a", nowhere, kindRule("Retain", "example.com", "v1", "Workload"))),
			v1alpha1.InterpreterOperationPrune, workloadKind, true, ""},
		{"another version", "", inter(interpreting("a", nowhere, kindRule("Prune", "example.com", "v2", "Workload"))),
			v1alpha1.InterpreterOperationPrune, workloadKind, true, ""},
		{"every kind", "", inter(interpreting("a", nowhere, kindRule("*", "example.com", "*", "*"))),
			v1alpha1.InterpreterOperationPrune, workloadKind, true, "a/w.a.example.com"},
		{"the first by name", "whatever the order, and however precise",
			inter(interpreting("b", nowhere, kindRule("Prune", "example.com", "v1", "Workload")), interpreting("a", nowhere)),
			v1alpha1.InterpreterOperationPrune, workloadKind, true, "a/w.a.example.com"},
		{"both protocols", "one order", caller.Configurations{
			Exploring:    explore(exploring("a", nowhere)).Exploring,
			Interpreting: inter(interpreting("b", nowhere)).Interpreting,
		}, v1alpha1.InterpreterOperationInterpretHealth, workloadKind, true, "a/w.a.example.com"},
		{"no form in Explore", "the other protocol's is asked", caller.Configurations{
			Exploring:    explore(exploring("a", nowhere)).Exploring,
			Interpreting: inter(interpreting("b", nowhere)).Interpreting,
		}, v1alpha1.InterpreterOperationInterpretComponent, workloadKind, true, "b/w.b.example.com"},
		{"a resource", "", explore(exploring("a", nowhere, resourceRule("ExploreHealthy", "example.com", "v1", "workloads",
			all))), v1alpha1.InterpreterOperationInterpretHealth, workloadKind, true, "a/w.a.example.com"},
		{"a resource and its subresources", "",
			explore(exploring("a", nowhere, resourceRule("ExploreHealthy", "example.com", "v1", "workloads/*", all))),
			v1alpha1.InterpreterOperationInterpretHealth, workloadKind, true, "a/w.a.example.com"},
		{"another resource", "",
			explore(exploring("a", nowhere, resourceRule("ExploreHealthy", "example.com", "v1", "others", all))),
			v1alpha1.InterpreterOperationInterpretHealth, workloadKind, true, ""},
		{"a kind that the mapper does not know", "rules for all resources hold",
			explore(exploring("a", nowhere, resourceRule("*", "*", "*", "workloads", all)), exploring("b", nowhere)),
			v1alpha1.InterpreterOperationInterpretHealth, unknown, true, "b/w.b.example.com"},
		{"cluster scope", "the object has a namespace",
			explore(exploring("a", nowhere, resourceRule("*", "*", "*", "*", cluster))),
			v1alpha1.InterpreterOperationInterpretHealth, workloadKind, true, ""},
		{"cluster scope without namespace", "", explore(exploring("a", nowhere, resourceRule("*", "*", "*", "*", cluster))),
			v1alpha1.InterpreterOperationInterpretHealth, workloadKind, false, "a/w.a.example.com"},
		{"namespaced", "", explore(exploring("a", nowhere, resourceRule("*", "*", "*", "*", namespaced)),
			exploring("b", nowhere)), v1alpha1.InterpreterOperationInterpretHealth, workloadKind, true, "a/w.a.example.com"},
		{"namespaced without namespace", "", explore(exploring("a", nowhere, resourceRule("*", "*", "*", "*", namespaced)),
			exploring("b", nowhere)), v1alpha1.InterpreterOperationInterpretHealth, workloadKind, false, "b/w.b.example.com"},
		{"a namespace", "is an object of the cluster",
			explore(exploring("a", nowhere, resourceRule("*", "*", "*", "namespaces", cluster))),
			v1alpha1.InterpreterOperationInterpretHealth, namespace, true, "a/w.a.example.com"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := configured(t, caller.Options{Mapper: mapper()}, test.configurations)
			got, err := c.Match(test.operation, test.kind, test.inNamespace)
			if err != nil || got != test.want {
				t.Errorf("%q (%v), want %q: %s", got, err, test.want, test.reason)
			}
		})
	}
}

// crowd returns n configurations. Only the last one matches the kind.
func crowd(n int, protocol interpreter.Protocol) caller.Configurations {
	var out caller.Configurations
	for i := range n {
		name, group := fmt.Sprintf("c%04d", i), fmt.Sprintf("g%d.example.com", i)
		if i == n-1 {
			group = "example.com"
		}
		if protocol == interpreter.ProtocolExplore {
			out.Exploring = append(out.Exploring, exploring(name, nowhere, resourceRule("*", group, "v1", "workloads", "*"),
				resourceRule("ExploreHealthy", group, "*", "others", "Namespaced")))
		} else {
			out.Interpreting = append(out.Interpreting, interpreting(name, nowhere, kindRule("*", group, "v1", "Workload"),
				kindRule("Prune", group, "*", "Other")))
		}
	}
	return out
}

func TestMatchAllocations(t *testing.T) {
	for _, protocol := range []interpreter.Protocol{interpreter.ProtocolExplore, interpreter.ProtocolInterpret} {
		c := configured(t, caller.Options{Mapper: mapper()}, crowd(500, protocol))
		n := testing.AllocsPerRun(100, func() {
			if got, err := c.Match(v1alpha1.InterpreterOperationInterpretHealth, workloadKind, true); err != nil ||
				got != "c0499/w.c0499.example.com" {
				t.Fatal(got, err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations, want none", protocol, n)
		}
	}
}

// BenchmarkMatch measures a match. The time does not depend on the number of webhooks.
func BenchmarkMatch(b *testing.B) {
	for _, protocol := range []interpreter.Protocol{interpreter.ProtocolExplore, interpreter.ProtocolInterpret} {
		for _, n := range []int{1, 50, 500, 5000} {
			b.Run(fmt.Sprintf("%s/%d", protocol, n), func(b *testing.B) {
				c := configured(b, caller.Options{Mapper: mapper()}, crowd(n, protocol))
				b.ReportAllocs()
				for b.Loop() {
					if got, err := c.Match(v1alpha1.InterpreterOperationInterpretHealth, workloadKind, true); err != nil || got == "" {
						b.Fatal(got, err)
					}
				}
			})
		}
	}
}

// numbered returns n elements: prefix0, prefix1 and so on.
func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(prefix, i)
	}
	return out
}

// TestLargestRulesUseLittleMemory checks that the largest valid rules use little memory. All combinations of the
// lists of one rule took 300 MB.
func TestLargestRulesUseLittleMemory(t *testing.T) {
	kinds := v1alpha1.KindRuleWithOperations{Operations: v1alpha1.InterpreterOperations(),
		KindRule: v1alpha1.KindRule{APIGroups: numbered("g", 64), APIVersions: numbered("v", 64), Kinds: numbered("K", 64)}}
	resources := resourceRule("*", "", "", "", "*")
	resources.APIGroups, resources.APIVersions, resources.Resources = numbered("h", 64), numbered("v", 64),
		numbered("r", 64)
	both := explore(exploring("b", nowhere, resources))
	both.Interpreting = inter(interpreting("a", nowhere, kinds)).Interpreting
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c := configured(t, caller.Options{Mapper: mapper()}, both)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if bytes := int64(after.HeapAlloc) - int64(before.HeapAlloc); bytes > 16<<20 {
		t.Errorf("two rules take %d MB", bytes>>20)
	}
	for _, o := range v1alpha1.InterpreterOperations() {
		kind := workloadKind
		kind.Group, kind.Version, kind.Kind = "g63", "v63", "K63"
		if got, err := c.Match(o, kind, true); got != "a/w.a.example.com" || err != nil {
			t.Errorf("%s: %q, %v", o, got, err)
		}
		kind.Version = "v64"
		if got, _ := c.Match(o, kind, true); got != "" {
			t.Errorf("%s of another version: %q", o, got)
		}
	}
	if got, _ := c.Match(interpreter.Operation("Guess"), workloadKind, true); got != "" {
		t.Errorf("an operation that there is not: %q", got)
	}
}
