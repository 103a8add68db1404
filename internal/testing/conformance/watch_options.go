// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// watchOptions records the options for the start of a watch.
func watchOptions(r *reads) {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	_, err := r.hub().Create(r.ctx, simple("one", "1"), metav1.CreateOptions{})
	r.err("create", err)
	r.Settle()
	one, err := r.works().Get(r.ctx, "one", metav1.GetOptions{})
	if err != nil {
		r.err("cannot get", err)
		return
	}
	open := func(label string, o metav1.ListOptions) watch.Interface {
		w, err := r.works().Watch(ctx, o)
		if err != nil {
			r.err(label, err)
			return nil
		}
		r.watches = append(r.watches, w)
		return w
	}
	record := func(events func(string, watch.Interface, int), label string, n int, o metav1.ListOptions) {
		if w := open(label, o); w != nil {
			events(label, w, n)
			w.Stop()
		}
	}
	begin := func(label string, want int, o metav1.ListOptions) { record(r.events, label, want, o) }
	yes, no, match := ptr.To(true), ptr.To(false), metav1.ResourceVersionMatchNotOlderThan
	future := "9" + one.ResourceVersion
	begin("bookmarks", 2, metav1.ListOptions{AllowWatchBookmarks: true})
	begin("bookmarks, from any", 2, metav1.ListOptions{AllowWatchBookmarks: true, ResourceVersion: "0"})
	record(r.onlyEvents, "initial events without bookmarks", 1,
		metav1.ListOptions{SendInitialEvents: yes, ResourceVersionMatch: match})
	begin("initial events from any", 2, metav1.ListOptions{SendInitialEvents: yes, AllowWatchBookmarks: true,
		ResourceVersionMatch: match, ResourceVersion: "0"})
	begin("initial events of the future", 2, metav1.ListOptions{SendInitialEvents: yes, AllowWatchBookmarks: true,
		ResourceVersionMatch: match, ResourceVersion: future})
	begin("initial events of a bad version", 2, metav1.ListOptions{SendInitialEvents: yes, AllowWatchBookmarks: true,
		ResourceVersionMatch: match, ResourceVersion: "abc"})
	begin("limit", 1, metav1.ListOptions{Limit: 1})
	begin("continue", 1, metav1.ListOptions{Continue: "x"})
	begin("limit and continue", 1, metav1.ListOptions{Limit: 1, Continue: "x"})
	record(r.onlyEvents, "continue from a version", 0,
		metav1.ListOptions{Continue: "x", ResourceVersion: one.ResourceVersion})
	begin("no initial events without match", 1, metav1.ListOptions{SendInitialEvents: no})

	labels := []string{"none from nothing", "none from any", "none from a version"}
	var watches []watch.Interface
	for i, version := range []string{"", "0", one.ResourceVersion} {
		watches = append(watches, open(labels[i], metav1.ListOptions{
			SendInitialEvents: no, ResourceVersionMatch: match, ResourceVersion: version, AllowWatchBookmarks: true,
		}))
	}
	_, err = r.hub().Patch(r.ctx, "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"1"}}}`),
		metav1.PatchOptions{})
	r.err("label", err)
	r.Settle()
	for i, w := range watches {
		if w != nil {
			r.events(labels[i], w, 1)
		}
	}
}
