// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
)

// shapes records how a server changes metadata.
func shapes(r *Recorder) {
	none := metav1.CreateOptions{}
	create := func(label, name string, edit func(*workv1.ManifestWork)) {
		out, err := r.hub().Create(r.ctx, with(simple(name, "1"), edit), none)
		r.object(label, out, err)
	}
	for _, length := range []int{58, 59, 100, 250} {
		out, err := r.hub().Create(r.ctx, with(simple("", "1"), func(w *workv1.ManifestWork) {
			w.GenerateName = strings.Repeat("g", length)
		}), none)
		if err != nil {
			r.err(fmt.Sprintf("generateName of %d", length), err)
			continue
		}
		r.line(fmt.Sprintf("generateName of %d", length), fmt.Sprint(len(out.Name)))
	}
	// No such kind exists. The garbage collector would find that an owner of an existing kind is
	// missing.
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Owner", Name: "o", UID: "1"}
	other := owner
	other.Name = "p"
	owners := func(w *workv1.ManifestWork) {
		w.OwnerReferences = []metav1.OwnerReference{owner, other, owner, owner, other}
	}
	generates := func(w *workv1.ManifestWork) { w.GenerateName = "gen-" }
	create("owners that occur twice", "app", owners)
	create("a name that exists, and a generateName", "app", generates)
	create("selfLink", "linked", func(w *workv1.ManifestWork) { w.SetSelfLink("/x") })
	create("held", "held", func(w *workv1.ManifestWork) { w.Finalizers = []string{"example.com/x"} })
	r.err("delete what is held", r.hub().Delete(r.ctx, "held", metav1.DeleteOptions{}))
	create("a name in deletion, and a generateName", "held", generates)
	shapesOfChanges(r, owners)
}

func shapesOfChanges(r *Recorder, owners func(*workv1.ManifestWork)) {
	update := func(label, name string, edit func(*workv1.ManifestWork)) {
		w, err := r.hub().Get(r.ctx, "app", metav1.GetOptions{})
		if err != nil {
			r.err("cannot get", err)
			return
		}
		w.Name = name
		out, err := r.hub().Update(r.ctx, with(w, edit), metav1.UpdateOptions{})
		r.object(label, out, err)
	}
	unreadable := func(w *workv1.ManifestWork) {
		w.Spec.Workload.Manifests = manifests(`{"apiVersion":"v1","kind":5}`)
	}
	update("update, generateName", "app", func(w *workv1.ManifestWork) { w.GenerateName = "gen-" })
	update("update, no generateName", "app", func(w *workv1.ManifestWork) { w.GenerateName = "" })
	update("update, selfLink", "app", func(w *workv1.ManifestWork) { w.SetSelfLink("/x") })
	update("update, owners that occur twice", "app", owners)
	update("update, version 0", "app", func(w *workv1.ManifestWork) { w.ResourceVersion = "0" })
	update("update, another uid and no version", "app", func(w *workv1.ManifestWork) {
		w.UID, w.ResourceVersion = "other",
			""
	})
	update("update, missing and no version", "none", func(w *workv1.ManifestWork) { w.ResourceVersion = "" })
	update("update, missing and unreadable", "none", unreadable)
	update("update, stale and unreadable", "app", func(w *workv1.ManifestWork) {
		w.ResourceVersion = "1"
		unreadable(w)
	})
	update("update, annotations too large", "app", func(w *workv1.ManifestWork) {
		w.Annotations = map[string]string{"a": strings.Repeat("x", 140<<10), "b": strings.Repeat("x", 140<<10)}
	})
	try := func(label string, pt types.PatchType, data string) {
		o := metav1.PatchOptions{}
		if pt == types.ApplyPatchType {
			o.FieldManager = "m"
		}
		out, err := r.hub().Patch(r.ctx, "app", pt, []byte(data), o)
		r.object(label, out, err)
	}
	const twice = `"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"x","uid":"3"},{"apiVersion":"v1","kind":"K","name":"x","uid":"3"}]`
	try("merge, generateName", types.MergePatchType, `{"metadata":{"generateName":"gen-"}}`)
	try("merge, selfLink", types.MergePatchType, `{"metadata":{"selfLink":"/x"}}`)
	try("merge, owners that occur twice", types.MergePatchType, `{"metadata":{`+twice+`}}`)
	try("merge, a grace period", types.MergePatchType, `{"metadata":{"deletionGracePeriodSeconds":5}}`)
	try("merge, version 0", types.MergePatchType, `{"metadata":{"resourceVersion":"0"}}`)
	try("merge, empty manifestConfigs", types.MergePatchType, `{"spec":{"manifestConfigs":[]}}`)
	try("apply, version 0", types.ApplyPatchType, applyHead+`"metadata":{"name":"app","resourceVersion":"0"}}`)
}

// paths uses names that cannot be part of a URL path. A client does not send such a request.
func paths(r *Recorder) {
	for _, name := range []string{"a/b", "a%2Fb", ".", ".."} {
		_, err := r.hub().Get(r.ctx, name, metav1.GetOptions{})
		r.err("get "+name, err)
	}
	named := simple("a/b", "1")
	named.ResourceVersion = "1"
	_, err := r.hub().Update(r.ctx, named, metav1.UpdateOptions{})
	r.err("update", err)
	_, err = r.hub().Patch(r.ctx, "..", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	r.err("patch", err)
	_, err = r.hub().Patch(r.ctx, "app", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "a/b")
	r.err("patch of a subresource", err)
	r.err("delete", r.hub().Delete(r.ctx, "..", metav1.DeleteOptions{}))
	nowhere := r.Hub.ManifestWorks("a/b")
	_, err = nowhere.Get(r.ctx, "a/b", metav1.GetOptions{})
	r.err("get in a namespace", err)
	_, err = nowhere.List(r.ctx, metav1.ListOptions{LabelSelector: "a in"})
	r.err("list in a namespace", err)
	_, err = nowhere.Watch(r.ctx, metav1.ListOptions{})
	r.err("watch in a namespace", err)
	_, err = nowhere.Create(r.ctx, simple("x", "1"), metav1.CreateOptions{})
	r.err("create in a namespace", err)
	r.err("collection of a namespace", nowhere.DeleteCollection(r.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	_, err = r.Hub.ManifestWorks("").Get(r.ctx, "..", metav1.GetOptions{})
	r.err("get in no namespace", err)
}
