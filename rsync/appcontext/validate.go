// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/internal/cut"
)

const (
	// MaxName limits the ID of a context and the names of apps, providers and clusters, in bytes.
	MaxName = 253
	// MaxAppCluster limits the manifests of one app on one cluster, in bytes.
	MaxAppCluster = 16 << 20

	// maxProblems limits the problems that an [Error] lists.
	maxProblems = 100
)

// Validate returns an [*Error] with all problems of a context, or nil. It also checks that each
// manifest is the manifest of the object that the resource names.
func Validate(c *AppContext) error {
	if c == nil {
		return &Error{Problems: []*Problem{{Fault: FaultBadName, What: "the app context is nil"}}}
	}
	var v validator
	v.context(c, true)
	return v.err(c.ID)
}

type validator struct {
	problems []*Problem
	more     int // problems that are not listed
}

func (v *validator) err(id string) error {
	if len(v.problems) == 0 {
		return nil
	}
	return &Error{ID: id, Problems: v.problems, More: v.more}
}

func (v *validator) add(fault Fault, where, format string, args ...any) {
	if len(v.problems) >= maxProblems {
		v.more++
		return
	}
	v.problems = append(v.problems, &Problem{Fault: fault, Where: where, What: fmt.Sprintf(format, args...)})
}

func (v *validator) context(c *AppContext, manifests bool) {
	v.name("the ID", "", c.ID, "")
	apps := map[string]bool{}
	objects := map[Identity]string{}
	for i := range c.Apps {
		a := &c.Apps[i]
		where := fmt.Sprintf("app %q", short(a.Name))
		v.name("the app's name", where, a.Name, "")
		if a.Name == "instruction" {
			v.add(FaultBadName, where, "the name is reserved for EMCO's instructions")
		}
		if apps[a.Name] {
			v.add(FaultDuplicate, where, "another app has the same name")
		}
		apps[a.Name] = true
		v.clusters(a, where, objects, manifests)
	}
	v.dependencies(c, apps)
}

func (v *validator) clusters(a *App, where string, objects map[Identity]string, manifests bool) {
	seen := map[ClusterID]bool{}
	for i := range a.Clusters {
		c := &a.Clusters[i]
		place := fmt.Sprintf("%s, cluster %q", where, short(c.Provider)+"+"+short(c.Name))
		v.name("the provider's name", place, c.Provider, "+") // the provider ends at the first plus sign
		v.name("the cluster's name", place, c.Name, "")
		if seen[c.ClusterID] {
			v.add(FaultDuplicate, place, "the app is already on the cluster")
		}
		seen[c.ClusterID] = true
		size := 0
		for j := range c.Resources {
			r := &c.Resources[j]
			v.resource(c.ClusterID, r, place, objects, manifests)
			size += len(r.Manifest)
		}
		if size > MaxAppCluster {
			v.add(FaultTooLarge, place, "its manifests have %d bytes, the limit is %d: divide the app into several",
				size, MaxAppCluster)
		}
	}
}

func (v *validator) resource(
	cluster ClusterID, r *Resource, place string, objects map[Identity]string, manifests bool,
) {
	where := place + ", " + r.String()
	v.hook(r, where)
	if r.Wave < math.MinInt32 || r.Wave > math.MaxInt32 {
		v.add(FaultBadWave, where, "wave: %d does not fit into 32 bits", r.Wave)
	}
	id := Identity{cluster, r.Object}
	if before, ok := objects[id]; ok {
		v.add(FaultDuplicate, where, "the object is already in %s", before)
	}
	objects[id] = place
	if !manifests {
		return // the builder has just parsed it
	}
	object, err := ParseObject(r.Manifest)
	switch {
	case err != nil:
		v.add(FaultBadManifest, where, "%s", err)
	case object != r.Object:
		v.add(FaultIdentityMismatch, where, "the manifest is of %s", object)
	}
}

// short returns the beginning of a name that is too long, because many problems have the name in
// Where.
func short(name string) string { return cut.Text(name, MaxName) }

// name checks a part of a key. The name must contain neither a slash nor a character of not.
func (v *validator) name(what, where, name, not string) {
	switch {
	case name == "":
		v.add(FaultBadName, where, "%s is empty", what)
	case len(name) > MaxName:
		v.add(FaultBadName, where, "%s has %d bytes, the limit is %d", what, len(name), MaxName)
	case name == "." || name == "..":
		v.add(FaultBadName, where, "%s cannot be %q", what, name)
	default:
		for _, r := range name {
			if !nameRune(r) || strings.ContainsRune(not, r) {
				v.add(FaultBadName, where, "%s has the character %q", what, r)
				return
			}
		}
	}
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-:@+", r)
}

func (v *validator) dependencies(c *AppContext, apps map[string]bool) {
	for i := range c.Apps {
		a := &c.Apps[i]
		where := fmt.Sprintf("app %q", short(a.Name))
		seen := map[string]bool{}
		for _, d := range a.DependsOn {
			if !apps[d.App] {
				v.add(FaultUnknownApp, where, "it depends on %q, which the context does not have", d.App)
			}
			if seen[d.App] {
				v.add(FaultDuplicate, where, "it depends on %q twice", d.App)
			}
			seen[d.App] = true
			if d.Status != OpStatusDeployed && d.Status != OpStatusReady {
				v.add(FaultBadDependency, where, "its dependency on %q waits for %q: must be Deployed or Ready", d.App,
					d.Status)
			}
			if d.Wait < 0 {
				v.add(FaultBadDependency, where, "its dependency on %q has the negative wait %s", d.App, d.Wait)
			}
		}
	}
	if path := Cycle(c.Apps); path != nil {
		v.add(FaultCycle, fmt.Sprintf("app %q", path[0]), "dependencies form a cycle: %s", strings.Join(path, " → "))
	}
}

// Cycle returns the names of apps that depend on each other in a cycle, or nil. The last name is the
// first one again.
func Cycle(all []App) []string {
	const open, closed = 1, 2
	apps := map[string]*App{}
	for i := range all {
		if name := all[i].Name; apps[name] == nil {
			apps[name] = &all[i]
		}
	}
	state := map[string]int{}
	var path, found []string
	var visit func(name string)
	visit = func(name string) {
		if found != nil || state[name] == closed {
			return
		}
		path = append(path, name)
		if state[name] == open {
			found = slices.Clone(path[slices.Index(path, name):])
			return
		}
		state[name] = open
		if a := apps[name]; a != nil {
			for _, d := range a.DependsOn {
				visit(d.App)
			}
		}
		state[name] = closed
		path = path[:len(path)-1]
	}
	for i := range all {
		visit(all[i].Name)
	}
	return found
}
