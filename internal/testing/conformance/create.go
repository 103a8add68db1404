// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"
)

var all = []string{metav1.DryRunAll}

func create(r *Recorder) {
	try := func(label string, w *workv1.ManifestWork, o metav1.CreateOptions) *workv1.ManifestWork {
		out, err := r.hub().Create(r.ctx, w, o)
		return r.object(label, out, err)
	}
	none := metav1.CreateOptions{}
	edit := func(label, name string, f func(*workv1.ManifestWork)) { try(label, with(simple(name, "1"), f), none) }

	try("plain", simple("plain", "1"), none)
	try("existing", simple("plain", "1"), none)
	got, err := r.hub().Get(r.ctx, "plain", metav1.GetOptions{})
	r.object("get right after", got, err)
	edit("generateName", "", func(w *workv1.ManifestWork) { w.GenerateName = "gen-" })
	edit("name and generateName", "both", func(w *workv1.ManifestWork) { w.GenerateName = "gen-" })
	try("dry run", simple("dry", "1"), metav1.CreateOptions{DryRun: all})
	_, err = r.hub().Get(r.ctx, "dry", metav1.GetOptions{})
	r.err("dry run left nothing", err)
	try("dry run of existing", simple("plain", "1"), metav1.CreateOptions{DryRun: all})
	try("unknown dry run", simple("x", "1"), metav1.CreateOptions{DryRun: []string{"Some"}})
	try("field manager too long", simple("x", "1"), metav1.CreateOptions{FieldManager: strings.Repeat("m", 129)})
	edit("no name", "", func(*workv1.ManifestWork) {})
	edit("bad name", "Not_A_Name", func(*workv1.ManifestWork) {})
	edit("name too long", strings.Repeat("n", 254), func(*workv1.ManifestWork) {})
	edit("bad generateName", "", func(w *workv1.ManifestWork) { w.GenerateName = "Gen_" })
	edit("other namespace", "x", func(w *workv1.ManifestWork) { w.Namespace = "elsewhere" })
	edit("own namespace", "named", func(w *workv1.ManifestWork) { w.Namespace = r.ns })
	edit("resourceVersion", "x", func(w *workv1.ManifestWork) { w.ResourceVersion = "7" })
	edit("system fields", "system", func(w *workv1.ManifestWork) {
		w.UID, w.Generation = "mine", 7
		w.CreationTimestamp = metav1.NewTime(time.Unix(0, 0))
		w.DeletionTimestamp, w.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(time.Unix(0, 0))), ptr.To[int64](9)
	})
	edit("status", "status", func(w *workv1.ManifestWork) { w.Status.Conditions = []metav1.Condition{{Type: "Applied"}} })
	edit("labels", "labels", func(w *workv1.ManifestWork) {
		w.Labels, w.Annotations = map[string]string{"a": "1"}, map[string]string{"example.com/b": "any text"}
	})
	edit("bad label key", "x", func(w *workv1.ManifestWork) { w.Labels = map[string]string{"a b": "1"} })
	edit("bad label value", "x", func(w *workv1.ManifestWork) { w.Labels = map[string]string{"a": "b c"} })
	edit("bad annotation key", "x", func(w *workv1.ManifestWork) { w.Annotations = map[string]string{"a b": "1"} })
	edit("annotations too large", "x", func(w *workv1.ManifestWork) {
		w.Annotations = map[string]string{"a": strings.Repeat("x", 256<<10)}
	})
	edit("finalizers", "finalizers", func(w *workv1.ManifestWork) { w.Finalizers = []string{"example.com/x"} })
	edit("bad finalizer", "x", func(w *workv1.ManifestWork) { w.Finalizers = []string{"a b"} })
	edit("owner", "owner", func(w *workv1.ManifestWork) {
		w.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: "1"}}
	})
	edit("bad owner", "x", func(w *workv1.ManifestWork) { w.OwnerReferences = []metav1.OwnerReference{{Name: "o"}} })
	createManifests(r, edit)
	out, err := r.Hub.ManifestWorks("").Create(r.ctx, simple("x", "1"), none)
	r.object("no namespace", out, err)
	_, err = r.Hub.ManifestWorks("no-such-namespace").Create(r.ctx, simple("x", "1"), none)
	r.err("no such namespace", err)
}

func createManifests(r *Recorder, edit func(label, name string, f func(*workv1.ManifestWork))) {
	edit("no manifests", "empty", func(w *workv1.ManifestWork) { w.Spec.Workload.Manifests = nil })
	edit("manifest without kind", "x", func(w *workv1.ManifestWork) {
		w.Spec.Workload.Manifests = manifests(`{"apiVersion":"v1","metadata":{"name":"a"}}`)
	})
	edit("manifest without apiVersion", "x", func(w *workv1.ManifestWork) {
		w.Spec.Workload.Manifests = manifests(`{"kind":"ConfigMap","metadata":{"name":"a"}}`)
	})
	edit("manifest that is no object", "x",
		func(w *workv1.ManifestWork) { w.Spec.Workload.Manifests = manifests(`["a"]`) })
	edit("unknown members of a manifest", "free", func(w *workv1.ManifestWork) {
		w.Spec.Workload.Manifests = manifests(
			`{"apiVersion":"v1","kind":"K","metadata":{"name":"a"},"z":{"b":1,"a":[1,2.5,"x",null]}}`)
	})
	for _, mebi := range []int{2, 4} {
		name := fmt.Sprint("large-", mebi)
		_, err := r.hub().Create(r.ctx, simple(name, strings.Repeat("x", mebi<<20)), metav1.CreateOptions{})
		r.err(fmt.Sprint(mebi, " MiB"), err)
	}
}
