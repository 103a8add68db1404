// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"
)

func remove(r *Recorder) {
	none := metav1.DeleteOptions{}
	get := func(label, name string) {
		out, err := r.hub().Get(r.ctx, name, metav1.GetOptions{})
		r.object(label, out, err)
	}
	makes := 0
	makeOne := func(name string, finalizers ...string) *workv1.ManifestWork {
		makes++
		out, err := r.hub().Create(r.ctx, with(simple(name, "1"), func(w *workv1.ManifestWork) { w.Finalizers = finalizers }),
			metav1.CreateOptions{})
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
	r.err("another uid", r.hub().Delete(r.ctx, "held",
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}}))
	r.err("another version", r.hub().Delete(r.ctx, "held",
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: ptr.To("1")}}))
	r.err("right preconditions",
		r.hub().Delete(r.ctx, "held", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(held.UID))}))
	r.Settle()
	get("held", "held")
	r.err("again", r.hub().Delete(r.ctx, "held", none))
	get("held again", "held")
	out, err := r.hub().Create(r.ctx, simple("held", "2"), metav1.CreateOptions{})
	r.object("create while deleting", out, err)
	r.Settle()
	out, err = r.hub().Patch(r.ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{})
	r.object("last finalizer", out, err)
	get("held is gone", "held")
	makeOne("held")
	r.Settle()
	bad := metav1.DeletionPropagation("Sideways")
	r.err("unknown propagation", r.hub().Delete(r.ctx, "held", metav1.DeleteOptions{PropagationPolicy: &bad}))
	r.err("background", r.hub().Delete(r.ctx, "held",
		metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}))
	r.Settle()
	get("background is gone", "held")

	removeSome(r)
}

// removeSome deletes works by a selector, and then the rest.
func removeSome(r *Recorder) {
	none := metav1.DeleteOptions{}
	for _, name := range []string{"c1", "c2", "c3"} {
		_, err := r.hub().Create(r.ctx,
			with(simple(name, "1"), func(w *workv1.ManifestWork) { w.Labels = map[string]string{"n": name} }),
			metav1.CreateOptions{})
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

// inOldWords adds the deprecated option of clients from before propagation policies.
func inOldWords(orphan bool, o metav1.DeleteOptions) metav1.DeleteOptions {
	o.OrphanDependents = &orphan //nolint:staticcheck // deprecated, not gone
	return o
}

// deletion records the options of Delete: how to propagate, how long to wait, and the
// preconditions.
func deletion(r *Recorder) {
	n := 0
	try := func(label string, o metav1.DeleteOptions, finalizers ...string) {
		n++
		name := fmt.Sprint("w", n)
		_, err := r.hub().Create(r.ctx, with(simple(name, "1"), func(w *workv1.ManifestWork) { w.Finalizers = finalizers }),
			metav1.CreateOptions{})
		if err != nil {
			r.err("create for "+label, err)
			return
		}
		r.Settle()
		r.err(label, r.hub().Delete(r.ctx, name, o))
		r.Settle()
		out, err := r.hub().Get(r.ctx, name, metav1.GetOptions{})
		r.object(label+", then", out, err)
	}
	const held, ofOrphans, ofForeground = "example.com/x", metav1.FinalizerOrphanDependents,
		metav1.FinalizerDeleteDependents
	policies := map[string]metav1.DeleteOptions{
		"default":              {},
		"background":           {PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)},
		"foreground":           {PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)},
		"orphan":               {PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)},
		"orphanDependents":     inOldWords(true, metav1.DeleteOptions{}),
		"orphanDependents not": inOldWords(false, metav1.DeleteOptions{}),
		"foreground, without wait": {PropagationPolicy: ptr.To(metav1.DeletePropagationForeground),
			GracePeriodSeconds: ptr.To[int64](0)},
	}
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		o := policies[name]
		try(name, o)
		try(name+", held", o, held)
		try(name+", to be orphaned", o, ofOrphans)
		try(name+", to be waited for", o, ofForeground)
		try(name+", held and to be orphaned", o, held, ofOrphans)
		o.DryRun = all
		try(name+", dry run", o, held)
	}
	try("both", inOldWords(true, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)}))
	try("both and wrong",
		inOldWords(true, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletionPropagation("Sideways")),
			DryRun: []string{"Some"}}))
	try("to be orphaned and waited for", metav1.DeleteOptions{}, ofOrphans, ofForeground)
	for _, seconds := range []int64{0, 30, -1} {
		try(fmt.Sprintf("grace %d", seconds), metav1.DeleteOptions{GracePeriodSeconds: ptr.To(seconds)})
		try(fmt.Sprintf("grace %d, held", seconds), metav1.DeleteOptions{GracePeriodSeconds: ptr.To(seconds)}, held)
	}
	try("unknown dry run", metav1.DeleteOptions{DryRun: []string{"Some"}})
	try("despite read errors", metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: ptr.To(true)})
	try("despite read errors, dry run",
		metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: ptr.To(true), DryRun: all})
	deletionInSteps(r)
	preconditions(r)
}

// deletionInSteps deletes one object repeatedly.
func deletionInSteps(r *Recorder) {
	_, err := r.hub().Create(r.ctx, with(simple("app", "1"),
		func(w *workv1.ManifestWork) { w.Finalizers = []string{"example.com/x"} }), metav1.CreateOptions{})
	r.err("create app", err)
	r.Settle()
	w, err := r.hub().Watch(r.ctx, metav1.ListOptions{FieldSelector: "metadata.name=app"})
	if err != nil {
		r.err("watch app", err)
		return
	}
	defer w.Stop()
	try := func(label string, o metav1.DeleteOptions) {
		r.err(label, r.hub().Delete(r.ctx, "app", o))
		r.Settle()
		out, err := r.hub().Get(r.ctx, "app", metav1.GetOptions{})
		r.object(label+", then", out, err)
	}
	foreground := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}
	try("step 1", foreground)
	r.finalizers("what a watch sees of it", w)
	try("step 2, foreground again", foreground)
	try("step 3, orphan now", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)})
	try("step 4, default", metav1.DeleteOptions{})
	try("step 5, background", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
	try("step 6, grace", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](30)})
	try("step 7, foreground, dry run", metav1.DeleteOptions{PropagationPolicy: foreground.PropagationPolicy, DryRun: all})
	try("step 8, another uid", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")})
}

// finalizers records the finalizers of the first event with a deletion timestamp.
func (r *Recorder) finalizers(label string, w watch.Interface) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case e := <-w.ResultChan():
			if obj, ok := e.Object.(*workv1.ManifestWork); ok && obj.DeletionTimestamp != nil {
				r.line(label, fmt.Sprintf("%s %v", e.Type, shown(obj)))
				return
			}
		case <-timeout.C:
			r.line(label, "no deletion")
			return
		}
	}
}

func preconditions(r *Recorder) {
	try := func(label, name string, uid types.UID, version string) {
		p := &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
		if uid == "any" {
			p.UID = nil
		}
		if version == "any" {
			p.ResourceVersion = nil
		}
		r.err(label, r.hub().Delete(r.ctx, name, metav1.DeleteOptions{Preconditions: p}))
	}
	made, err := r.hub().Create(r.ctx, with(simple("on-condition", "1"),
		func(w *workv1.ManifestWork) { w.Finalizers = []string{"example.com/x"} }), metav1.CreateOptions{})
	if err != nil {
		r.err("create on-condition", err)
		return
	}
	r.Settle()
	try("if both wrong", "on-condition", "other", "1")
	try("if wrong uid", "on-condition", "other", made.ResourceVersion)
	try("if wrong version", "on-condition", made.UID, "1")
	try("if wrong version alone", "on-condition", "any", "1")
	try("if version that is none", "on-condition", "any", "x")
	try("if no uid", "on-condition", "", "any")
	try("if no version", "on-condition", "any", "")
	try("if of nothing", "none", made.UID, made.ResourceVersion)
	try("if both right", "on-condition", made.UID, made.ResourceVersion)
	r.Settle()
	out, err := r.hub().Get(r.ctx, "on-condition", metav1.GetOptions{})
	now := r.object("if then", out, err)
	try("if the version of before", "on-condition", made.UID, made.ResourceVersion)
	if now != nil {
		try("if both right, again", "on-condition", made.UID, now.ResourceVersion)
	}
	r.err("if neither", r.hub().Delete(r.ctx, "on-condition",
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{}}))
}

// collection records which works DeleteCollection deletes, and which remain.
func collection(r *Recorder) {
	other := r.namespace("other")
	uids := map[string]types.UID{}
	create := func(ns, name string, finalizers ...string) {
		out, err := r.Hub.ManifestWorks(ns).Create(r.ctx, with(simple(name, "1"), func(w *workv1.ManifestWork) {
			w.Labels, w.Finalizers = map[string]string{"n": name}, finalizers
		}), metav1.CreateOptions{})
		if err != nil {
			r.err("create "+name, err)
			return
		}
		uids[name] = out.UID
	}
	for _, name := range []string{"c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"} {
		create(r.ns, name)
	}
	create(r.ns, "held", "example.com/x")
	create(other, "elsewhere")
	r.Settle()
	try := func(label string, o metav1.DeleteOptions, l metav1.ListOptions) {
		r.err(label, r.hub().DeleteCollection(r.ctx, o, l))
		r.Settle()
		left, err := r.hub().List(r.ctx, metav1.ListOptions{})
		r.list(label+", left", left, err)
	}
	none, first := metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=c1"}
	page, err := r.hub().List(r.ctx, metav1.ListOptions{Limit: 1})
	r.list("page", page, err)
	try("no such field", none, metav1.ListOptions{FieldSelector: "spec.x=1"})
	try("bad field selector", none, metav1.ListOptions{FieldSelector: "a"})
	try("bad label selector", none, metav1.ListOptions{LabelSelector: "a in"})
	try("bad continue", none, metav1.ListOptions{Continue: "%%%"})
	try("bad version", none, metav1.ListOptions{ResourceVersion: "x"})
	try("exactly any", none,
		metav1.ListOptions{ResourceVersion: "0", ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	try("initial events", none, metav1.ListOptions{SendInitialEvents: ptr.To(true)})
	try("the future", none, metav1.ListOptions{ResourceVersion: "9" + page.ResourceVersion})
	try("unknown propagation", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletionPropagation("Sideways"))},
		first)
	try("both ways to propagate",
		inOldWords(true, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)}), first)
	try("unknown dry run", metav1.DeleteOptions{DryRun: []string{"Some"}}, first)
	try("uid of another", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uids["c2"]))}, first)
	try("uid of one of two", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uids["c1"]))},
		metav1.ListOptions{LabelSelector: "n in (c1,c2)"})
	try("uid", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uids["c2"]))},
		metav1.ListOptions{LabelSelector: "n=c2"})
	try("nothing matches", none, metav1.ListOptions{LabelSelector: "n=none"})
	try("by name", none, metav1.ListOptions{FieldSelector: "metadata.name=c3"})
	try("by another namespace", none, metav1.ListOptions{FieldSelector: "metadata.namespace=" + other})
	try("one", none, metav1.ListOptions{Limit: 1})
	try("from the second page on, one", none, metav1.ListOptions{Limit: 1, Continue: page.Continue})
	try("foreground", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)},
		metav1.ListOptions{LabelSelector: "n=c6"})
	try("orphan, grace", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan),
		GracePeriodSeconds: ptr.To[int64](7)}, metav1.ListOptions{LabelSelector: "n=c7"})
	try("dry run", metav1.DeleteOptions{DryRun: all}, metav1.ListOptions{})
	r.err("no namespace", r.Hub.ManifestWorks("").DeleteCollection(r.ctx, none, metav1.ListOptions{}))
	r.err("no such namespace", r.Hub.ManifestWorks("no-such-namespace").DeleteCollection(r.ctx, none,
		metav1.ListOptions{}))
	try("all", none, metav1.ListOptions{})
	try("all again", none, metav1.ListOptions{})
	out, err := r.hub().Get(r.ctx, "held", metav1.GetOptions{})
	r.object("what is held", out, err)
	out, err = r.Hub.ManifestWorks(other).Get(r.ctx, "elsewhere", metav1.GetOptions{})
	r.object("what is elsewhere", out, err)
}
