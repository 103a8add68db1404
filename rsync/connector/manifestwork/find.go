// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

// holder is a work as it was read.
type holder struct {
	work   *workv1.ManifestWork
	at     map[appcontext.Object]int // the indexes of objects in its manifests
	absent bool                      // the work does not exist; work is its initial value
}

// readWork caches the indexes of the objects in a version of a work: the engine reads works after
// each change on their cluster, and to parse thousands of manifests takes seconds.
type readWork struct {
	uid     types.UID
	version string
	at      map[appcontext.Object]int
}

func (c *conn) holder(w *workv1.ManifestWork) *holder {
	c.mu.Lock()
	last := c.read[w.Name]
	c.mu.Unlock()
	if last != nil && last.uid == w.UID && last.version == w.ResourceVersion && last.version != "" {
		return &holder{work: w, at: last.at}
	}
	h := &holder{work: w, at: map[appcontext.Object]int{}}
	for i, o := range objectsOf(w) {
		h.at[o] = i
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(w.Name)
	c.read[w.Name] = &readWork{w.UID, w.ResourceVersion, h.at}
	c.places += len(h.at)
	c.boundLocked()
	return h
}

// mayHave reports whether an agent has not confirmed yet that a removed object is gone.
func (h *holder) mayHave(o appcontext.Object) bool {
	if h.absent {
		return false
	}
	for i := range h.work.Status.ResourceStatus.Manifests {
		if names(&h.work.Status.ResourceStatus.Manifests[i].ResourceMeta, o) && !h.aliased(o) {
			return true
		}
	}
	return wasRemoved(h.work, o) && reported(h.work) != nil
}

// aliased reports whether a work has an object that agents report under the same name.
func (h *holder) aliased(o appcontext.Object) bool {
	switch o.Namespace {
	case "":
		o.Namespace = metav1.NamespaceDefault
	case metav1.NamespaceDefault:
		o.Namespace = ""
	default:
		return false
	}
	_, there := h.at[o]
	return there
}

// found reports whether a work ends the search for an object.
type found func(h *holder, o appcontext.Object) bool

// held reports whether the work has the object.
func held(h *holder, o appcontext.Object) bool {
	_, ok := h.at[o]
	return ok
}

// known reports whether the work has the object, or may still have it on the cluster.
func known(h *holder, o appcontext.Object) bool { return held(h, o) || h.mayHave(o) }

// had is mayHave without works with so many removals that the removed objects are unknown.
func had(h *holder, o appcontext.Object) bool {
	return h.mayHave(o) && !slices.Contains(removedOf(h.work), anyObject)
}

// holderOf returns the work that has an object, or that had it and can have it again without a
// deletion. It returns nil for a new object.
func holderOf(works []*holder, o appcontext.Object) *holder {
	for _, is := range []found{held, had} {
		if i := slices.IndexFunc(works, func(h *holder) bool { return is(h, o) }); i >= 0 {
			return works[i]
		}
	}
	return nil
}

// find reads the app's own work, which is first in the result even if it does not exist, and the
// works that have the other objects. It lists all works only for objects without a remembered work.
func (c *conn) find(ctx context.Context, own string, objects []appcontext.Object, enough found) ([]*holder, error) {
	mine, err := c.get(ctx, own)
	if err != nil {
		return nil, err
	}
	if mine == nil {
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: own}}
		mine = &holder{work: w, absent: true}
	}
	works := []*holder{mine}
	missing := func(o appcontext.Object) bool {
		return !slices.ContainsFunc(works, func(h *holder) bool { return enough(h, o) })
	}
	names := c.remembered(objects, missing)
	delete(names, own)
	const fewer = 4 // single reads; for more works a list is cheaper
	if len(names) <= fewer {
		for name := range names {
			h, err := c.get(ctx, name)
			if err != nil {
				return nil, err
			}
			if h != nil {
				works = append(works, h)
			}
		}
	}
	if !slices.ContainsFunc(objects, missing) {
		return works, nil
	}
	all, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	works = []*holder{mine}
	for _, h := range all {
		if h.work.Name == own {
			works[0] = h
			continue
		}
		if slices.ContainsFunc(objects, func(o appcontext.Object) bool { return known(h, o) }) {
			works = append(works, h)
			c.note(h, objects)
		}
	}
	return works, nil
}

// get reads one work of the connector. It returns nil if the work does not exist.
func (c *conn) get(ctx context.Context, name string) (*holder, error) {
	w, err := c.works.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		c.mu.Lock()
		defer c.mu.Unlock()
		c.forgetLocked(name)
		return nil, nil
	case err != nil:
		return nil, c.failed(ctx, "read", name, err)
	case w.Labels[LabelManager] != c.options.Manager:
		return nil, driver.Terminal("the work %s in the namespace %s is not of manager %q", name, c.namespace,
			c.options.Manager)
	}
	return c.holder(w), nil
}

// list reads all works of the connector, in pages of one version.
func (c *conn) list(ctx context.Context) ([]*holder, error) {
	const page, attempts = 500, 3
	var expired error
	for range attempts {
		options := c.listOptions(page)
		var out []*holder
		for {
			list, err := c.works.List(ctx, options)
			if apierrors.IsResourceExpired(err) && options.Continue != "" {
				expired = err
				break // the pages took too long: start again
			}
			if err != nil {
				return nil, c.failed(ctx, "list", "", err)
			}
			for i := range list.Items {
				out = append(out, c.holder(&list.Items[i]))
			}
			if list.Continue == "" {
				return out, nil
			}
			options.Continue = list.Continue
		}
	}
	return nil, c.failed(ctx, "list", "", expired)
}

// remembered returns the names of the works in which some objects were last seen.
func (c *conn) remembered(objects []appcontext.Object, which func(appcontext.Object) bool) map[string]bool {
	names := map[string]bool{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range objects {
		if name, ok := c.holders[o]; ok && which(o) {
			names[name] = true
		}
	}
	return names
}

// note records which of the objects a work has.
func (c *conn) note(h *holder, objects []appcontext.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range objects {
		if known(h, o) {
			c.holders[o] = h.work.Name
		}
	}
	c.boundLocked()
}

func (c *conn) remember(name string, entries []entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range entries {
		c.holders[e.object] = name
	}
	c.boundLocked()
}

// boundLocked clears the caches when they are too large.
func (c *conn) boundLocked() {
	const most = 100_000
	if len(c.holders) > most {
		clear(c.holders)
	}
	if c.places > most {
		clear(c.read)
		c.places = 0
	}
}

func (c *conn) forgetLocked(name string) {
	if w := c.read[name]; w != nil {
		c.places -= len(w.at)
		delete(c.read, name)
	}
}
