// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"
)

const (
	// patience limits the wait for an event on a busy machine.
	patience = time.Minute
	// silence is the time after which a watch has no more events.
	silence = 4 * time.Second
	// laterLimit limits the wait for an event of a watch from a later version. A server may return an
	// error after some seconds.
	laterLimit = 30 * time.Second
)

// events records the events of a watch: want events, or fewer if the watch ends.
func (r *Recorder) events(label string, w watch.Interface, want int) {
	r.record(label, w, want, patience, patience)
}

// onlyEvents records the events of a watch: only these, or also the next one.
func (r *Recorder) onlyEvents(label string, w watch.Interface, only int) {
	r.record(label, w, only+1, patience, silence)
}

// record records want events of a watch. The limits are those of all events, and of the last one.
func (r *Recorder) record(label string, w watch.Interface, want int, all, last time.Duration) {
	timeout := time.NewTimer(all)
	defer timeout.Stop()
	var seen []string
	for len(seen) < want {
		if len(seen) == want-1 {
			timeout.Reset(last)
		}
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				r.line(label, strings.Join(append(seen, "closed"), ", "))
				return
			}
			seen = append(seen, r.event(e))
		case <-timeout.C:
			r.line(label, strings.Join(append(seen, "nothing more"), ", "))
			return
		}
	}
	r.line(label, strings.Join(seen, ", "))
}

// ended records whether a watch ends. A client may send an error event for the end of its own
// request.
func (r *Recorder) ended(label string, w watch.Interface) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case _, ok := <-w.ResultChan():
			if !ok {
				r.line(label, "ended")
				return
			}
		case <-timeout.C:
			r.line(label, "goes on")
			return
		}
	}
}

func (r *Recorder) event(e watch.Event) string {
	switch obj := e.Object.(type) {
	case *metav1.Status:
		return fmt.Sprintf("%s %s code=%d", e.Type, obj.Reason, obj.Code)
	case *workv1.ManifestWork:
		if e.Type == watch.Bookmark {
			return fmt.Sprintf("BOOKMARK initial-end=%t", obj.Annotations[metav1.InitialEventsAnnotationKey] == "true")
		}
		deleting := ""
		if obj.DeletionTimestamp != nil && e.Type != watch.Deleted {
			deleting = " deleting"
		}
		return fmt.Sprintf("%s %s/%s %v%s", e.Type, r.names[obj.Namespace], obj.Name, obj.Labels, deleting)
	}
	return fmt.Sprintf("%s %T", e.Type, e.Object)
}

func watches(r *reads) {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	begin := func(label string, o metav1.ListOptions) watch.Interface {
		return r.watch(ctx, label, o)
	}
	label := func(value string) {
		_, err := r.hub().Patch(r.ctx, "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"`+value+`"}}}`),
			metav1.PatchOptions{})
		if err != nil {
			r.err("label "+value, err)
		}
		r.Settle()
	}
	one, err := r.hub().Create(r.ctx, simple("one", "1"), metav1.CreateOptions{})
	r.object("create", one, err)
	r.Settle()
	if one, err = r.works().Get(r.ctx, "one", metav1.GetOptions{}); err != nil {
		r.err("cannot get", err) // each side has its own versions
		return
	}
	label("1")

	r.events("from nothing", begin("from nothing", metav1.ListOptions{}), 1)
	r.events("from any", begin("from any", metav1.ListOptions{ResourceVersion: "0"}), 1)
	r.events("from a version", begin("from a version", metav1.ListOptions{ResourceVersion: one.ResourceVersion}), 1)
	initial := metav1.ListOptions{SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	r.events("initial events", begin("initial events", initial), 2)
	initial.ResourceVersion = one.ResourceVersion
	r.events("initial events from a version", begin("initial events from a version", initial), 2)
	r.events("by name", begin("by name", metav1.ListOptions{FieldSelector: "metadata.name=one"}), 1)

	selected := begin("by label", metav1.ListOptions{LabelSelector: "x=2"})
	everything := begin("everything", metav1.ListOptions{})
	label("2")
	label("3")
	label("2")
	_, err = r.hub().Create(r.ctx, with(simple("two", "1"),
		func(w *workv1.ManifestWork) { w.Labels = map[string]string{"x": "2"} }), metav1.CreateOptions{})
	r.err("create two", err)
	r.Settle()
	r.events("by label", selected, 4)
	r.events("everything", everything, 5)

	_, err = r.works().Patch(r.ctx, "one", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/x"]}}`),
		metav1.PatchOptions{})
	r.err("finalizer", err)
	r.Settle()
	r.err("delete", r.hub().Delete(r.ctx, "one", metav1.DeleteOptions{}))
	r.Settle()
	_, err = r.works().Patch(r.ctx, "one", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{})
	r.err("let go", err)
	r.events("deletion by label", selected, 3)
	badWatches(r, one.ResourceVersion)

	endings(r)
}

// endings records the ways in which a watch ends.
func endings(r *reads) {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	begin := func(label string, o metav1.ListOptions) watch.Interface {
		o.FieldSelector = "metadata.name=none"
		return r.watch(ctx, label, o)
	}
	short := begin("timeout", metav1.ListOptions{TimeoutSeconds: ptr.To[int64](1)})
	r.events("timeout", short, 1)
	stopped := begin("stop", metav1.ListOptions{})
	stopped.Stop()
	r.ended("stop", stopped)
	cancelled := begin("cancel", metav1.ListOptions{})
	cancel()
	r.ended("cancel", cancelled)
}

// badWatches records watches that are rejected. version is a version of the watched side.
func badWatches(r *reads, version string) {
	refuse := func(label string, o metav1.ListOptions) {
		w, err := r.works().Watch(r.ctx, o)
		if err == nil {
			w.Stop()
		}
		r.err(label, err)
	}
	refuse("bad version", metav1.ListOptions{ResourceVersion: "x"})
	refuse("bad label selector", metav1.ListOptions{LabelSelector: "a in"})
	refuse("unknown field", metav1.ListOptions{FieldSelector: "spec.x=1"})
	refuse("initial events without match", metav1.ListOptions{SendInitialEvents: ptr.To(true)})
	refuse("match without initial events",
		metav1.ListOptions{ResourceVersion: "1", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	w, err := r.works().Watch(r.ctx, metav1.ListOptions{ResourceVersion: "9" + version})
	if err != nil {
		r.err("from the future", err)
		return
	}
	defer w.Stop()
	r.record("from the future", w, 2, laterLimit, patience)
}
