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
		w.Status.Conditions = []metav1.Condition{{Type: "Applied", Status: "True", Reason: "R",
			LastTransitionTime: metav1.NewTime(time.Unix(0, 0))}}
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
	try("field manager too long", func(*workv1.ManifestWork) {},
		metav1.UpdateOptions{FieldManager: strings.Repeat("m", 129)})
	r.Settle()
	r.err("delete", r.hub().Delete(r.ctx, "app", metav1.DeleteOptions{}))
	r.Settle()
	try("spec while deleting", func(w *workv1.ManifestWork) { w.Spec = simple("app", "3").Spec }, none)
	try("new finalizer while deleting",
		func(w *workv1.ManifestWork) { w.Finalizers = append(w.Finalizers, "example.com/z") }, none)
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
	merge("merge manifests",
		`{"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}]}}}`)
	merge("merge finalizers", `{"metadata":{"finalizers":["example.com/x"]}}`)
	merge("merge status by the way",
		`{"status":{"conditions":[{"type":"A","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	merge("merge null metadata", `{"metadata":null}`)
	merge("merge system fields",
		`{"metadata":{"generation":99,"creationTimestamp":null,"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)
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

// badPatches sends patches with more than one mistake, or of other unusual kinds.
func badPatches(r *Recorder) {
	try := func(label string, pt types.PatchType, data string, o metav1.PatchOptions) {
		out, err := r.hub().Patch(r.ctx, "app", pt, []byte(data), o)
		r.object(label, out, err)
	}
	none := metav1.PatchOptions{}
	merge := func(label, data string) { try(label, types.MergePatchType, data, none) }
	jsonp := func(label, data string) { try(label, types.JSONPatchType, data, none) }
	out, err := r.hub().Create(r.ctx, simple("app", "1"), metav1.CreateOptions{})
	created := r.object("create", out, err)
	merge("label", `{"metadata":{"labels":{"a":"1"}}}`)

	stale := func(label, metadata, rest string) {
		merge("stale and "+label, `{"metadata":{"resourceVersion":"`+created.ResourceVersion+`"`+metadata+`}`+rest+`}`)
	}
	stale("a bad label", `,"labels":{"a b":"1"}`, ``)
	stale("an invalid spec", ``, `,"spec":{"workload":7}`)
	stale("an invalid option", ``, `,"spec":{"deleteOption":{"propagationPolicy":"Sideways"}}`)
	stale("a bad manifest", ``, `,"spec":{"workload":{"manifests":[{"kind":"K"}]}}`)
	stale("a manifest of wrong types", ``, `,"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":5}]}}`)
	stale("another name", `,"name":"b"`, ``)
	stale("another namespace", `,"namespace":"b"`, ``)
	stale("another uid", `,"uid":"other"`, ``)
	stale("labels of a wrong type", `,"labels":7`, ``)
	stale("nothing new", ``, ``)
	merge("a version that is none", `{"metadata":{"resourceVersion":"abc"}}`)
	merge("no version and a bad label", `{"metadata":{"resourceVersion":null,"labels":{"a b":"1"}}}`)
	merge("another uid and an invalid spec", `{"metadata":{"uid":"other"},"spec":{"workload":7}}`)
	jsonp("json, stale and an invalid spec", `[{"op":"replace","path":"/metadata/resourceVersion","value":"`+
		created.ResourceVersion+`"},{"op":"replace","path":"/spec/workload","value":7}]`)
	jsonp("json, stale and a bad label", `[{"op":"replace","path":"/metadata/resourceVersion","value":"`+
		created.ResourceVersion+`"},{"op":"add","path":"/metadata/labels/a b","value":"1"}]`)
	jsonp("json, another uid", `[{"op":"replace","path":"/metadata/uid","value":"other"}]`)
	jsonp("json, another name", `[{"op":"replace","path":"/metadata/name","value":"b"}]`)
	jsonp("json, another kind", `[{"op":"replace","path":"/kind","value":"Other"}]`)
	merge("merge of another kind", `{"kind":"Other"}`)
	merge("merge of another version", `{"apiVersion":"work.open-cluster-management.io/v2"}`)

	jsonp("json of the status", `[{"op":"add","path":"/status","value":{"conditions":[]}}]`)
	jsonp("json of a bad status", `[{"op":"add","path":"/status","value":7}]`)
	merge("merge of a bad status", `{"status":{"conditions":7}}`)
	merge("merge of a status and a label", `{"status":{"conditions":[]},"metadata":{"labels":{"s":"1"}}}`)
	try("strict, unknown member of the status", types.MergePatchType, `{"status":{"nonsense":1}}`,
		metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
	operations := func(n int) string {
		return `[` + strings.Repeat(`{"op":"test","path":"/kind","value":"ManifestWork"},`, n-1) +
			`{"op":"test","path":"/kind","value":"ManifestWork"}]`
	}
	jsonp("json of 10,000 operations", operations(10_000))
	jsonp("json of 10,001 operations", operations(10_001))
}

// nullPatches sets fields to null, or removes them, where null is not allowed.
func nullPatches(r *Recorder) {
	n := 0
	try := func(label string, patches ...string) {
		n++
		name := fmt.Sprint("n", n)
		_, err := r.hub().Create(r.ctx, simple(name, "1"), metav1.CreateOptions{})
		if err != nil {
			r.err("create for "+label, err)
			return
		}
		for i, p := range patches {
			pt, o, shown := types.MergePatchType, metav1.PatchOptions{}, label
			switch {
			case p[0] == '[':
				pt = types.JSONPatchType
			case strings.HasPrefix(p, applyHead):
				pt, o.FieldManager, p = types.ApplyPatchType, "m", p+`"name":"`+name+`"}}`
			}
			if i > 0 {
				shown = fmt.Sprintf("%s, %d", label, i+1)
			}
			out, err := r.hub().Patch(r.ctx, name, pt, []byte(p), o)
			r.object(shown, out, err)
		}
	}
	const again = `{"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}]}}}`
	try("json of a null option", `[{"op":"add","path":"/spec/deleteOption","value":null}]`)
	try("json of null labels", `[{"op":"add","path":"/metadata/labels","value":null}]`)
	try("json of null manifests", `[{"op":"replace","path":"/spec/workload/manifests","value":null}]`)
	try("json of a null manifest", `[{"op":"add","path":"/spec/workload/manifests","value":[null]}]`)
	try("json of a null workload", `[{"op":"replace","path":"/spec/workload","value":null}]`, again)
	try("json of a null spec", `[{"op":"replace","path":"/spec","value":null}]`, again)
	try("json without the spec", `[{"op":"remove","path":"/spec"}]`, again)
	try("json of the workload of no spec", `{"spec":null}`, `[{"op":"replace","path":"/spec/workload","value":{}}]`)
	try("json without the spec, twice", `[{"op":"remove","path":"/spec"}]`, `[{"op":"remove","path":"/spec"}]`)
	try("merge of a null spec", `{"spec":null}`, `{"spec":null}`, again)
	try("merge of a null workload", `{"spec":{"workload":null}}`, again)
	try("merge of an empty workload", `{"spec":{"workload":{"manifests":null}}}`, `{"spec":{"workload":null}}`)
	try("apply of a null spec", applyHead+`"spec":null,"metadata":{`)
	try("apply of a null workload", applyHead+`"spec":{"workload":null},"metadata":{`)
	try("apply of a status", applyHead+`"status":{"conditions":[]},"metadata":{`)
	try("no kind", `{"kind":null}`)
	try("no apiVersion", `{"apiVersion":null}`)
	try("no version", `{"metadata":{"resourceVersion":null}}`)
	try("empty version", `{"metadata":{"resourceVersion":""}}`)
	try("no uid", `{"metadata":{"uid":null}}`)
	try("json without a version", `[{"op":"remove","path":"/metadata/resourceVersion"}]`)
	try("json without a kind", `[{"op":"remove","path":"/kind"}]`)
	try("bad label and an invalid spec", `{"metadata":{"labels":{"a b":"1"}},"spec":{"workload":7}}`)
	try("bad label, another uid and an invalid option",
		`{"metadata":{"uid":"other","labels":{"a b":"1"}},"spec":{"deleteOption":{"propagationPolicy":"x"}}}`)
	try("another kind and an invalid spec", `{"kind":"Other","metadata":{"labels":{"a b":"1"}},"spec":{"workload":7}}`)
	try("apply, stale and invalid", applyHead+`"spec":{"workload":7},"metadata":{"resourceVersion":"1",`)
	try("apply, invalid and a bad label", applyHead+`"spec":{"workload":7},"metadata":{"labels":{"a b":"1"},`)
	try("apply of a stale version", applyHead+`"metadata":{"resourceVersion":"1",`)
}

const applyHead = `{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork",`
