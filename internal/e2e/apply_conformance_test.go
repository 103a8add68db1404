// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"
)

const head = "apiVersion: work.open-cluster-management.io/v1\nkind: ManifestWork\n"

// call is a request of a script.
type call = func(context.Context, works) (*workv1.ManifestWork, error)

// applies sends a configuration; the option functions change the request.
func applies(name, manager, body string, edits ...func(*metav1.PatchOptions, *[]string)) call {
	return func(ctx context.Context, w works) (*workv1.ManifestWork, error) {
		options, sub := metav1.PatchOptions{FieldManager: manager}, []string{}
		for _, edit := range edits {
			edit(&options, &sub)
		}
		return w.Patch(ctx, name, types.ApplyPatchType, []byte(body), options, sub...)
	}
}

func force(o *metav1.PatchOptions, _ *[]string)  { o.Force = ptr.To(true) }
func dryRun(o *metav1.PatchOptions, _ *[]string) { o.DryRun = []string{metav1.DryRunAll} }
func strict(o *metav1.PatchOptions, _ *[]string) { o.FieldValidation = metav1.FieldValidationStrict }
func status(_ *metav1.PatchOptions, s *[]string) { *s = []string{"status"} }

func patches(name string, pt types.PatchType, body string, edits ...func(*metav1.PatchOptions, *[]string)) call {
	return func(ctx context.Context, w works) (*workv1.ManifestWork, error) {
		options, sub := metav1.PatchOptions{}, []string{}
		for _, edit := range edits {
			edit(&options, &sub)
		}
		return w.Patch(ctx, name, pt, []byte(body), options, sub...)
	}
}

func gets(name string) call {
	return func(ctx context.Context, w works) (*workv1.ManifestWork, error) {
		return w.Get(ctx, name, metav1.GetOptions{})
	}
}

func updates(name, manager string, edit func(*workv1.ManifestWork)) call {
	return func(ctx context.Context, w works) (*workv1.ManifestWork, error) {
		obj, err := w.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		edit(obj)
		return w.Update(ctx, obj, metav1.UpdateOptions{FieldManager: manager})
	}
}

const configMap = `
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, data: {b: "1", a: "2"}}`

func appConfig(rest string) string { return head + "metadata: {name: app}\nspec:\n" + rest }

// TestApplyConformance runs one script of server-side applies against a real API server, and against a source
// and an agent.
func TestApplyConformance(t *testing.T) {
	conform(t, slices.Concat(hubApplies(), typedApplies(), badApplies(), agentApplies()))
}

// typedApplies returns the steps on an object that was created without an apply.
func typedApplies() []step {
	typed := func(rest string) string { return head + "metadata: {name: typed}\nspec:\n" + rest }
	before := map[string]string{
		"managers": "managedFields begin with the first apply, and with before-first-apply",
		"causes":   "managedFields begin with the first apply, and with before-first-apply",
	}
	return []step{
		{name: "created by a typed client", reason: "to apply to", call: creates("typed", func(w *workv1.ManifestWork) {
			w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
		}), differs: before},
		{name: "update before the first apply", reason: "is not tracked",
			call: updates("typed", "x", func(w *workv1.ManifestWork) {
				w.Labels = map[string]string{"a": "b"}
			}), differs: before},
		{name: "first apply, conflict", reason: "the existing object has an owner",
			call: applies("typed", "one", typed("  deleteOption: {propagationPolicy: Foreground}\n")), differs: before},
		{name: "first apply", reason: "the same value has two owners",
			call: applies("typed", "one", typed("  deleteOption: {propagationPolicy: Orphan}\n")), differs: before},
		{name: "manifests in another order of members", reason: "is no change, and no conflict", differs: before,
			call: applies("typed", "one",
				typed("  deleteOption: {propagationPolicy: Orphan}\n  workload: {manifests: [{kind: ConfigMap, metadata: {name: "+
					"typed}, apiVersion: v1}]}\n"))},
		{name: "by force", reason: "takes it from its owner", differs: before,
			call: applies("typed", "one", typed("  deleteOption: {propagationPolicy: Foreground}\n"), force)},
		{name: "given up", reason: "manifests stay with who created them", differs: before,
			call: applies("typed", "one", head+"metadata: {name: typed, labels: {a: b}}\nspec: {deleteOption: {}}\n")},
	}
}

// creates sends an object with one ConfigMap.
func creates(name string, edit func(*workv1.ManifestWork)) call {
	return func(ctx context.Context, w works) (*workv1.ManifestWork, error) {
		obj := &workv1.ManifestWork{}
		obj.Name = name
		obj.Spec.Workload.Manifests = []workv1.Manifest{
			manifest(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"typed"}}`),
		}
		edit(obj)
		return w.Create(ctx, obj, metav1.CreateOptions{})
	}
}

func manifest(raw string) workv1.Manifest {
	return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(raw)}}
}

func hubApplies() []step {
	config := func(rule string) string {
		return head + "metadata: {name: configs}\nspec:\n" +
			("  manifestConfigs:\n  - resourceIdentifier: {resource: configmaps, name: a}\n" + rule)
	}
	return []step{
		{name: "dry run of a create", reason: "nothing is stored",
			call: applies("app", "one", appConfig("  workload:\n    manifests:"+configMap), dryRun)},
		{name: "not stored", reason: "the dry run left nothing", call: gets("app")},
		{name: "create", reason: "apply creates",
			call: applies("app", "one", appConfig("  deleteOption: {}\n  workload:\n    manifests:"+configMap))},
		{name: "again", reason: "the same is no change",
			call: applies("app", "one", appConfig("  deleteOption: {}\n  workload:\n    manifests:"+configMap))},
		{name: "labels of another", reason: "maps merge by key",
			call: applies("app", "two", head+"metadata: {name: app, labels: {two: x}, annotations: {a: b}}\n")},
		{name: "conflict on a list", reason: "manifests are atomic",
			call: applies("app", "two", appConfig("  workload:\n    manifests: []\n"))},
		{name: "two conflicts", reason: "each has its cause", call: applies("app", "two",
			appConfig("  deleteOption: {propagationPolicy: Orphan}\n  workload: {manifests: []}\n"))},
		{name: "same value, two owners", reason: "no conflict",
			call: applies("app", "two", appConfig("  deleteOption: {propagationPolicy: Foreground}\n"))},
		{name: "force", reason: "takes the field",
			call: applies("app", "two", appConfig("  deleteOption: {propagationPolicy: Orphan}\n"), force)},
		{name: "label gone", reason: "what a manager no longer applies goes", call: gets("app")},
		{name: "configs", reason: "defaults in list items", call: applies("configs", "three", config(
			"    updateStrategy: {serverSideApply: {ignoreFields: [{condition: OnSpokePresent, jsonPaths: [.a]}]}}\n    "+
				"conditionRules: [{type: CEL, condition: A, celExpressions: ['true']}]\n"))},
		{name: "configs of another", reason: "a list without keys has one owner", call: applies("configs", "four", config(
			"    conditionRules: [{type: WellKnownConditions, condition: B}]\n"))},
		{name: "configs of another by force", reason: "the list is replaced", call: applies("configs", "four", config(
			"    conditionRules: [{type: WellKnownConditions, condition: B}]\n"), force)},
		{name: "finalizers", reason: "a set",
			call: applies("app", "five", head+"metadata: {name: app, finalizers: [example.com/five]}\n")},
		{name: "finalizers of another", reason: "a set merges",
			call: applies("app", "six", head+"metadata: {name: app, finalizers: [example.com/six]}\n")},
		{name: "owners", reason: "a list with a key",
			call: applies("app", "six",
				head+"metadata: {name: app, finalizers: [example.com/six], ownerReferences: [{apiVersion: v1, kind: Secret, "+
					"name: a, uid: u1}]}\n")},
		{name: "finalizers away", reason: "a re-apply removes its own",
			call: applies("app", "six", head+"metadata: {name: app}\n")},
		{name: "update by another", reason: "updates are tracked",
			call: updates("app", "seven", func(w *workv1.ManifestWork) {
				w.Labels = map[string]string{"seven": "x"}
				w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeForeground}
			})},
		{name: "apply against the update", reason: "conflict with an update",
			call: applies("app", "two", appConfig("  deleteOption: {propagationPolicy: Orphan}\n"))},
		{name: "update without a manager", reason: "the program's name",
			call: updates("app", "", func(w *workv1.ManifestWork) {
				w.Annotations = map[string]string{"x": "y"}
			})},
		{name: "merge patch", reason: "patches are tracked",
			call: patches("app", types.MergePatchType, `{"metadata":{"labels":{"eight":"x"}}}`)},
		{name: "JSON patch", reason: "patches are tracked",
			call: patches("app", types.JSONPatchType, `[{"op":"add","path":"/metadata/labels/nine","value":"x"}]`)},
		{name: "manifests by update", reason: "an atomic list changes hands",
			call: updates("app", "seven", func(w *workv1.ManifestWork) {
				w.Spec.Workload.Manifests = nil
			})},
		{name: "managedFields away", reason: "an empty entry resets them",
			call: patches("app", types.MergePatchType, `{"metadata":{"managedFields":[{}]}}`)},
		{name: "apply after that", reason: "the old value is of before-first-apply",
			call: applies("app", "two", appConfig("  deleteOption: {propagationPolicy: Orphan}\n"))},
		{name: "apply after that by force", reason: "and can be taken",
			call: applies("app", "two", appConfig("  deleteOption: {propagationPolicy: Orphan}\n"), force)},
		{name: "nothing applied", reason: "an empty configuration gives all up",
			call: applies("app", "two", head+"metadata: {name: app}\n")},
		{name: "JSON patch of a removal", reason: "tracked as well",
			call: patches("app", types.JSONPatchType, `[{"op":"remove","path":"/spec/deleteOption"}]`)},
		{name: "nothing applied, again", reason: "nothing is left to give up",
			call: applies("app", "two", head+"metadata: {name: app}\n")},
		{name: "status is not the hub's", reason: "ignored",
			call: applies("app", "two", head+"metadata: {name: app}\nstatus: {conditions: []}\n")},
		{name: "JSON", reason: "is YAML",
			call: applies("app", "two",
				`{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"name":"app","labels":{"json":"x"}}}`)},
	}
}

func badApplies() []step {
	named := head + "metadata: {name: app}\n"
	return []step{
		{name: "no manager", reason: "required", call: applies("app", "", named)},
		{name: "bad manager", reason: "printable", call: applies("app", "a\tb", named)},
		{name: "bad field validation", reason: "one of three",
			call: applies("app", "one", named, func(o *metav1.PatchOptions, _ *[]string) { o.FieldValidation = "No" })},
		{name: "bad dry run", reason: "All",
			call: applies("app", "one", named, func(o *metav1.PatchOptions, _ *[]string) { o.DryRun = []string{"Some"} })},
		{name: "force of a merge patch", reason: "is for apply", call: patches("app", types.MergePatchType, `{}`, force)},
		{name: "no YAML", reason: "malformed", call: applies("app", "one", "{")},
		{name: "no object", reason: "malformed", call: applies("app", "one", "- a\n")},
		{name: "empty", reason: "malformed", call: applies("app", "one", "")},
		{name: "no kind", reason: "required", call: applies("app", "one", "metadata: {name: app}\n")},
		{name: "other kind", reason: "must match",
			call: applies("app", "one", "apiVersion: v1\nkind: Secret\nmetadata: {name: app}\n")},
		{name: "other version", reason: "must match", call: applies("app", "one",
			"apiVersion: work.open-cluster-management.io/v2\nkind: ManifestWork\nmetadata: {name: app}\n")},
		{name: "other name", reason: "must match", call: applies("app", "one", head+"metadata: {name: other}\n")},
		{name: "no name", reason: "on an object that is there",
			call: applies("app", "one", head+"metadata: {labels: {a: b}}\n")},
		{name: "no name of a new one", reason: "must be there",
			call: applies("new", "one", head+"metadata: {labels: {a: b}}\n")},
		{name: "other namespace", reason: "must match",
			call: applies("app", "one", head+"metadata: {name: app, namespace: other}\n")},
		{name: "same namespace", reason: "may be there",
			call: applies("app", "one", head+"metadata: {name: app, namespace: $namespace, labels: {a: b}}\n")},
		{name: "stale", reason: "the resourceVersion is a precondition",
			call: applies("app", "one", head+"metadata: {name: app, resourceVersion: '1'}\n")},
		{name: "other uid", reason: "the uid is a precondition",
			call: applies("app", "one", head+"metadata: {name: app, uid: other}\n")},
		{name: "uid of a new one", reason: "there is none to match",
			call: applies("new", "one", head+"metadata: {name: new, uid: other}\n")},
		{name: "version of a new one", reason: "there is none to match",
			call: applies("new", "one", head+"metadata: {name: new, resourceVersion: '1'}\n")},
		{name: "managedFields", reason: "are the server's",
			call: applies("app", "one", head+"metadata: {name: app, managedFields: [{manager: x}]}\n")},
		{name: "unknown field", reason: "not in the schema", call: applies("app", "one", appConfig("  nonsense: 1\n"))},
		{name: "unknown metadata", reason: "not in the schema",
			call: applies("app", "one", head+"metadata: {name: app, nonsense: 1}\n")},
		{name: "wrong type", reason: "not in the schema", call: applies("app", "one", appConfig("  workload: 7\n"))},
		{name: "wrong type of a label", reason: "not in the schema",
			call: applies("app", "one", head+"metadata: {name: app, labels: {a: 1}}\n")},
		{name: "wrong type in a manifest", reason: "embedded objects have metadata",
			call: applies("app", "one", appConfig("  workload: {manifests: [{apiVersion: v1, kind: A, metadata: 5}]}\n"))},
		{name: "the same key twice", reason: "a map has it once", call: applies("app", "one", appConfig(
			"  manifestConfigs:\n  - resourceIdentifier: {resource: a, name: a}\n    conditionRules: [{type: CEL, condition: "+
				"A}, {type: CEL, condition: A}]\n"))},
		{name: "a key missing", reason: "items have their key", call: applies("app", "one", appConfig(
			"  manifestConfigs:\n  - resourceIdentifier: {resource: a, name: a}\n    conditionRules: [{type: CEL}]\n"))},
		{name: "invalid", reason: "the schema's constraints",
			call: applies("app", "one",
				appConfig("  deleteOption: {propagationPolicy: Never}\n  executor: {subject: {type: ServiceAccount, "+
					"serviceAccount: {name: A, namespace: ''}}}\n"))},
		{name: "invalid and new", reason: "the same for a create",
			call: applies("new", "one", head+"metadata: {name: new}\nspec: {deleteOption: {propagationPolicy: Never}}\n")},
		{name: "bad name of a new one", reason: "no subdomain", call: applies("New", "one", head+"metadata: {name: New}\n")},
		{name: "bad label", reason: "not a label",
			call: applies("app", "one", head+"metadata: {name: app, labels: {a: '-'}}\n")},
		{name: "member twice", reason: "the last counts",
			call: applies("app", "one", head+"metadata: {name: app, labels: {a: b}, labels: {c: d}}\n")},
		{name: "member twice, strictly", reason: "is an error",
			call: applies("app", "one", head+"metadata: {name: app, labels: {a: b}, labels: {c: d}}\n", strict)},
		{name: "after all that", reason: "nothing was stored by errors", call: gets("app")},
	}
}
