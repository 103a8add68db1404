// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext

import (
	"fmt"
	"slices"
	"time"
)

// Builder builds a context. Its methods collect problems, and Build reports all of them. The zero
// value is not usable: see [NewBuilder].
type Builder struct {
	context  AppContext
	apps     []*AppBuilder
	byName   map[string]*AppBuilder
	problems []*Problem
}

// AppBuilder builds one app of a Builder.
type AppBuilder struct {
	builder  *Builder
	app      App
	clusters map[ClusterID]int // indexes in app.Clusters

	overrides []placedOverride
}

// NewBuilder returns a Builder for a context with an ID.
func NewBuilder(id string) *Builder {
	return &Builder{context: AppContext{ID: id}, byName: map[string]*AppBuilder{}}
}

// Meta sets the owner of the context.
func (b *Builder) Meta(meta Meta) *Builder {
	b.context.Meta = meta
	return b
}

// App returns the app with the name. If the context does not have the app, App adds it after the
// others.
func (b *Builder) App(name string) *AppBuilder {
	if a := b.byName[name]; a != nil {
		return a
	}
	a := &AppBuilder{builder: b, app: App{Name: name}, clusters: map[ClusterID]int{}}
	b.apps, b.byName[name] = append(b.apps, a), a
	return a
}

// DependsOn makes the app wait until another app has a status, and then for some time more: see
// [Dependency].
func (a *AppBuilder) DependsOn(app string, status OpStatus, wait time.Duration) *AppBuilder {
	a.app.DependsOn = append(a.app.DependsOn, Dependency{App: app, Status: status, Wait: wait})
	return a
}

// Cluster places the app on a cluster. Resource, Hook and Add also do so.
func (a *AppBuilder) Cluster(provider, name string) *AppBuilder {
	a.cluster(ClusterID{provider, name})
	return a
}

// Resource adds an object on a cluster. Resources are applied in the order of these calls. Use Add
// for other waves than 0.
func (a *AppBuilder) Resource(provider, cluster string, manifest []byte) *AppBuilder {
	return a.Hook(HookNone, provider, cluster, manifest)
}

// Hook adds a hook: an object that is applied at a certain time in the life of the app on the
// cluster. Use Add for a hook with a weight or delete policies.
func (a *AppBuilder) Hook(hook Hook, provider, cluster string, manifest []byte) *AppBuilder {
	return a.Add(provider, cluster, Resource{Hook: hook, Manifest: manifest})
}

// Add adds a resource with all of its fields: its wave, and the delete policies of a hook. The
// manifest names the object; the field Object is ignored.
func (a *AppBuilder) Add(provider, cluster string, r Resource) *AppBuilder {
	c := a.cluster(ClusterID{provider, cluster})
	object, err := ParseObject(r.Manifest)
	if err != nil {
		a.builder.problems = append(a.builder.problems, &Problem{
			Fault: FaultBadManifest, What: err.Error(),
			Where: fmt.Sprintf("app %q, cluster %q, resource %d", a.app.Name, c.ClusterID, len(c.Resources)),
		})
		return a
	}
	r.Object = object
	c.Resources = append(c.Resources, r)
	return a
}

// Override changes the manifest of an object of the app on one cluster, when the context is built.
// The object may be added before or after this call. Overrides of one object are applied in the
// order of the calls. Package override has JSON patches.
//
// Build reports an override of an unknown object, and an override that fails or changes the
// apiVersion or the identity of the object.
func (a *AppBuilder) Override(provider, cluster string, object Object, override Override) *AppBuilder {
	a.overrides = append(a.overrides, placedOverride{ClusterID{provider, cluster}, object, override})
	return a
}

func (a *AppBuilder) cluster(id ClusterID) *Cluster {
	at, known := a.clusters[id]
	if !known {
		at = len(a.app.Clusters)
		a.app.Clusters, a.clusters[id] = append(a.app.Clusters, Cluster{ClusterID: id}), at
	}
	return &a.app.Clusters[at]
}

// Build returns the context, or an [*Error] with all problems. Later calls of the Builder do not
// change the context.
func (b *Builder) Build() (*AppContext, error) {
	out := b.context
	out.Apps = make([]App, len(b.apps))
	for i, a := range b.apps {
		out.Apps[i] = a.app
		out.Apps[i].Clusters = slices.Clone(a.app.Clusters)
	}
	v := validator{problems: b.problems[:len(b.problems):len(b.problems)]}
	for i, a := range b.apps {
		v.override(&out.Apps[i], a.overrides)
	}
	v.context(&out, false)
	if err := v.err(out.ID); err != nil {
		return nil, err
	}
	return &out, nil
}
