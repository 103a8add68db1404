// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"
)

func get(r *reads) {
	try := func(label, ns, name string, o metav1.GetOptions) *workv1.ManifestWork {
		out, err := r.set.ManifestWorks(ns).Get(r.ctx, name, o)
		return r.object(label, out, err)
	}
	_, err := r.hub().Create(r.ctx, simple("app", "1"), metav1.CreateOptions{})
	r.err("create", err)
	r.Settle()
	app := try("found", r.ns, "app", metav1.GetOptions{})
	try("missing", r.ns, "none", metav1.GetOptions{})
	try("no name", r.ns, "", metav1.GetOptions{})
	try("no namespace", "", "app", metav1.GetOptions{})
	try("another namespace", r.namespace("other"), "app", metav1.GetOptions{})
	try("any version", r.ns, "app", metav1.GetOptions{ResourceVersion: "0"})
	try("its version", r.ns, "app", metav1.GetOptions{ResourceVersion: app.ResourceVersion})
	try("version from the future", r.ns, "app", metav1.GetOptions{ResourceVersion: "9" + app.ResourceVersion})
	try("missing of the future", r.ns, "none", metav1.GetOptions{ResourceVersion: "9" + app.ResourceVersion})
	try("bad version", r.ns, "app", metav1.GetOptions{ResourceVersion: "x"})
}

func list(r *reads) {
	for _, name := range []string{"w1", "w2", "w3", "w4", "w5"} {
		_, err := r.hub().Create(r.ctx, with(simple(name, "1"), func(w *workv1.ManifestWork) {
			w.Labels = map[string]string{"name": name, "even": fmt.Sprint(name == "w2" || name == "w4")}
		}), metav1.CreateOptions{})
		r.err("create "+name, err)
	}
	r.Settle()
	try := func(label string, o metav1.ListOptions) *workv1.ManifestWorkList {
		out, err := r.works().List(r.ctx, o)
		return r.list(label, out, err)
	}
	whole := try("all", metav1.ListOptions{})
	try("by label", metav1.ListOptions{LabelSelector: "even=true"})
	try("by labels", metav1.ListOptions{LabelSelector: "even=false,name notin (w1)"})
	try("by missing label", metav1.ListOptions{LabelSelector: "!even"})
	try("by name", metav1.ListOptions{FieldSelector: "metadata.name=w3"})
	try("not by name", metav1.ListOptions{FieldSelector: "metadata.name!=w3"})
	try("by namespace", metav1.ListOptions{FieldSelector: "metadata.namespace=" + r.ns})
	try("by an unknown field", metav1.ListOptions{FieldSelector: "spec.x=1"})
	try("bad label selector", metav1.ListOptions{LabelSelector: "a in"})
	try("bad field selector", metav1.ListOptions{FieldSelector: "a"})
	page := try("page", metav1.ListOptions{Limit: 2})
	page = try("page 2", metav1.ListOptions{Limit: 2, Continue: page.Continue})
	try("page 3", metav1.ListOptions{Limit: 2, Continue: page.Continue})
	try("page by label", metav1.ListOptions{Limit: 1, LabelSelector: "even=true"})
	try("limit beyond the end", metav1.ListOptions{Limit: 50})
	try("bad continue", metav1.ListOptions{Limit: 2, Continue: "%%%"})
	try("continue with a version",
		metav1.ListOptions{Limit: 2, Continue: page.Continue, ResourceVersion: whole.ResourceVersion})
	try("any version", metav1.ListOptions{ResourceVersion: "0"})
	try("not older than", metav1.ListOptions{ResourceVersion: whole.ResourceVersion,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	try("exactly", metav1.ListOptions{ResourceVersion: whole.ResourceVersion,
		ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	try("exactly any", metav1.ListOptions{ResourceVersion: "0", ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	try("match without version", metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	try("unknown match", metav1.ListOptions{ResourceVersion: "1", ResourceVersionMatch: "Roughly"})
	try("bad version", metav1.ListOptions{ResourceVersion: "x"})
	try("initial events", metav1.ListOptions{SendInitialEvents: ptr.To(true)})
	other := r.namespace("other")
	_, err := r.Hub.ManifestWorks(other).Create(r.ctx, simple("w0", "1"), metav1.CreateOptions{})
	r.err("create in another namespace", err)
	r.Settle()
	out, err := r.set.ManifestWorks("").List(r.ctx,
		metav1.ListOptions{FieldSelector: "metadata.name=w0,metadata.namespace=" + other})
	r.list("every namespace", out, err)
	out, err = r.set.ManifestWorks("no-such-namespace").List(r.ctx, metav1.ListOptions{})
	r.list("no such namespace", out, err)
}

// history records lists of an earlier version, whole or in pages, and the answers after the history
// was forgotten.
func history(r *reads) {
	create := func(name string) {
		_, err := r.hub().Create(r.ctx, simple(name, "1"), metav1.CreateOptions{})
		r.err("create "+name, err)
		r.Settle()
	}
	for _, name := range []string{"w1", "w2", "w3", "w4", "w5"} {
		create(name)
	}
	try := func(label string, o metav1.ListOptions) *workv1.ManifestWorkList {
		out, err := r.works().List(r.ctx, o)
		if l := r.list(label, out, err); l != nil {
			return l
		}
		return &workv1.ManifestWorkList{}
	}
	whole := try("all", metav1.ListOptions{})
	page := try("page", metav1.ListOptions{Limit: 2})
	create("w25")
	r.err("delete w4", r.hub().Delete(r.ctx, "w4", metav1.DeleteOptions{}))
	_, err := r.hub().Patch(r.ctx, "w5", types.MergePatchType, []byte(`{"metadata":{"labels":{"new":"1"}}}`),
		metav1.PatchOptions{})
	r.err("label w5", err)
	r.Settle()
	then := whole.ResourceVersion
	exact := metav1.ResourceVersionMatchExact
	try("now", metav1.ListOptions{})
	second := try("page 2 is of then", metav1.ListOptions{Limit: 2, Continue: page.Continue})
	r.line("page 2 has the version of page 1", fmt.Sprint(second.ResourceVersion == page.ResourceVersion))
	third := try("page 3 is of then", metav1.ListOptions{Continue: second.Continue})
	for i := range third.Items {
		r.line("its last item", fmt.Sprint(third.Items[i].Labels))
	}
	try("exactly then", metav1.ListOptions{ResourceVersion: then, ResourceVersionMatch: exact})
	try("exactly then, by label", metav1.ListOptions{ResourceVersion: then, ResourceVersionMatch: exact,
		LabelSelector: "new"})
	try("exactly then, in pages", metav1.ListOptions{ResourceVersion: then, ResourceVersionMatch: exact, Limit: 4})
	try("a page from then", metav1.ListOptions{ResourceVersion: then, Limit: 4})
	try("not older, in pages",
		metav1.ListOptions{ResourceVersion: then, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, Limit: 4})
	try("any version, in pages", metav1.ListOptions{ResourceVersion: "0", Limit: 4})
	try("from then", metav1.ListOptions{ResourceVersion: then})
	try("exactly the future", metav1.ListOptions{ResourceVersion: "9" + then, ResourceVersionMatch: exact})
	try("the future", metav1.ListOptions{ResourceVersion: "9" + then})

	r.Age()
	forgotten(r, then, page.Continue)
}

// forgotten records requests for a version, and for a page of a list, that are too old.
func forgotten(r *reads, then, token string) {
	try := func(label string, o metav1.ListOptions) {
		out, err := r.works().List(r.ctx, o)
		r.list(label, out, err)
	}
	try("exactly then is too old",
		metav1.ListOptions{ResourceVersion: then, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	try("from then is not", metav1.ListOptions{ResourceVersion: then})
	r.stalePage(token)
	r.events("watch from then", r.watch(r.ctx, "watch from then", metav1.ListOptions{ResourceVersion: then}), 2)
	initial := metav1.ListOptions{
		ResourceVersion: then, SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true, FieldSelector: "metadata.name=w1",
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
	fresh, err := r.works().Watch(r.ctx, initial)
	if err != nil {
		r.err("initial events, not older than then", err)
		return
	}
	defer fresh.Stop()
	r.events("initial events, not older than then", fresh, 2)
}

// stalePage records the answer for an expired continue token, and for the token that the error has.
func (r *reads) stalePage(token string) {
	out, err := r.works().List(r.ctx, metav1.ListOptions{Limit: 2, Continue: token})
	r.list("page 2 is too old", out, err)
	for i := range 3 {
		var s apierrors.APIStatus
		if errors.As(err, &s) {
			token = s.Status().Continue
		} else if out != nil {
			token = out.Continue
		}
		if token == "" {
			return
		}
		out, err = r.works().List(r.ctx, metav1.ListOptions{Limit: 2, Continue: token})
		r.list(fmt.Sprintf("rest %d of now", i+1), out, err)
	}
}
