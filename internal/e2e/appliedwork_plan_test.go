// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// deploymentOf returns a Deployment with a container and its variables.
func deploymentOf(namespace, name, image string, variables ...string) *unstructured.Unstructured {
	var env []any
	for _, v := range variables {
		env = append(env, map[string]any{"name": v, "value": "of " + v})
	}
	labels := map[string]any{"app": name}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec": map[string]any{
			"replicas": int64(0), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
				"containers": []any{map[string]any{"name": "web", "image": image, "env": env}},
			}},
		},
	}}
}

func secretOf(namespace, name, value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": namespace, "name": name},
		"stringData": map[string]any{"password": value},
	}}
}

// predictable returns the content of an object that a dry run can predict.
func predictable(obj *unstructured.Unstructured) map[string]any {
	obj = obj.DeepCopy()
	for _, field := range []string{"managedFields", "uid", "resourceVersion", "generation", "creationTimestamp"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	return obj.Object
}

// checkPlan: Plan writes nothing, and predicts the result of the following apply.
func checkPlan(t *testing.T, g *ground) {
	g.create(namespaceOf("dry"))
	x := g.plain(nil)
	work := x.ensure(t, "dry")
	const ns = "dry"
	merge := func(obj *unstructured.Unstructured, patch string) {
		t.Helper()
		if _, err := g.at(obj).Patch(t.Context(), obj.GetName(), "application/merge-patch+json", []byte(patch),
			metav1.PatchOptions{FieldManager: "someone"}); err != nil {
			t.Fatal(err)
		}
	}
	labeled := configMapOf(ns, "a", "1")
	labeled.SetLabels(map[string]string{"one": "1", "two": "2"})
	immutable := func(value string) *unstructured.Unstructured {
		obj := configMapOf(ns, "immutable", value)
		obj.Object["immutable"] = true
		return obj
	}
	contested := configMapOf(ns, "a", "ours")
	contested.Object["data"].(map[string]any)["more"] = "1"
	kept := configMapOf(ns, "a", "other manager")
	for _, step := range []struct {
		name    string
		before  func()
		objects []*unstructured.Unstructured
		opts    appliedwork.ApplyOptions
		want    string   // of the dry run
		fields  []string // of its first change
		failed  bool
	}{
		{name: "create", objects: objects(labeled, deploymentOf(ns, "web", "a:1", "A", "B"), secretOf(ns, "s", "tiger"),
			immutable("1")), want: "4 created"},
		{name: "unchanged", objects: objects(labeled, deploymentOf(ns, "web", "a:1", "A", "B")), want: "2 unchanged"},
		{name: "fields that go after a create", objects: objects(configMapOf(ns, "a", "2")), want: "1 configured",
			fields: []string{
				`.data.value: 1 -> 2`, `.metadata.labels: map[one:1 two:2] -> <nil>`,
			}},
		{name: "items that go after a create", objects: objects(deploymentOf(ns, "web", "a:2", "B", "C")),
			want: "1 configured", fields: []string{
				`.spec.template.spec.containers[name="web"].env[name="A"]: map[name:A value:of A] -> <nil>`,
				`.spec.template.spec.containers[name="web"].env[name="C"]: <nil> -> map[name:C value:of C]`,
				`.spec.template.spec.containers[name="web"].image: a:1 -> a:2`,
			}},
		{name: "after an apply", objects: objects(deploymentOf(ns, "web", "a:2", "C")), want: "1 configured",
			fields: []string{
				`.spec.template.spec.containers[name="web"].env[name="B"]: map[name:B value:of B] -> <nil>`,
			}},
		{name: "a secret", objects: objects(secretOf(ns, "s", "lion")), want: "1 configured",
			fields: []string{`.data.password: (redacted) -> (redacted)`}},
		{name: "another manager", objects: objects(kept), opts: appliedwork.ApplyOptions{FieldManager: "other"},
			want: "1 configured", fields: []string{`.data.value: 2 -> other manager`}},
		{name: "a conflict", before: func() { merge(kept, `{"data":{"value":"theirs"}}`) }, objects: objects(contested),
			want: "1 failed", failed: true, fields: []string{
				`.data.more: <nil> -> 1`,
			}},
		{name: "with force", objects: objects(contested), opts: appliedwork.ApplyOptions{Force: true}, want: "1 configured",
			fields: []string{`.data.value: theirs -> ours`}},
		{name: "a secret of a user", before: func() { g.create(secretOf(ns, "users", "u")) },
			objects: objects(secretOf(ns, "users", "o")), want: "1 failed", failed: true},
		{name: "adoption", objects: objects(secretOf(ns, "users", "o")),
			opts: appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionIfUnowned, Force: true,
				Policies: appliedwork.Policies{Adopted: appliedwork.PolicyDelete}}, want: "1 adopted"},
		{name: "recreate", objects: objects(immutable("2")), opts: appliedwork.ApplyOptions{Recreate: true},
			want: "1 created"},
		{name: "a new namespace", objects: objects(namespaceOf("dry-new"), configMapOf("dry-new", "a", "1")),
			want: "1 created, 1 pending"},
		{name: "invalid", objects: objects(configMapOf(ns, "NOT", "1")), want: "1 failed", failed: true},
	} {
		if step.before != nil {
			step.before()
		}
		state := func() []string {
			var out []string
			for _, obj := range step.objects {
				if live := g.get(obj); live != nil {
					out = append(out, live.GetName()+" "+live.GetResourceVersion())
				} else {
					out = append(out, obj.GetName()+" absent")
				}
			}
			record, err := g.admin.Resource(v1alpha1.GroupVersion.WithResource("appliedworks")).Get(t.Context(), work.Name,
				metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return append(out, record.GetResourceVersion())
		}
		before := state()
		dry, err := x.applier.Plan(t.Context(), work, step.objects, step.opts)
		if (err != nil) != step.failed || dry.String() != step.want {
			t.Errorf("%s: %s, %v, want %s", step.name, dry, err, step.want)
		}
		if diff := cmp.Diff(before, state()); diff != "" {
			t.Errorf("%s: the dry run wrote (-before +after):\n%s", step.name, diff)
		}
		var fields []string
		for _, f := range dry.Entries[0].Fields {
			fields = append(fields, f.String())
		}
		if step.fields != nil && !slices.Equal(fields, step.fields) {
			t.Errorf("%s: the fields are\n%s", step.name, strings.Join(fields, "\n"))
		}
		if text := fmt.Sprint(fields); strings.Contains(text, "bGlvb") || strings.Contains(text, "dGlnZXI") ||
			strings.Contains(text, "lion") {
			t.Errorf("%s: the fields have values of a Secret", step.name)
		}
		done, _ := x.applier.Apply(t.Context(), work, step.objects, step.opts)
		for i, c := range done.Entries {
			said := dry.Entries[i]
			if said.Action != c.Action && said.Action != appliedwork.ActionPending {
				t.Errorf("%s: %s was %s, and the dry run said %s", step.name, c.Key, c.Action, said.Action)
			}
			if said.Live != nil && c.Live != nil {
				if diff := cmp.Diff(predictable(c.Live), predictable(said.Live)); diff != "" {
					t.Errorf("%s: what the dry run said of %s (-is +said):\n%s", step.name, c.Key, diff)
				}
			}
		}
	}
}
