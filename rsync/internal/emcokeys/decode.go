// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package emcokeys

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Decode reads the keys of a context, and ignores the keys of other contexts. It does not validate
// the context, because for example an update context may depend on apps of the initial context. It
// returns a [*appcontext.Problem] with [appcontext.FaultBadLayout] for inconsistent keys.
//
// If a stored manifest is not an object, the resource has the name and kind of its key.
func Decode(id string, keys map[string]string) (*Layout, error) {
	d := decoder{keys: keys, root: "/context/" + id + "/"}
	l := &Layout{Context: &appcontext.AppContext{ID: id}, Resources: map[Resource]string{}}
	if _, ok := keys[d.root]; !ok {
		return nil, problem(appcontext.FaultBadLayout, d.root, "the key is missing, so the context does not exist")
	}
	d.value(d.root+"meta/", &l.Context.Meta)
	var order map[string][]string
	d.instruction(d.root+"app/"+orderKey, &order)
	for _, name := range order["apporder"] {
		l.Context.Apps = append(l.Context.Apps, d.app(name, l))
	}
	var status layoutStatus
	d.value(d.root+"status/", &status)
	l.Status = status.Status
	var queue layoutQueue
	d.value(d.root+"rsync/AppContextEventQueue/", &queue)
	l.Queue = queue.AcQueue
	_, l.Active = keys["/activecontext/"+id+"/"]
	if d.err != nil {
		return nil, d.err
	}
	return l, d.extra(l)
}

// extra stores in Extra the keys that Encode does not write, or writes with other values.
func (d *decoder) extra(l *Layout) error {
	again, err := Encode(l)
	if err != nil {
		return err
	}
	for key, value := range d.keys {
		if (strings.HasPrefix(key, d.root) || key == "/activecontext/"+l.Context.ID+"/") && again[key] != value {
			if l.Extra == nil {
				l.Extra = map[string]string{}
			}
			l.Extra[key] = value
		}
	}
	return nil
}

type decoder struct {
	keys map[string]string
	root string
	err  error
}

func (d *decoder) fail(where, format string, args ...any) {
	if d.err == nil {
		d.err = problem(appcontext.FaultBadLayout, where, format, args...)
	}
}

// value decodes the value of a key. It returns false if the key does not exist.
func (d *decoder) value(key string, into any) bool {
	text, ok := d.keys[key]
	if ok && json.Unmarshal([]byte(text), into) != nil {
		d.fail(key, "the value is not valid JSON for the key") // no details: it may be a manifest
	}
	return ok
}

func (d *decoder) instruction(key string, into any) {
	var text string
	if d.value(key, &text) && json.Unmarshal([]byte(text), into) != nil {
		d.fail(key, "the string in the value is not valid JSON for the key")
	}
}

func (d *decoder) app(name string, l *Layout) appcontext.App {
	prefix := d.root + "app/" + name + "/"
	if _, ok := d.keys[prefix]; !ok {
		d.fail(prefix, "the order of apps has %q, but the key is missing", name)
	}
	a := appcontext.App{Name: name}
	var dependencies []layoutDependency
	d.instruction(prefix+dependencyKey, &dependencies)
	for _, dep := range dependencies {
		a.DependsOn = append(a.DependsOn, appcontext.Dependency{
			App: dep.App, Status: appcontext.OpStatus(dep.Status), Wait: time.Duration(dep.Wait) * time.Second,
		})
	}
	for _, cluster := range d.below(prefix + "cluster/") {
		provider, clusterName, ok := strings.Cut(cluster, "+")
		if !ok {
			d.fail(prefix+"cluster/"+cluster+"/", "the cluster is not provider+name")
		}
		id := appcontext.ClusterID{Provider: provider, Name: clusterName}
		a.Clusters = append(a.Clusters, d.cluster(prefix+"cluster/"+cluster+"/", name, id, l))
	}
	return a
}

// below returns the names of the keys directly below a prefix, in order.
func (d *decoder) below(prefix string) []string {
	var out []string
	for key := range d.keys {
		if rest, ok := strings.CutPrefix(key, prefix); ok && strings.Count(rest, "/") == 1 &&
			strings.HasSuffix(rest, "/") {
			out = append(out, strings.TrimSuffix(rest, "/"))
		}
	}
	slices.Sort(out)
	return out
}

func (d *decoder) cluster(prefix, app string, id appcontext.ClusterID, l *Layout) appcontext.Cluster {
	c := appcontext.Cluster{ClusterID: id}
	var hooks layoutHooks
	d.instruction(prefix+"resource/"+dependencyKey, &hooks)
	var order map[string][]string
	d.instruction(prefix+"resource/"+orderKey, &order)
	hooked := map[string]appcontext.Hook{}
	for _, hook := range appcontext.Hooks() {
		for _, name := range hooks.Resources[hook] {
			if other := hooked[name]; other != appcontext.HookNone {
				d.fail(prefix+"resource/"+name+"/", "the resource has the hooks %s and %s, and can have one", other,
					hook)
			}
			hooked[name] = hook
			c.Resources = append(c.Resources, d.resource(prefix, name, hook))
		}
	}
	for _, name := range order["resorder"] {
		if hooked[name] == appcontext.HookNone { // some apps list their hooks in both
			c.Resources = append(c.Resources, d.resource(prefix, name, appcontext.HookNone))
		}
	}
	for _, r := range c.Resources {
		var status layoutStatus
		if name := layoutName(r.Object); d.value(prefix+"resource/"+name+"/status/", &status) {
			l.Resources[Resource{app, id, name}] = status.Status
		}
	}
	return c
}

func (d *decoder) resource(prefix, name string, hook appcontext.Hook) appcontext.Resource {
	key := prefix + "resource/" + name + "/"
	var manifest string
	if !d.value(key, &manifest) {
		d.fail(key, "the order of resources has %q, but the key is missing", name)
	}
	r := appcontext.Resource{Hook: hook, Manifest: []byte(manifest)}
	object, err := appcontext.ParseObject(r.Manifest)
	if err != nil || layoutName(object) != name {
		last := strings.LastIndexByte(name, '+')
		if last < 0 {
			d.fail(key, "the resource is not name+Kind")
			return r
		}
		object.Name, object.Kind = name[:last], name[last+1:]
	}
	r.Object = object
	return r
}
