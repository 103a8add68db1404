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
	"github.com/spokewire/sdk-go/rsync/connector"
)

// holder is a work as it was read.
type holder struct {
	work   *workv1.ManifestWork
	at     map[appcontext.Object]int // the places of objects among its manifests
	absent bool                      // it is not there: what it would be when it is made
}

// readWork has the places of the objects in a version of a work. Any change on a cluster has the engine
// look at all works there that it waits for: to parse thousands of manifests each time takes seconds.
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

// mayHave reports whether an object that is not in a work's manifests may be on the cluster because of it: it was taken out, and
// the agent has not confirmed that it is gone.
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

// aliased reports whether a work has an object that an agent reports under the same name: without a namespace, or in the
// default one.
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

// found says when an object need not be looked for any further.
type found func(h *holder, o appcontext.Object) bool

// held: the work has it.
func held(h *holder, o appcontext.Object) bool {
	_, ok := h.at[o]
	return ok
}

// known: it has it, or may have it still on the cluster.
func known(h *holder, o appcontext.Object) bool { return held(h, o) || h.mayHave(o) }

// had: it was taken out, or is reported without being in it. Which objects a work with very many removals had is not known.
func had(h *holder, o appcontext.Object) bool {
	return h.mayHave(o) && !slices.Contains(removedOf(h.work), anyObject)
}

// holderOf returns the work that has an object, or else one that it was taken out of and whose agent has not confirmed that:
// there it can come back without being deleted first. It is nil where it is new.
func holderOf(works []*holder, o appcontext.Object) *holder {
	for _, is := range []found{held, had} {
		if i := slices.IndexFunc(works, func(h *holder) bool { return is(h, o) }); i >= 0 {
			return works[i]
		}
	}
	return nil
}

// find reads the app's own work, which comes first whether it is there or not, and those of ours that have the other objects. It
// lists all only for what it finds in no work that it remembers.
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
	const fewer = 4 // than that, and a list is cheaper
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

// get reads one work of ours, nil where there is none.
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
		return nil, fault(connector.ErrTerminal, appcontext.Object{},
			"the work %s in the namespace %s is not ours: it has another manager than %q", name, c.namespace, c.options.Manager)
	}
	return c.holder(w), nil
}

// list reads all works of ours, in pages of one version.
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
				break // they took too long: begin anew
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

// remembered returns the names of the works that some objects were last seen in.
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

// note remembers which of the objects a work has.
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

// boundLocked forgets all when it is much.
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

// forgetLocked forgets a work as it was read.
func (c *conn) forgetLocked(name string) {
	if w := c.read[name]; w != nil {
		c.places -= len(w.at)
		delete(c.read, name)
	}
}
