// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"
)

func update(r *Recorder) {
	current := func() *workv1.ManifestWork {
		w, err := r.hub().Get(r.ctx, "app", metav1.GetOptions{})
		if err != nil {
			r.err("cannot get", err)
			return simple("app", "1")
		}
		return w
	}
	try := func(label string, f func(*workv1.ManifestWork), o metav1.UpdateOptions) {
		out, err := r.hub().Update(r.ctx, with(current(), f), o)
		r.object(label, out, err)
	}
	none := metav1.UpdateOptions{}
	out, err := r.hub().Create(r.ctx, with(simple("app", "1"), func(w *workv1.ManifestWork) {
		w.Finalizers = []string{"example.com/x"}
	}), metav1.CreateOptions{})
	created := r.object("create", out, err)

	try("nothing", func(*workv1.ManifestWork) {}, none)
	try("spec", func(w *workv1.ManifestWork) { w.Spec = simple("app", "2").Spec }, none)
	try("labels", func(w *workv1.ManifestWork) { w.Labels = map[string]string{"a": "1"} }, none)
	try("annotations", func(w *workv1.ManifestWork) { w.Annotations = map[string]string{"a": "1"} }, none)
	try("finalizers", func(w *workv1.ManifestWork) { w.Finalizers = append(w.Finalizers, "example.com/y") }, none)
	try("status is not this verb's", func(w *workv1.ManifestWork) {
		w.Status.Conditions = []metav1.Condition{{Type: "Applied", Status: "True", Reason: "R", LastTransitionTime: metav1.NewTime(time.Unix(0, 0))}}
	}, none)
	try("system fields are kept", func(w *workv1.ManifestWork) {
		w.Generation, w.CreationTimestamp, w.DeletionTimestamp, w.UID = 99, metav1.Time{}, ptr.To(metav1.Now()), ""
	}, none)
	try("dry run", func(w *workv1.ManifestWork) { w.Spec = simple("app", "dry").Spec }, metav1.UpdateOptions{DryRun: all})
	try("after the dry run", func(*workv1.ManifestWork) {}, none)
	try("stale", func(w *workv1.ManifestWork) {
		w.ResourceVersion = created.ResourceVersion
		w.Spec = simple("app", "stale").Spec
	}, none)
	try("no version", func(w *workv1.ManifestWork) { w.ResourceVersion = "" }, none)
	try("version that is none", func(w *workv1.ManifestWork) { w.ResourceVersion = "abc" }, none)
	try("another uid", func(w *workv1.ManifestWork) { w.UID = "other" }, none)
	try("missing", func(w *workv1.ManifestWork) { w.Name = "none" }, none)
	try("no name", func(w *workv1.ManifestWork) { w.Name = "" }, none)
	try("another namespace", func(w *workv1.ManifestWork) { w.Namespace = "elsewhere" }, none)
	try("bad label", func(w *workv1.ManifestWork) { w.Labels = map[string]string{"a b": "1"} }, none)
	try("bad manifest", func(w *workv1.ManifestWork) { w.Spec.Workload.Manifests = manifests(`{"kind":"K"}`) }, none)
	try("field manager too long", func(*workv1.ManifestWork) {}, metav1.UpdateOptions{FieldManager: strings.Repeat("m", 129)})
	r.Settle()
	r.err("delete", r.hub().Delete(r.ctx, "app", metav1.DeleteOptions{}))
	r.Settle()
	try("spec while deleting", func(w *workv1.ManifestWork) { w.Spec = simple("app", "3").Spec }, none)
	try("new finalizer while deleting", func(w *workv1.ManifestWork) { w.Finalizers = append(w.Finalizers, "example.com/z") }, none)
	try("fewer finalizers while deleting", func(w *workv1.ManifestWork) { w.Finalizers = []string{"example.com/x"} }, none)
}

func patch(r *Recorder) {
	try := func(label, name string, pt types.PatchType, data string, o metav1.PatchOptions, sub ...string) {
		out, err := r.hub().Patch(r.ctx, name, pt, []byte(data), o, sub...)
		r.object(label, out, err)
	}
	none := metav1.PatchOptions{}
	merge := func(label, data string) { try(label, "app", types.MergePatchType, data, none) }
	jsonp := func(label, data string) { try(label, "app", types.JSONPatchType, data, none) }
	out, err := r.hub().Create(r.ctx, simple("app", "1"), metav1.CreateOptions{})
	created := r.object("create", out, err)

	merge("merge labels", `{"metadata":{"labels":{"a":"1","b":"2"}}}`)
	merge("merge the same", `{"metadata":{"labels":{"a":"1"}}}`)
	merge("merge away", `{"metadata":{"labels":{"a":null}}}`)
	merge("merge nothing", `{}`)
	merge("merge spec", `{"spec":{"deleteOption":{"propagationPolicy":"Orphan"}}}`)
	merge("merge manifests", `{"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}]}}}`)
	merge("merge finalizers", `{"metadata":{"finalizers":["example.com/x"]}}`)
	merge("merge status by the way", `{"status":{"conditions":[{"type":"A","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	merge("merge null metadata", `{"metadata":null}`)
	merge("merge system fields", `{"metadata":{"generation":99,"creationTimestamp":null,"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)
	merge("merge another name", `{"metadata":{"name":"b"}}`)
	merge("merge another namespace", `{"metadata":{"namespace":"b"}}`)
	merge("merge another uid", `{"metadata":{"uid":"other","labels":{"u":"1"}}}`)
	merge("merge a stale version", `{"metadata":{"resourceVersion":"`+created.ResourceVersion+`","labels":{"v":"1"}}}`)
	if now, err := r.hub().Get(r.ctx, "app", metav1.GetOptions{}); err == nil {
		merge("merge the current version", `{"metadata":{"resourceVersion":"`+now.ResourceVersion+`","labels":{"v":"2"}}}`)
	}
	merge("merge of a bad label", `{"metadata":{"labels":{"a b":"1"}}}`)
	merge("merge of a bad manifest", `{"spec":{"workload":{"manifests":[{"kind":"K"}]}}}`)
	merge("merge of a wrong type", `{"spec":{"workload":7}}`)
	merge("merge of an unknown member", `{"spec":{"nonsense":1},"other":2}`)
	merge("merge that is no JSON", `{`)
	merge("merge of a list", `[]`)
	merge("merge of a word", `"x"`)
	jsonp("json", `[{"op":"add","path":"/metadata/labels/c","value":"3"},{"op":"test","path":"/metadata/labels/b","value":"2"}]`)
	jsonp("json spec", `[{"op":"replace","path":"/spec/workload/manifests/0/metadata/name","value":"t"}]`)
	jsonp("json test fails", `[{"op":"test","path":"/metadata/labels/b","value":"9"}]`)
	jsonp("json of a missing path", `[{"op":"remove","path":"/metadata/labels/none"}]`)
	jsonp("json of an unknown op", `[{"op":"mend","path":"/metadata"}]`)
	jsonp("json that is an object", `{}`)
	jsonp("json that is no JSON", `[`)
	jsonp("json of a wrong type", `[{"op":"replace","path":"/spec/workload","value":7}]`)
	try("dry run", "app", types.MergePatchType, `{"metadata":{"labels":{"dry":"1"}}}`, metav1.PatchOptions{DryRun: all})
	merge("after the dry run", `{}`)
	try("missing", "none", types.MergePatchType, `{}`, none)
	try("no name", "", types.MergePatchType, `{}`, none)
	try("strategic", "app", types.StrategicMergePatchType, `{}`, none)
	try("unknown type", "app", types.PatchType("application/x"), `{}`, none)
	try("unknown subresource", "app", types.MergePatchType, `{}`, none, "scale")
	try("force on a merge", "app", types.MergePatchType, `{}`, metav1.PatchOptions{Force: ptr.To(true)})
}

func remove(r *Recorder) {
	none := metav1.DeleteOptions{}
	get := func(label, name string) {
		out, err := r.hub().Get(r.ctx, name, metav1.GetOptions{})
		r.object(label, out, err)
	}
	makes := 0
	makeOne := func(name string, finalizers ...string) *workv1.ManifestWork {
		makes++
		out, err := r.hub().Create(r.ctx, with(simple(name, "1"), func(w *workv1.ManifestWork) { w.Finalizers = finalizers }), metav1.CreateOptions{})
		r.object(fmt.Sprintf("create %s (%d)", name, makes), out, err)
		return out
	}
	makeOne("plain")
	r.Settle()
	r.err("plain", r.hub().Delete(r.ctx, "plain", none))
	r.Settle()
	get("plain is gone", "plain")
	r.err("missing", r.hub().Delete(r.ctx, "none", none))
	r.err("no name", r.hub().Delete(r.ctx, "", none))
	makeOne("plain")
	r.Settle()

	held := makeOne("held", "example.com/x")
	r.Settle()
	r.err("dry run", r.hub().Delete(r.ctx, "held", metav1.DeleteOptions{DryRun: all}))
	get("dry run left it", "held")
	r.err("another uid", r.hub().Delete(r.ctx, "held", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}}))
	r.err("another version", r.hub().Delete(r.ctx, "held", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: ptr.To("1")}}))
	r.err("right preconditions", r.hub().Delete(r.ctx, "held", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(held.UID))}))
	r.Settle()
	get("held", "held")
	r.err("again", r.hub().Delete(r.ctx, "held", none))
	get("held again", "held")
	out, err := r.hub().Create(r.ctx, simple("held", "2"), metav1.CreateOptions{})
	r.object("create while deleting", out, err)
	r.Settle()
	out, err = r.hub().Patch(r.ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	r.object("last finalizer", out, err)
	get("held is gone", "held")
	makeOne("held")
	r.Settle()
	bad := metav1.DeletionPropagation("Sideways")
	r.err("unknown propagation", r.hub().Delete(r.ctx, "held", metav1.DeleteOptions{PropagationPolicy: &bad}))
	r.err("background", r.hub().Delete(r.ctx, "held", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}))
	r.Settle()
	get("background is gone", "held")

	for _, name := range []string{"c1", "c2", "c3"} {
		_, err := r.hub().Create(r.ctx, with(simple(name, "1"), func(w *workv1.ManifestWork) { w.Labels = map[string]string{"n": name} }), metav1.CreateOptions{})
		r.err("create "+name, err)
	}
	r.Settle()
	r.err("collection by label", r.hub().DeleteCollection(r.ctx, none, metav1.ListOptions{LabelSelector: "n in (c1,c3)"}))
	r.Settle()
	left, err := r.hub().List(r.ctx, metav1.ListOptions{})
	r.list("left", left, err)
	r.err("collection by a bad selector", r.hub().DeleteCollection(r.ctx, none, metav1.ListOptions{LabelSelector: "n in"}))
	r.err("collection, dry run", r.hub().DeleteCollection(r.ctx, metav1.DeleteOptions{DryRun: all}, metav1.ListOptions{}))
	r.err("collection", r.hub().DeleteCollection(r.ctx, none, metav1.ListOptions{}))
	r.Settle()
	left, err = r.hub().List(r.ctx, metav1.ListOptions{})
	r.list("nothing left", left, err)
}
