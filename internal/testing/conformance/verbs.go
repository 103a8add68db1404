// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
)

// hubStatus writes the status on the hub.
func hubStatus(r *Recorder) {
	out, err := r.hub().Create(r.ctx, simple("app", "1"), metav1.CreateOptions{})
	app := r.object("create", out, err)
	r.Settle()
	out, err = r.hub().UpdateStatus(r.ctx, with(app.DeepCopy(), func(w *workv1.ManifestWork) {
		w.Status.Conditions = []metav1.Condition{applied("one")}
	}), metav1.UpdateOptions{})
	r.object("update", out, err)
	out, err = r.hub().UpdateStatus(r.ctx, with(app.DeepCopy(), func(w *workv1.ManifestWork) { w.Name = "none" }),
		metav1.UpdateOptions{})
	r.object("update of nothing", out, err)
	data := map[types.PatchType]string{
		types.MergePatchType:          `{"status":{"conditions":[]}}`,
		types.JSONPatchType:           `[{"op":"add","path":"/status","value":{}}]`,
		types.ApplyPatchType:          applyHead + `"metadata":{"name":"app"},"status":{}}`,
		types.StrategicMergePatchType: `{"status":{"conditions":[]}}`,
	}
	for _, pt := range fourTypes {
		o := metav1.PatchOptions{}
		if pt == types.ApplyPatchType {
			o.FieldManager = "m"
		}
		out, err = r.hub().Patch(r.ctx, "app", pt, []byte(data[pt]), o, "status")
		r.object(string(pt), out, err)
	}
	r.Settle()
	out, err = r.hub().Get(r.ctx, "app", metav1.GetOptions{})
	r.object("then", out, err)
}

var fourTypes = []types.PatchType{types.MergePatchType, types.JSONPatchType, types.ApplyPatchType,
	types.StrategicMergePatchType}

// spokeWrites makes writes on the spoke that only the hub may make.
func spokeWrites(r *Recorder) {
	out, err := r.hub().Create(r.ctx, simple("app", "1"), metav1.CreateOptions{})
	r.object("create on the hub", out, err)
	r.Settle()
	none := metav1.DeleteOptions{}
	out, err = r.spoke().Create(r.ctx, simple("other", "1"), metav1.CreateOptions{})
	r.object("create", out, err)
	out, err = r.spoke().Create(r.ctx, simple("app", "1"), metav1.CreateOptions{})
	r.object("create of what exists", out, err)
	out, err = r.spoke().Create(r.ctx, simple("dry", "1"), metav1.CreateOptions{DryRun: all})
	r.object("create, dry run", out, err)
	out, err = r.spoke().Patch(r.ctx, "applied", types.ApplyPatchType, []byte(applyHead+`"metadata":{"name":"applied"}}`),
		metav1.PatchOptions{FieldManager: "m"})
	r.object("create by apply", out, err)
	r.err("delete", r.spoke().Delete(r.ctx, "app", metav1.DeleteOptions{DryRun: all}))
	r.err("delete of nothing", r.spoke().Delete(r.ctx, "none", none))
	r.err("collection", r.spoke().DeleteCollection(r.ctx, none, metav1.ListOptions{LabelSelector: "a=b"}))
	spokeUpdates(r)
	r.onHub("on the hub")
}

// spokeUpdates tries to change the hub's fields from the spoke. They must stay the same.
func spokeUpdates(r *Recorder) {
	update := func(label string, edit func(*workv1.ManifestWork)) {
		w, err := r.spoke().Get(r.ctx, "app", metav1.GetOptions{})
		if err != nil {
			r.err(label, err)
			return
		}
		out, err := r.spoke().Update(r.ctx, with(w, edit), metav1.UpdateOptions{DryRun: all})
		r.object(label, out, err)
	}
	update("update of the spec", func(w *workv1.ManifestWork) { w.Spec = simple("app", "2").Spec })
	update("update of the spec and a label", func(w *workv1.ManifestWork) {
		w.Spec, w.Labels = simple("app", "3").Spec, map[string]string{"a": "1"}
	})
	update("update of the owners", func(w *workv1.ManifestWork) {
		w.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: "1"}}
	})
	spec := `{"deleteOption":{"propagationPolicy":"Orphan"}}`
	patch := func(label string, pt types.PatchType, data string, o metav1.PatchOptions) {
		o.DryRun = all
		out, err := r.spoke().Patch(r.ctx, "app", pt, []byte(data), o)
		r.object(label, out, err)
	}
	patch("merge of the spec", types.MergePatchType, `{"spec":`+spec+`}`, metav1.PatchOptions{})
	patch("json of the spec", types.JSONPatchType,
		`[{"op":"replace","path":"/spec/workload/manifests/0/data/value","value":"4"}]`, metav1.PatchOptions{})
	patch("apply of the spec", types.ApplyPatchType,
		applyHead+`"metadata":{"name":"app"},"spec":{"deleteOption":{"propagationPolicy":"SelectivelyOrphan"}}}`,
		metav1.PatchOptions{FieldManager: "m", Force: &yes})
	r.Settle()
}

var yes = true

// spokeStatusPatches writes the status with each type of patch.
func spokeStatusPatches(r *Recorder) {
	_, err := r.hub().Create(r.ctx, simple("app", "1"), metav1.CreateOptions{})
	r.err("create", err)
	r.Settle()
	first := r.onSpoke("on the spoke")
	if first == nil {
		return
	}
	try := func(label string, pt types.PatchType, data string, o metav1.PatchOptions) {
		out, err := r.spoke().Patch(r.ctx, "app", pt, []byte(data), o, "status")
		r.object(label, out, err)
	}
	none, manager := metav1.PatchOptions{}, metav1.PatchOptions{FieldManager: "m"}
	condition := func(message string) string {
		data, _ := json.Marshal(applied(message)) // it always encodes
		return string(data)
	}
	try("json", types.JSONPatchType, `[{"op":"add","path":"/status","value":{"conditions":[`+condition("json")+`]}}]`,
		none)
	try("json test", types.JSONPatchType, `[{"op":"test","path":"/status/conditions/0/message","value":"json"}]`, none)
	try("json test fails", types.JSONPatchType, `[{"op":"test","path":"/status/conditions/0/message","value":"x"}]`, none)
	try("json of the spec", types.JSONPatchType,
		`[{"op":"replace","path":"/spec/workload","value":{}},{"op":"add","path":"/metadata/labels","value":{"a":"1"}}]`,
		none)
	try("json of a null", types.JSONPatchType, `[{"op":"replace","path":"/status","value":null}]`, none)
	try("json of a wrong type", types.JSONPatchType, `[{"op":"replace","path":"/status","value":7}]`, none)
	try("json of a stale version", types.JSONPatchType, `[{"op":"replace","path":"/metadata/resourceVersion","value":"`+
		first.ResourceVersion+`"},{"op":"replace","path":"/status","value":7}]`, none)
	try("merge", types.MergePatchType, `{"status":{"conditions":[`+condition("merge")+`]}}`, none)
	try("merge, stale and invalid", types.MergePatchType, `{"metadata":{"resourceVersion":"`+first.ResourceVersion+
		`"},"status":{"conditions":7}}`, none)
	try("merge, strict and unknown", types.MergePatchType, `{"status":{"nonsense":7}}`,
		metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
	try("merge of another name", types.MergePatchType, `{"metadata":{"name":"b"}}`, none)
	try("merge of another namespace", types.MergePatchType, `{"metadata":{"namespace":"b"}}`, none)
	try("merge of a bad label", types.MergePatchType, `{"metadata":{"labels":{"a b":"1"}},"status":{"conditions":[]}}`,
		none)
	try("merge of labels of a wrong type", types.MergePatchType, `{"metadata":{"labels":7}}`, none)
	try("apply", types.ApplyPatchType, applyHead+`"metadata":{"name":"app"},"status":{"conditions":[`+condition("apply")+
		`]}}`, manager)
	try("apply the same", types.ApplyPatchType, applyHead+`"metadata":{"name":"app"},"status":{"conditions":[`+
		condition("apply")+`]}}`, manager)
	try("apply of a spec by the way", types.ApplyPatchType,
		applyHead+`"metadata":{"name":"app","labels":{"a":"1"}},"spec":{"workload":{}},"status":{"conditions":[`+
			condition("apply")+`]}}`, manager)
	try("apply of a wrong type", types.ApplyPatchType, applyHead+`"metadata":{"name":"app"},"status":{"conditions":7}}`,
		manager)
	try("apply without a manager", types.ApplyPatchType, applyHead+`"metadata":{"name":"app"},"status":{}}`, none)
	try("apply nothing", types.ApplyPatchType, applyHead+`"metadata":{"name":"app"}}`,
		metav1.PatchOptions{FieldManager: "m", DryRun: all})
	try("strategic", types.StrategicMergePatchType, `{"status":{}}`, none)
	missing := func(label string, pt types.PatchType, data string, o metav1.PatchOptions) {
		out, err := r.spoke().Patch(r.ctx, "none", pt, []byte(data), o, "status")
		r.object(label, out, err)
	}
	missing("json of nothing", types.JSONPatchType, `[]`, none)
	missing("merge of what is missing", types.MergePatchType, `{}`, none)
	missing("apply of what is missing", types.ApplyPatchType, applyHead+`"metadata":{"name":"none"},"status":{}}`, manager)
	r.Settle()
	r.onHub("on the hub")
}

// spokeMetadataPatches writes the metadata that the spoke may write.
func spokeMetadataPatches(r *Recorder) {
	_, err := r.hub().Create(r.ctx, with(simple("app", "1"), func(w *workv1.ManifestWork) {
		w.Labels = map[string]string{"hub": "1", "both": "1"}
	}), metav1.CreateOptions{})
	r.err("create", err)
	r.Settle()
	first := r.onSpoke("on the spoke")
	if first == nil {
		return
	}
	try := func(label string, pt types.PatchType, data string, o metav1.PatchOptions) {
		out, err := r.spoke().Patch(r.ctx, "app", pt, []byte(data), o)
		r.object(label, out, err)
	}
	none, manager := metav1.PatchOptions{}, metav1.PatchOptions{FieldManager: "m"}
	try("merge", types.MergePatchType,
		`{"metadata":{"labels":{"a":"1"},"annotations":{"a":"1"},"finalizers":["example.com/x"]}}`, none)
	try("merge the same", types.MergePatchType, `{"metadata":{"labels":{"a":"1"}}}`, none)
	try("merge, dry run", types.MergePatchType, `{"metadata":{"labels":{"dry":"1"}}}`, metav1.PatchOptions{DryRun: all})
	try("merge, stale", types.MergePatchType, `{"metadata":{"resourceVersion":"`+first.ResourceVersion+
		`","labels":{"a":"2"}}}`, none)
	try("merge, stale and invalid", types.MergePatchType, `{"metadata":{"resourceVersion":"`+first.ResourceVersion+
		`","labels":{"a b":"2"}}}`, none)
	try("merge, another uid", types.MergePatchType, `{"metadata":{"uid":"other"}}`, none)
	try("merge, another name", types.MergePatchType, `{"metadata":{"name":"b"}}`, none)
	try("merge, a bad finalizer", types.MergePatchType, `{"metadata":{"finalizers":["a b"]}}`, none)
	try("merge of the status by the way", types.MergePatchType,
		`{"status":{"conditions":[]},"metadata":{"labels":{"a":"3"}}}`, none)
	try("json", types.JSONPatchType,
		`[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/y"},{"op":"remove","path":"/metadata/annotations/a"}]`, none)
	try("json of a missing path", types.JSONPatchType, `[{"op":"remove","path":"/metadata/annotations/none"}]`, none)
	try("json, stale", types.JSONPatchType, `[{"op":"replace","path":"/metadata/resourceVersion","value":"`+
		first.ResourceVersion+`"}]`, none)
	try("apply", types.ApplyPatchType, applyHead+`"metadata":{"name":"app","labels":{"applied":"1"}}}`, manager)
	try("apply less", types.ApplyPatchType, applyHead+`"metadata":{"name":"app"}}`, manager)
	try("apply, conflict", types.ApplyPatchType, applyHead+`"metadata":{"name":"app","labels":{"a":"9"}}}`, manager)
	try("apply, by force", types.ApplyPatchType, applyHead+`"metadata":{"name":"app","labels":{"a":"9"}}}`,
		metav1.PatchOptions{FieldManager: "m", Force: &yes})
	try("strategic", types.StrategicMergePatchType, `{}`, none)
	out, err := r.spoke().Patch(r.ctx, "none", types.MergePatchType, []byte(`{}`), none)
	r.object("merge of what is missing", out, err)
	try("the hub's key", types.MergePatchType, `{"metadata":{"labels":{"both":"spoke"}}}`, none)
	try("no finalizers", types.MergePatchType, `{"metadata":{"finalizers":null}}`, none)
	r.Settle()
	_, err = r.hub().Patch(r.ctx, "app", types.MergePatchType, []byte(`{"metadata":{"labels":{"hub":"2"}}}`), none)
	r.err("the hub changes a key of its own", err)
	r.Settle()
	r.onSpoke("then")
	_, err = r.hub().Patch(r.ctx, "app", types.MergePatchType, []byte(`{"metadata":{"labels":{"both":"hub"}}}`), none)
	r.err("the hub changes the same key", err)
	r.Settle()
	r.onSpoke("and then")
	r.onHub("on the hub")
}
