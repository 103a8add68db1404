// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// writes covers create, update, patches and delete with the helpers of controller-runtime.
func (r *clientRun) writes() {
	ctx, c := r.Context(), r.client
	w := r.work("a")
	r.outcome("create", c.Create(ctx, w))
	r.show("created", w)
	r.outcome("create again", c.Create(ctx, r.work("a")))
	generated := r.work("")
	generated.GenerateName = "generated-"
	r.outcome("create with generateName", c.Create(ctx, generated))
	r.log("generated a name of %d characters", len(generated.Name))

	set := func(w *workv1.ManifestWork, value string) controllerutil.MutateFn {
		return func() error { metav1.SetMetaDataLabel(&w.ObjectMeta, "step", value); return nil }
	}
	for _, value := range []string{"1", "1", "2"} {
		w := r.work("a")
		result, err := controllerutil.CreateOrPatch(ctx, c, w, set(w, value))
		r.outcome("CreateOrPatch "+string(result), err)
		r.show("patched", w)
	}
	for _, name := range []string{"a", "a", "b"} {
		w := r.work(name)
		result, err := controllerutil.CreateOrUpdate(ctx, c, w, set(w, "3"))
		r.outcome("CreateOrUpdate "+string(result), err)
	}

	stale := r.live("a")
	r.log("added finalizer: %v", controllerutil.AddFinalizer(w, "example.com/keep"))
	r.outcome("update of an old version", c.Update(ctx, w))
	w = r.live("a")
	controllerutil.AddFinalizer(w, "example.com/keep")
	r.outcome("update with a finalizer", c.Update(ctx, w))
	r.show("updated", w)
	before := client.MergeFromWithOptions(stale.DeepCopy(), client.MergeFromWithOptimisticLock{})
	metav1.SetMetaDataAnnotation(&stale.ObjectMeta, "lock", "true")
	r.outcome("patch with optimistic lock", c.Patch(ctx, stale, before))
	before = client.MergeFromWithOptions(w.DeepCopy(), client.MergeFromWithOptimisticLock{})
	metav1.SetMetaDataAnnotation(&w.ObjectMeta, "lock", "true")
	r.outcome("patch with the current version", c.Patch(ctx, w, before))
	const lock = `"path":"/metadata/annotations/lock"`
	r.outcome("JSON patch", c.Patch(ctx, w, client.RawPatch(types.JSONPatchType,
		[]byte(`[{"op":"test",`+lock+`,"value":"true"},{"op":"remove",`+lock+`}]`))))
	r.outcome("JSON patch with a failing test", c.Patch(ctx, w, client.RawPatch(types.JSONPatchType,
		[]byte(`[{"op":"test","path":"/metadata/name","value":"b"}]`))))
	r.outcome("strategic merge patch", c.Patch(ctx, w, client.StrategicMergeFrom(w.DeepCopy())))
	r.show("patched", r.live("a"))

	wrong := types.UID("00000000-0000-0000-0000-000000000000")
	r.outcome("delete with another UID", c.Delete(ctx, r.work("a"), client.Preconditions{UID: &wrong}))
	r.outcome("delete with a finalizer", c.Delete(ctx, r.work("a"),
		client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w = r.live("a")
	r.log("deleted: %v generation %d", w.DeletionTimestamp != nil, w.Generation)
	r.outcome("delete of a missing work", c.Delete(ctx, r.work("c")))
	eventually(r.T, "the finalizer is removed", func() error { // the agent may end the deletion in between
		w := r.live("a")
		controllerutil.RemoveFinalizer(w, "example.com/keep")
		return c.Update(ctx, w)
	})
	r.dryRuns()
	r.deleteAllOf()
	r.clear()
}

// dryRuns covers requests that change nothing.
func (r *clientRun) dryRuns() {
	ctx, dry := r.Context(), client.NewDryRunClient(r.client)
	r.outcome("dry create", dry.Create(ctx, r.work("dry")))
	r.outcome("get after dry create", r.client.Get(ctx, client.ObjectKeyFromObject(r.work("dry")), r.work("dry")))
	w := r.live("b")
	before := client.MergeFrom(w.DeepCopy())
	w.Spec = spec(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"dry"}}`)
	r.outcome("dry patch", dry.Patch(ctx, w, before))
	r.show("dry patched", w)
	r.outcome("dry delete", r.client.Delete(ctx, r.work("b"), client.DryRunAll))
	r.outcome("dry deletion of all", r.client.DeleteAllOf(ctx, r.work(""), client.InNamespace(r.namespace),
		client.DryRunAll))
	r.outcome("dry update without a version", dry.Update(ctx, r.work("b")))
	r.show("live", r.live("b"))
}

// deleteAllOf covers the deletion of a collection.
func (r *clientRun) deleteAllOf() {
	ctx := r.Context()
	for i := range 6 {
		w := r.work(fmt.Sprint("all", i))
		w.Labels = map[string]string{"half": fmt.Sprint(i % 2)}
		r.must(r.client.Create(ctx, w))
	}
	deleteAll := func(what string, o ...client.DeleteAllOfOption) {
		r.outcome("delete "+what, r.client.DeleteAllOf(ctx, &workv1.ManifestWork{}, o...))
	}
	ns := client.InNamespace(r.namespace)
	deleteAll("half", ns, client.MatchingLabels{"half": "1"})
	deleteAll("one by field", ns, client.MatchingFields{"metadata.name": "all0"})
	deleteAll("by an unknown field", ns, client.MatchingFields{"spec.executor": "all0"})
	deleteAll("without namespace")
	var list workv1.ManifestWorkList
	eventually(r.T, "the deleted works are gone", func() error {
		if err := r.client.List(ctx, &list, client.InNamespace(r.namespace), client.HasLabels{"half"}); err != nil {
			return err
		}
		if got := names(list.Items); got != "all2 all4" {
			return fmt.Errorf("left are %s", got)
		}
		return nil
	})
}

// validation covers field validation, its wrapper and its warnings.
func (r *clientRun) validation() {
	ctx := r.Context()
	unknown := func(name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": r.namespace, "name": name},
			"spec": map[string]any{
				"speck": true, "workload": map[string]any{"deeper": map[string]any{"x": int64(1)}, "manifests": []any{
					map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "a"}},
				}},
			},
		}}
		u.SetGroupVersionKind(worksVersion.WithKind("ManifestWork"))
		return u
	}
	strict := client.WithFieldValidation(r.client, metav1.FieldValidationStrict)
	r.outcome("strict create", strict.Create(ctx, unknown("strict")))
	warn := client.WithFieldValidation(r.client, metav1.FieldValidationWarn)
	u := unknown("warn")
	r.outcome("create with warnings", warn.Create(ctx, u))
	r.show("created", u)
	ignore := client.WithFieldValidation(r.client, metav1.FieldValidationIgnore)
	r.outcome("create without warnings", ignore.Create(ctx, unknown("ignore")))
	patch := client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"unknown":1},"metadata":{"labels":{"a":"b"},"more":1}}`))
	r.outcome("strict patch", strict.Patch(ctx, r.work("warn"), patch))
	r.outcome("patch with warnings", warn.Patch(ctx, r.work("warn"), patch))
	r.outcome("default patch", r.client.Patch(ctx, r.work("ignore"), patch))
	u = unknown("warn")
	u.SetResourceVersion(r.live("warn").ResourceVersion)
	r.outcome("strict update", strict.Update(ctx, u))
	r.outcome("wrong value", r.client.Create(ctx, unknown("ignore"), client.FieldValidation("Never")))
	invalid := unknown("invalid")
	_ = unstructured.SetNestedField(invalid.Object, "Never", "spec", "deleteOption", "propagationPolicy")
	r.outcome("invalid create", r.client.Create(ctx, invalid))
	wrongType := unknown("type")
	_ = unstructured.SetNestedField(wrongType.Object, "text", "spec", "workload")
	r.outcome("create with a wrong type", r.client.Create(ctx, wrongType))
	wrongName := r.work("Upper_Case")
	r.outcome("create with a wrong name", r.client.Create(ctx, wrongName))

	owned := client.WithFieldOwner(r.client, "owner-wrapper")
	w := r.live("warn")
	before := client.MergeFrom(w.DeepCopy())
	w.Labels = map[string]string{"owned": "true"}
	r.outcome("patch with a field owner", owned.Patch(ctx, w, before))
	r.show("owned", w)
	r.clear()
}

// workApply is a typed apply configuration, as generators write them.
type workApply struct {
	metav1ac.TypeMetaApplyConfiguration    `json:",inline"`
	*metav1ac.ObjectMetaApplyConfiguration `json:"metadata,omitempty"`
	Spec                                   *workv1.ManifestWorkSpec `json:"spec,omitempty"`
}

func (workApply) IsApplyConfiguration() {}

// GetName returns the name, for the client.
func (w workApply) GetName() *string { return w.ObjectMetaApplyConfiguration.Name }

// GetNamespace returns the namespace, for the client.
func (w workApply) GetNamespace() *string { return w.Namespace }

// GetKind returns the kind, for the client.
func (w workApply) GetKind() *string { return w.Kind }

// GetAPIVersion returns the version, for the client.
func (w workApply) GetAPIVersion() *string { return w.APIVersion }

// apply covers server-side apply of controller-runtime.
func (r *clientRun) apply() {
	ctx := r.Context()
	config := func(label string) *workApply {
		s := spec(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`)
		return &workApply{
			*metav1ac.TypeMeta().WithAPIVersion("work.open-cluster-management.io/v1").WithKind("ManifestWork"),
			metav1ac.ObjectMeta().WithName("applied").WithNamespace(r.namespace).WithLabels(map[string]string{"by": label}), &s,
		}
	}
	first := config("first")
	r.outcome("apply", r.client.Apply(ctx, first, client.FieldOwner("first")))
	r.show("applied", r.live("applied"))
	text, err := json.Marshal(first.Labels)
	r.must(err)
	r.log("the configuration has labels %s and a UID: %v", text, first.UID != nil)
	r.outcome("apply again", r.client.Apply(ctx, config("first"), client.FieldOwner("first")))
	conflict := r.client.Apply(ctx, config("second"), client.FieldOwner("second"))
	r.outcome("apply of another manager", conflict)
	if status := apierrors.APIStatus(nil); errors.As(conflict, &status) {
		for _, cause := range status.Status().Details.Causes {
			r.log("cause %s %s %s", cause.Type, cause.Field, cause.Message)
		}
	}
	r.outcome("forced apply", r.client.Apply(ctx, config("second"), client.FieldOwner("second"), client.ForceOwnership))
	r.outcome("apply without an owner", r.client.Apply(ctx, config("third")))
	r.show("applied", r.live("applied"))
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"unknown": true}}}
	u.SetGroupVersionKind(worksVersion.WithKind("ManifestWork"))
	u.SetNamespace(r.namespace)
	u.SetName("unstructured")
	r.outcome("apply with an unknown field",
		r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("first")))
	delete(u.Object, "spec")
	dry := client.NewDryRunClient(r.client)
	r.outcome("dry apply", dry.Apply(ctx, client.ApplyConfigurationFromUnstructured(u.DeepCopy()),
		client.FieldOwner("first")))
	r.outcome("unstructured apply", r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u),
		client.FieldOwner("first")))
	r.show("applied", u)
	less := config("second")
	less.Labels = nil
	r.outcome("apply without the label", r.client.Apply(ctx, less, client.FieldOwner("second")))
	r.show("applied", r.live("applied"))
	r.clear()
}

// status covers writes of the status by the agent, and its arrival at the hub.
func (r *clientRun) status() {
	ctx := r.Context()
	r.must(r.client.Create(ctx, r.work("a")))
	c, err := client.NewWithWatch(r.agent, client.Options{Scheme: worksScheme})
	r.must(err)
	w := r.work("a")
	eventually(r.T, "the work arrives", func() error { return c.Get(ctx, client.ObjectKeyFromObject(w), w) })
	set := func(reason string, generation int64) {
		meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
			Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: reason, ObservedGeneration: generation,
		})
	}
	arrives := func(reason string) {
		r.Helper()
		eventually(r.T, reason+" arrives", func() error {
			c := meta.FindStatusCondition(r.live("a").Status.Conditions, workv1.WorkApplied)
			if c == nil || c.Reason != reason {
				return fmt.Errorf("the condition is %v", c)
			}
			return nil
		})
		hub := r.live("a")
		hub.ManagedFields = nil
		r.show("at the hub", hub)
	}
	set("Updated", w.Generation)
	w.Labels = map[string]string{"ignored": "true"}
	r.outcome("status update", c.Status().Update(ctx, w))
	shown := w.DeepCopy()
	shown.ManagedFields = nil // each side has its own
	r.show("updated", shown)
	arrives("Updated")
	stale := w.DeepCopy()
	before := client.MergeFromWithOptions(w.DeepCopy(), client.MergeFromWithOptimisticLock{})
	set("Patched", w.Generation)
	r.outcome("status patch", c.Status().Patch(ctx, w, before))
	arrives("Patched")
	r.outcome("status update of an old version", c.Status().Update(ctx, stale))
	r.outcome("invalid status", c.Status().Patch(ctx, w.DeepCopy(), client.RawPatch(types.MergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"A","status":"True","message":"","reason":"A"}]}}`))))
	part := &workv1.ManifestWork{}
	r.outcome("get of the status", c.SubResource("status").Get(ctx, w, part))
	part.ManagedFields = nil
	r.show("status", part)
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": "Extra", "status": "True", "reason": "Applied", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z",
	}}}}}
	u.SetGroupVersionKind(worksVersion.WithKind("ManifestWork"))
	u.SetNamespace(r.namespace)
	u.SetName("a")
	r.outcome("status apply", c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u),
		client.FieldOwner("extra")))
	r.must(c.Get(ctx, client.ObjectKeyFromObject(w), w))
	r.log("conditions: %d", len(w.Status.Conditions))
	r.outcome("scale", c.SubResource("scale").Get(ctx, w, part))
	eventually(r.T, "the applied condition arrives", func() error {
		if n := len(r.live("a").Status.Conditions); n != 2 {
			return fmt.Errorf("%d conditions", n)
		}
		return nil
	})
	r.clear()
}
