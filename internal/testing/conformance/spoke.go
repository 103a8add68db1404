// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
)

func applied(message string) metav1.Condition {
	return metav1.Condition{
		Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "Tested", Message: message,
		LastTransitionTime: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
}

// onSpoke records the spoke's work "app".
func (r *Recorder) onSpoke(label string) *workv1.ManifestWork {
	out, err := r.spoke().Get(r.ctx, "app", metav1.GetOptions{})
	return r.object(label, out, err)
}

func spokeStatus(r *Recorder) {
	out, err := r.hub().Create(r.ctx, simple("app", "1"), metav1.CreateOptions{})
	r.err("create", err)
	_ = out
	r.Settle()
	w := r.onSpoke("on the spoke")
	stale := w.DeepCopy()
	try := func(label string, f func(*workv1.ManifestWork)) {
		current, err := r.spoke().Get(r.ctx, "app", metav1.GetOptions{})
		if err != nil {
			r.err(label, err)
			return
		}
		out, err := r.spoke().UpdateStatus(r.ctx, with(current, f), metav1.UpdateOptions{})
		r.object(label, out, err)
	}
	try("update", func(w *workv1.ManifestWork) { w.Status.Conditions = []metav1.Condition{applied("one")} })
	try("the same", func(w *workv1.ManifestWork) { w.Status.Conditions = []metav1.Condition{applied("one")} })
	try("only the status", func(w *workv1.ManifestWork) {
		w.Spec, w.Labels = simple("app", "9").Spec, map[string]string{"a": "1"}
		w.Status.Conditions = []metav1.Condition{applied("two")}
	})
	out, err = r.spoke().UpdateStatus(r.ctx, with(stale, func(w *workv1.ManifestWork) {
		w.Status.Conditions = []metav1.Condition{applied("stale")}
	}), metav1.UpdateOptions{})
	r.object("stale", out, err)
	try("no version", func(w *workv1.ManifestWork) { w.ResourceVersion = "" })
	try("version that is none", func(w *workv1.ManifestWork) { w.ResourceVersion = "abc" })
	try("missing", func(w *workv1.ManifestWork) { w.Name = "none" })
	try("no name", func(w *workv1.ManifestWork) { w.Name = "" })
	try("another uid", func(w *workv1.ManifestWork) { w.UID = "other" })
	try("another namespace", func(w *workv1.ManifestWork) { w.Namespace = "elsewhere" })
	try("a bad label by the way", func(w *workv1.ManifestWork) { w.Labels = map[string]string{"a b": "1"} })
	try("a bad condition", func(w *workv1.ManifestWork) { w.Status.Conditions = []metav1.Condition{{Type: "-"}} })
	out, err = r.spoke().UpdateStatus(r.ctx, with(stale.DeepCopy(), func(w *workv1.ManifestWork) {
		w.Status.Conditions = []metav1.Condition{{Type: "-"}}
	}), metav1.UpdateOptions{})
	r.object("stale and bad", out, err)
	current, err := r.spoke().Get(r.ctx, "app", metav1.GetOptions{})
	if err != nil {
		r.err("get", err)
		return
	}
	out, err = r.spoke().UpdateStatus(r.ctx, with(current, func(w *workv1.ManifestWork) {
		w.Status.Conditions = []metav1.Condition{applied("dry")}
	}), metav1.UpdateOptions{DryRun: all})
	r.object("update, dry run", out, err)
	spokeStatusMerges(r, stale.ResourceVersion)
}

// spokeStatusMerges patches the status as agents usually do.
func spokeStatusMerges(r *Recorder, stale string) {
	none := metav1.PatchOptions{}
	merge := func(label, data string, o metav1.PatchOptions) {
		out, err := r.spoke().Patch(r.ctx, "app", types.MergePatchType, []byte(data), o, "status")
		r.object(label, out, err)
	}
	three, _ := json.Marshal(applied("three"))
	merge("merge", `{"status":{"conditions":[`+string(three)+`]}}`, none)
	merge("merge the same", `{"status":{"conditions":[`+string(three)+`]}}`, none)
	merge("merge of nothing", `{}`, none)
	merge("merge of the spec by the way",
		`{"spec":{"deleteOption":{"propagationPolicy":"Orphan"}},"metadata":{"labels":{"b":"1"}}}`, none)
	merge("merge of manifests",
		`{"status":{"resourceStatus":{"manifests":[{"resourceMeta":{"ordinal":0,"version":"v1","kind":"ConfigMap","resource":"configmaps","name":"cm"},"conditions":[]}]}}}`, none)
	merge("merge of a stale version", `{"metadata":{"resourceVersion":"`+stale+`"},"status":{"conditions":[]}}`, none)
	merge("merge of another uid", `{"metadata":{"uid":"other"},"status":{"conditions":[]}}`, none)
	merge("merge of a wrong type", `{"status":{"conditions":7}}`, none)
	merge("dry run", `{"status":{"conditions":[]}}`, metav1.PatchOptions{DryRun: all})
	merge("merge away", `{"status":null}`, none)
	out, err := r.spoke().Patch(r.ctx, "app", types.JSONPatchType,
		[]byte(`[{"op":"add","path":"/status","value":{"conditions":[`+string(three)+`]}}]`), none, "status")
	r.object("json", out, err)
	r.Settle()
	got, err := r.hub().Get(r.ctx, "app", metav1.GetOptions{})
	if err != nil {
		r.err("on the hub", err)
		return
	}
	r.line("on the hub", applied("").Type+" "+got.Status.Conditions[0].Message)
}

func spokeMetadata(r *Recorder) {
	_, err := r.hub().Create(r.ctx, with(simple("app", "1"), func(w *workv1.ManifestWork) {
		w.Labels, w.Annotations = map[string]string{"hub": "1"}, map[string]string{"hub": "1"}
	}), metav1.CreateOptions{})
	r.err("create", err)
	r.Settle()
	r.onSpoke("on the spoke")
	try := func(label string, f func(*workv1.ManifestWork)) {
		current, err := r.spoke().Get(r.ctx, "app", metav1.GetOptions{})
		if err != nil {
			r.err(label, err)
			return
		}
		out, err := r.spoke().Update(r.ctx, with(current, f), metav1.UpdateOptions{})
		r.object(label, out, err)
	}
	try("finalizer", func(w *workv1.ManifestWork) { w.Finalizers = []string{workv1.ManifestWorkFinalizer} })
	try("nothing", func(*workv1.ManifestWork) {})
	try("labels", func(w *workv1.ManifestWork) { w.Labels["spoke"] = "1" })
	try("annotations", func(w *workv1.ManifestWork) { w.Annotations["spoke"] = "1" })
	try("status is not this verb's",
		func(w *workv1.ManifestWork) { w.Status.Conditions = []metav1.Condition{applied("x")} })
	try("bad finalizer", func(w *workv1.ManifestWork) { w.Finalizers = append(w.Finalizers, "a b") })
	try("stale", func(w *workv1.ManifestWork) { w.ResourceVersion = "1" })
	try("stale and bad", func(w *workv1.ManifestWork) { w.ResourceVersion, w.Finalizers = "1", []string{"a b"} })
	try("no version", func(w *workv1.ManifestWork) { w.ResourceVersion = "" })
	try("version that is none", func(w *workv1.ManifestWork) { w.ResourceVersion = "abc" })
	try("another uid", func(w *workv1.ManifestWork) { w.UID = "other" })
	try("missing", func(w *workv1.ManifestWork) { w.Name = "none" })
	try("another namespace", func(w *workv1.ManifestWork) { w.Namespace = "elsewhere" })
	out, err := r.spoke().Patch(r.ctx, "app", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":["example.com/x"],"labels":{"spoke":null}}}`), metav1.PatchOptions{})
	r.object("merge", out, err)
	r.Settle()
	out, err = r.hub().Patch(r.ctx, "app", types.MergePatchType, []byte(`{"metadata":{"labels":{"hub":"2"}}}`),
		metav1.PatchOptions{})
	r.err("the hub changes a label", err)
	_ = out
	r.Settle()
	r.onSpoke("after the hub's change")
	l, err := r.spoke().List(r.ctx, metav1.ListOptions{LabelSelector: "hub=2"})
	r.list("list by label", l, err)
}

func spokeDeletion(r *Recorder) {
	_, err := r.hub().Create(r.ctx, simple("app", "1"), metav1.CreateOptions{})
	r.err("create", err)
	r.Settle()
	patch := func(label, data string) {
		out, err := r.spoke().Patch(r.ctx, "app", types.MergePatchType, []byte(data), metav1.PatchOptions{})
		r.object(label, out, err)
	}
	patch("hold", `{"metadata":{"finalizers":["`+workv1.ManifestWorkFinalizer+`"]}}`)
	w, err := r.spoke().Watch(r.ctx, metav1.ListOptions{})
	if err != nil {
		r.err("watch", err)
		return
	}
	defer w.Stop()
	r.events("held", w, 1)
	r.Settle()
	r.err("delete", r.hub().Delete(r.ctx, "app", metav1.DeleteOptions{}))
	r.Settle()
	r.events("deleting", w, 1)
	r.onSpoke("on the spoke")
	patch("new finalizer", `{"metadata":{"finalizers":["`+workv1.ManifestWorkFinalizer+`","example.com/x"]}}`)
	patch("let go", `{"metadata":{"finalizers":null}}`)
	r.events("gone", w, 1)
	r.onSpoke("gone from the spoke")
	r.Settle()
	_, err = r.hub().Get(r.ctx, "app", metav1.GetOptions{})
	r.err("gone from the hub", err)
}
