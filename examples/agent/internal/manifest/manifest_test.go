// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
)

// kinds is a RESTMapper with ConfigMap, Namespace and CustomResourceDefinition. It returns an error
// for Broken.
type kinds struct{ mapper *meta.DefaultRESTMapper }

func newKinds() kinds {
	core := schema.GroupVersion{Version: "v1"}
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{core})
	m.Add(core.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	m.Add(core.WithKind("Namespace"), meta.RESTScopeRoot)
	m.Add(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		meta.RESTScopeRoot)
	return kinds{m}
}

func (k kinds) Mapping(_ context.Context, gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	if gvk.Kind == "Broken" {
		return nil, errors.New("no answer")
	}
	return k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
}

func workOf(texts ...string) *workv1.ManifestWork {
	w := &workv1.ManifestWork{}
	for _, text := range texts {
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(text)}})
	}
	return w
}

func TestRead(t *testing.T) {
	const crd = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"tenants.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"tenants","kind":"Tenant"},"versions":[{"name":"v1","served":true},{"name":"v0","served":false}]}}`
	for _, tt := range []struct {
		name, text   string
		key          string
		resource     string
		err          string
		undecodeable bool
	}{
		{"an object", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"n"}}`, "ConfigMap n/c",
			"configmaps", "", false},
		{"a namespace that does not count", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n","namespace":"x"}}`,
			"Namespace n", "namespaces", "", false},
		{"a kind that a definition announces",
			`{"apiVersion":"example.com/v1","kind":"Tenant","metadata":{"name":"t","namespace":"n"}}`, "Tenant.example.com n/t",
			"tenants", "", false},
		{"one that it does not serve",
			`{"apiVersion":"example.com/v0","kind":"Tenant","metadata":{"name":"t","namespace":"n"}}`, "Tenant.example.com n/t",
			"", "install its definition", false},
		{"no namespace", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`, "ConfigMap c", "configmaps",
			"set metadata.namespace", false},
		{"no name", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"n"}}`, "ConfigMap n/", "configmaps",
			"metadata.name", false},
		{"no kind", `{"apiVersion":"v1","metadata":{"name":"c"}}`, "", "", "Kind", true},
		{"not an object", `[]`, "", "", "not an object", true},
		{"no JSON", `{`, "", "", "not an object", true},
		{"nothing", ``, "", "", "empty manifest", true},
		{"a cluster that does not answer", `{"apiVersion":"v1","kind":"Broken","metadata":{"name":"c"}}`, "Broken c", "",
			"look up the kind Broken of v1: no answer", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			read := manifest.Read(t.Context(), workOf(crd, tt.text), newKinds())
			if len(read) != 2 || read[0].Err != nil {
				t.Fatalf("%+v", read)
			}
			m := read[1]
			if tt.undecodeable != (m.Object == nil) || m.Ordinal != 1 || !tt.undecodeable && m.Key.String() != tt.key ||
				m.Resource.Resource != tt.resource {
				t.Errorf("%+v, %s", m, m.Key)
			}
			if got := m.Err; (got == nil) != (tt.err == "") || got != nil && !strings.Contains(got.Error(), tt.err) {
				t.Errorf("%v, want %q", got, tt.err)
			}
			if r := m.Meta(); r.Resource != tt.resource || r.Ordinal != 1 || r.Name != m.Key.Name {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestSame checks that the second of two manifests of one object is refused.
func TestSame(t *testing.T) {
	const text = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"n"}}`
	read := manifest.Read(t.Context(), workOf(text, text), newKinds())
	if read[0].Err != nil || read[1].Err == nil || !strings.Contains(read[1].Err.Error(), "same object as manifest 0") {
		t.Errorf("%v, %v", read[0].Err, read[1].Err)
	}
}

// TestLocate checks that Locate finds a kind that was added later.
func TestLocate(t *testing.T) {
	k := newKinds()
	m := manifest.Read(t.Context(),
		workOf(`{"apiVersion":"example.com/v1","kind":"Tenant","metadata":{"name":"t","namespace":"n"}}`), k)[0]
	m.Locate(t.Context(), k)
	if m.Served {
		t.Error("it is not served")
	}
	k.mapper.Add(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Tenant"}, meta.RESTScopeNamespace)
	if m.Locate(t.Context(), k); !m.Served || m.Resource.Resource != "tenants" {
		t.Errorf("%+v", m)
	}
}

func configFor(options []workv1.ManifestConfigOption, id workv1.ResourceIdentifier) manifest.Config {
	return manifest.NewConfigs(options).For(id, &guard.Budget{})
}

func TestConfigs(t *testing.T) {
	id := func(namespace, name string) workv1.ResourceIdentifier {
		return workv1.ResourceIdentifier{Resource: "configmaps", Namespace: namespace, Name: name}
	}
	strategy := func(t workv1.UpdateStrategyType) *workv1.UpdateStrategy { return &workv1.UpdateStrategy{Type: t} }
	rule := func(condition, message string) workv1.ConditionRule {
		return workv1.ConditionRule{Condition: condition, Message: message}
	}
	known := []workv1.FeedbackRule{{Type: workv1.WellKnownStatusType}}
	paths := []workv1.FeedbackRule{{Type: workv1.JSONPathsType}}
	options := []workv1.ManifestConfigOption{
		{ResourceIdentifier: id("n", "web"), FeedbackRules: known, FeedbackScrapeType: workv1.FeedbackWatchType,
			ConditionRules: []workv1.ConditionRule{rule("A", "first")}},
		{ResourceIdentifier: id("n", "w*"), UpdateStrategy: strategy(workv1.UpdateStrategyTypeCreateOnly),
			ConditionRules: []workv1.ConditionRule{rule("A", "second"), rule("B", "")}},
		{ResourceIdentifier: id("*", "*"), UpdateStrategy: strategy(workv1.UpdateStrategyTypeReadOnly), FeedbackRules: paths},
		{ResourceIdentifier: workv1.ResourceIdentifier{Group: "apps", Resource: "configmaps", Namespace: "*", Name: "*"},
			UpdateStrategy: strategy("another group")},
	}
	for _, tt := range []struct {
		id   workv1.ResourceIdentifier
		want manifest.Config
	}{
		{id("n", "web"), manifest.Config{UpdateStrategy: options[1].UpdateStrategy,
			FeedbackRules: append(known[:1:1], paths...), Poll: true,
			ConditionRules: []workv1.ConditionRule{rule("A", "first"), rule("B", "")}}},
		{id("n", "other"), manifest.Config{UpdateStrategy: options[2].UpdateStrategy, FeedbackRules: paths, Poll: true}},
		{workv1.ResourceIdentifier{Resource: "secrets", Namespace: "n", Name: "web"}, manifest.Config{}},
	} {
		if diff := cmp.Diff(tt.want, configFor(options, tt.id)); diff != "" {
			t.Errorf("%+v: %s", tt.id, diff)
		}
	}
	complete := []workv1.ManifestConfigOption{{ResourceIdentifier: id("n", "web"),
		ConditionRules: []workv1.ConditionRule{{Type: workv1.WellKnownConditionsType}}}}
	if c := configFor(complete, id("n", "web")); len(c.ConditionRules) != 1 ||
		c.ConditionRules[0].Condition != workv1.ManifestComplete || complete[0].ConditionRules[0].Condition != "" {
		t.Errorf("a well-known rule without a condition is for Complete: %+v", c.ConditionRules)
	}
	if c := configFor(options[:1], id("n", "web")); c.Poll {
		t.Error("what is watched is not polled")
	}
	if c := configFor([]workv1.ManifestConfigOption{{ResourceIdentifier: id("n", "[")}},
		id("n", "[")); c.UpdateStrategy != nil {
		t.Error("a name that is no pattern is itself")
	}
}
