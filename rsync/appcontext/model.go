// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext

import (
	"cmp"
	"time"
)

// AppContext is a set of apps, each on some clusters with resources in order.
type AppContext struct {
	// ID names the context: 1 to 253 bytes of letters, digits, '.', '_' and '-'.
	ID   string `json:"id"`
	Meta Meta   `json:"meta"`
	// Apps are in the order in which they are looked at; what must wait for what is said by their dependencies.
	Apps []App `json:"apps"`
}

// Meta says what a context belongs to. The engine does not use it. The names are those of EMCO.
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

// OpStatus is how far the app that another depends on must be.
type OpStatus string

// What a dependency waits for.
const (
	// Deployed: all resources are applied.
	Deployed OpStatus = "Deployed"
	// Ready: they are applied, and the cluster says that they are ready.
	Ready OpStatus = "Ready"
)

// Dependency makes an app wait for another one. Where both are on one cluster the app waits for the other one there; on a
// cluster that the other one is not on, it waits for it on all of its clusters. Deletion goes the other way round.
type Dependency struct {
	App    string   `json:"app"`
	Status OpStatus `json:"status"`
	// Wait is how long to wait beyond that. EMCO keeps whole seconds.
	Wait time.Duration `json:"wait,omitempty"`
}

// ClusterID names a cluster: who provides it, and its name there.
type ClusterID struct {
	Provider string `json:"provider"`
	Name     string `json:"name"`
}

// String returns provider+name, as EMCO's keys have it.
func (c ClusterID) String() string { return c.Provider + "+" + c.Name }

// Cluster is an app's resources on one cluster.
type Cluster struct {
	ClusterID
	// Resources are applied in this order and deleted in the reverse one, where their waves are
	// equal. Hooks are among them; of each kind of hook the order counts separately.
	Resources []Resource `json:"resources"`
}

// Hook says when a resource is applied that is not simply part of the app. The engine waits until it is ready.
type Hook string

// The hooks.
const (
	NoHook      Hook = ""
	CRDInstall  Hook = "crd-install"
	PreInstall  Hook = "pre-install"
	PostInstall Hook = "post-install"
	PreDelete   Hook = "pre-delete"
	PostDelete  Hook = "post-delete"
)

// Hooks are all hooks, in the order in which they come in the life of an app.
func Hooks() []Hook { return []Hook{CRDInstall, PreInstall, PostInstall, PreDelete, PostDelete} }

// Resource is one object on one cluster.
type Resource struct {
	Object
	Hook Hook `json:"hook,omitempty"`
	// Wave is the step of the app in which the resource is applied. The lowest wave is the first
	// one. A wave begins when all resources of the waves before are ready. Deletion goes from the
	// highest wave to the lowest. Each hook has waves of its own: there, Wave is Helm's hook
	// weight.
	Wave int `json:"wave,omitempty"`
	// DeletePolicies are when a hook is deleted, apart from the end of its app. Only hooks have
	// them.
	DeletePolicies []HookDeletePolicy `json:"deletePolicies,omitempty"`
	// Manifest is YAML or JSON, as it was given.
	Manifest []byte `json:"manifest"`
}

// Object identifies an object on its cluster.
type Object struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns group/kind namespace/name, without what is empty.
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

// Identity is an object on a cluster. The same identity in two apps or two contexts is the same object.
type Identity struct {
	Cluster ClusterID
	Object  Object
}

// String returns the cluster and the object.
func (i Identity) String() string { return i.Cluster.String() + ": " + i.Object.String() }

// App returns the app of that name, or nil.
func (c *AppContext) App(name string) *App {
	for i := range c.Apps {
		if c.Apps[i].Name == name {
			return &c.Apps[i]
		}
	}
	return nil
}

// Cluster returns the app's part on a cluster, or nil.
func (a *App) Cluster(id ClusterID) *Cluster {
	for i := range a.Clusters {
		if a.Clusters[i].ClusterID == id {
			return &a.Clusters[i]
		}
	}
	return nil
}

// Of returns the resources with one hook (NoHook for those without), in order.
func (c *Cluster) Of(hook Hook) []Resource {
	var out []Resource
	for _, r := range c.Resources {
		if r.Hook == hook {
			out = append(out, r)
		}
	}
	return out
}
