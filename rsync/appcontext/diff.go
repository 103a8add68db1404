// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext

import "bytes"

// Comparer reports whether a resource has changed between two contexts.
type Comparer func(before, after *Resource) bool

// Bytes is the default Comparer: a resource has changed if the bytes of its manifest differ.
func Bytes(before, after *Resource) bool { return !bytes.Equal(before.Manifest, after.Manifest) }

// Change is the difference of a resource between two contexts.
type Change string

// The changes. All except ChangeGone describe resources of the new context.
const (
	ChangeAdded     Change = "Added"
	ChangeChanged   Change = "Changed"
	ChangeUnchanged Change = "Unchanged"
	ChangeGone      Change = "Gone" // a resource that only the initial context has
)

// Place is the position of a resource in a context.
type Place struct {
	App     string
	Cluster ClusterID
	// Index is the position among the resources of the app on that cluster.
	Index int
}

// Differences has the result of Diff.
type Differences struct {
	// Updated has the change of each resource of the new context.
	Updated map[Identity]Change
	// Gone has the resources of the initial context that no app of the new context has.
	Gone map[Identity]Place
	// Moved has the resources that are in different apps of the two contexts. They are Changed or
	// Unchanged too, and are not deleted.
	Moved map[Identity]Place
}

// Diff compares an initial context and its update by the identities of resources, across apps. A
// nil comparer means [Bytes]. Pre-delete and post-delete hooks are omitted, because they are on the
// cluster only during the deletion of their app. A nil context has no apps.
func Diff(initial, update *AppContext, changed Comparer) *Differences {
	if changed == nil {
		changed = Bytes
	}
	before := index(initial)
	d := &Differences{Updated: map[Identity]Change{}, Gone: map[Identity]Place{}, Moved: map[Identity]Place{}}
	for id, now := range index(update) {
		was, ok := before[id]
		switch {
		case !ok:
			d.Updated[id] = ChangeAdded
		case was.resource.Hook != now.resource.Hook, changed(was.resource, now.resource):
			d.Updated[id] = ChangeChanged
		default:
			d.Updated[id] = ChangeUnchanged
		}
		if ok && was.place.App != now.place.App {
			d.Moved[id] = was.place
		}
		delete(before, id)
	}
	for id, was := range before {
		d.Gone[id] = was.place
	}
	return d
}

type placed struct {
	place    Place
	resource *Resource
}

func index(c *AppContext) map[Identity]placed {
	out := map[Identity]placed{}
	if c == nil {
		return out
	}
	for i := range c.Apps {
		a := &c.Apps[i]
		for j := range a.Clusters {
			cluster := &a.Clusters[j]
			for k := range cluster.Resources {
				r := &cluster.Resources[k]
				if r.Installed() {
					out[Identity{cluster.ClusterID, r.Object}] = placed{Place{a.Name, cluster.ClusterID, k}, r}
				}
			}
		}
	}
	return out
}

// Needs reports whether an update must apply a resource of the new context.
func (d *Differences) Needs(id Identity) bool {
	change := d.Updated[id]
	return change == ChangeAdded || change == ChangeChanged
}
