// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext

import (
	"cmp"
	"iter"
	"time"
)

// AppContext is a set of apps, each with ordered resources on some clusters.
type AppContext struct {
	// ID names the context: 1 to 253 bytes of letters, digits and . _ - : @ +.
	ID   string `json:"id"`
	Meta Meta   `json:"meta"`
	// Apps run in parallel, except for their dependencies. The engine begins them in this order.
	Apps []App `json:"apps"`
}

// Meta has the owner of a context. The engine does not use it. The names are EMCO's.
type Meta struct {
	Project               string
	CompositeApp          string
	Version               string
	Release               string
	DeploymentIntentGroup string
	Namespace             string
	Level                 string
	ChildContextIDs       []string
	LogicalCloud          string
	LogicalCloudNamespace string
	LogicalCloudLevel     string
}

// App is one application.
type App struct {
	Name      string       `json:"name"`
	DependsOn []Dependency `json:"dependsOn,omitempty"`
	Clusters  []Cluster    `json:"clusters"`
}

// OpStatus is the progress of an app that a Dependency or rsync.Rollout.Until waits for.
type OpStatus string

// The values of OpStatus.
const (
	// OpStatusDeployed: all resources are applied.
	OpStatusDeployed OpStatus = "Deployed"
	// OpStatusReady: all resources are applied, and the cluster reports them as ready.
	OpStatusReady OpStatus = "Ready"
)

// Dependency makes an app wait for another app. On a cluster with both apps, the app waits for the
// other app on that cluster. On any other cluster, it waits for the other app on all clusters of
// that app. Deletion goes in the other direction.
type Dependency struct {
	App    string   `json:"app"`
	Status OpStatus `json:"status"`
	// Wait is an additional time to wait after the status. EMCO's keys have whole seconds.
	Wait time.Duration `json:"wait,omitempty"`
}

// ClusterID names a cluster by its provider and its name.
type ClusterID struct {
	Provider string `json:"provider"`
	Name     string `json:"name"`
}

// String returns provider+name, as in EMCO's keys.
func (c ClusterID) String() string { return c.Provider + "+" + c.Name }

// Cluster is an app's resources on one cluster.
type Cluster struct {
	ClusterID
	// Resources of one wave are applied in this order, and deleted in the reverse order. They
	// include hooks. The hooks of each kind have their own order.
	Resources []Resource `json:"resources"`
}

// Hook is the time at which a hook is applied. The engine then waits until the hook is ready.
// HOOKS.md of package rsync has the rules.
type Hook string

// The hooks.
const (
	HookNone        Hook = ""
	HookCRDInstall  Hook = "crd-install"
	HookPreInstall  Hook = "pre-install"
	HookPostInstall Hook = "post-install"
	HookPreDelete   Hook = "pre-delete"
	HookPostDelete  Hook = "post-delete"
)

// Hooks returns all hooks, in the order of the life of an app.
func Hooks() []Hook {
	return []Hook{HookCRDInstall, HookPreInstall, HookPostInstall, HookPreDelete, HookPostDelete}
}

// Resource is one object on one cluster.
type Resource struct {
	Object
	Hook Hook `json:"hook,omitempty"`
	// Wave is the step of the app in which the resource is applied. The lowest wave is the first
	// one. A wave begins when all resources of the earlier waves are ready. Deletion goes from the
	// highest wave to the lowest. The hooks of each kind, for example pre-install, have waves of
	// their own. For a hook, Wave is Helm's hook weight.
	Wave int `json:"wave,omitempty"`
	// DeletePolicies define when a hook is deleted, in addition to the deletion of its app. Only
	// hooks have them.
	DeletePolicies []HookDeletePolicy `json:"deletePolicies,omitempty"`
	// Manifest is YAML or JSON.
	Manifest []byte `json:"manifest"`
}

// Installed reports whether the object exists while its app is installed: all except the hooks of a
// deletion do.
func (r *Resource) Installed() bool { return r.Hook != HookPreDelete && r.Hook != HookPostDelete }

// Object identifies an object on its cluster.
type Object struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns group/kind namespace/name, without empty parts.
func (o Object) String() string {
	s := o.Kind + " "
	if o.Group != "" {
		s = o.Group + "/" + s
	}
	if o.Namespace != "" {
		s += o.Namespace + "/"
	}
	return s + o.Name
}

// Compare orders objects by group, kind, namespace and name.
func (o Object) Compare(p Object) int {
	return cmp.Or(cmp.Compare(o.Group, p.Group), cmp.Compare(o.Kind, p.Kind),
		cmp.Compare(o.Namespace, p.Namespace), cmp.Compare(o.Name, p.Name))
}

// Identity is an object on a cluster. The same identity in two apps or two contexts is the same
// object.
type Identity struct {
	Cluster ClusterID
	Object  Object
}

// String returns the cluster and the object.
func (i Identity) String() string { return i.Cluster.String() + ": " + i.Object.String() }

// Resources returns the resources of apps with their identities, in the order of the apps.
func Resources(apps []App) iter.Seq2[Identity, *Resource] {
	return func(yield func(Identity, *Resource) bool) {
		for i := range apps {
			for _, c := range apps[i].Clusters {
				for j := range c.Resources {
					if r := &c.Resources[j]; !yield(Identity{c.ClusterID, r.Object}, r) {
						return
					}
				}
			}
		}
	}
}

// App returns the app with the name, or nil.
func (c *AppContext) App(name string) *App {
	for i := range c.Apps {
		if c.Apps[i].Name == name {
			return &c.Apps[i]
		}
	}
	return nil
}

// Cluster returns the resources of the app on a cluster, or nil.
func (a *App) Cluster(id ClusterID) *Cluster {
	for i := range a.Clusters {
		if a.Clusters[i].ClusterID == id {
			return &a.Clusters[i]
		}
	}
	return nil
}
