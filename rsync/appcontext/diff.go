// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext

import "bytes"

// Comparer says whether a resource has changed from one context to the next.
type Comparer func(before, after *Resource) bool

// Bytes is the comparer that is used where none is given: a resource has changed when its manifest has other bytes.
func Bytes(before, after *Resource) bool { return !bytes.Equal(before.Manifest, after.Manifest) }

// Change is how a resource of one context relates to another one.
type Change string

// The changes. In the update context a resource is one of the first three, in the initial one it may be Gone.
const (
	Added     Change = "Added"
	Changed   Change = "Changed"
	Unchanged Change = "Unchanged"
	Gone      Change = "Gone"
)

// Place is where a context has a resource.
type Place struct {
	App     string
	Cluster ClusterID
	// Index is the position among the resources of the app on that cluster.
	Index int
}

// Differences is what an update must do.
type Differences struct {
	// Updated says for each resource of the update context what it is.
	Updated map[Identity]Change
	// Gone has the resources of the initial context that the update context has nowhere: not in any app.
	Gone map[Identity]Place
	// Moved has the resources that are in both, but in different apps. They are Changed or Unchanged too; nothing is deleted for
	// them.
	Moved map[Identity]Place
}

// Diff compares an initial context and its update by identity across apps. A nil comparer means [Bytes]. Hooks that run when
// an app is deleted are left out: they are not on the cluster as long as it is there. A context that is nil has no apps.
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
			d.Updated[id] = Added
		case was.resource.Hook != now.resource.Hook, changed(was.resource, now.resource):
			d.Updated[id] = Changed
		default:
			d.Updated[id] = Unchanged
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
				if r.Hook == PreDelete || r.Hook == PostDelete {
					continue // not on the cluster while the app is there
				}
				out[Identity{cluster.ClusterID, r.Object}] = placed{Place{a.Name, cluster.ClusterID, k}, r}
			}
		}
	}
	return out
}

// Needs reports whether the update context's resource has to be applied.
func (d *Differences) Needs(id Identity) bool {
	change := d.Updated[id]
	return change == Added || change == Changed
}
