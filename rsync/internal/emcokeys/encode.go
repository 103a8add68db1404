// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package emcokeys reads and writes app contexts in the keys of EMCO's etcd, including statuses and
// queues. EMCO.md in package rsync has the keys.
package emcokeys

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Layout is a context in EMCO's keys, with the statuses and the queue of EMCO's rsync.
type Layout struct {
	Context *appcontext.AppContext
	// Status is the status of the context, for example "Instantiated". It is empty if there is no
	// status.
	Status string
	// Resources has the statuses of resources.
	Resources map[Resource]string
	// Queue is the context's queue of events.
	Queue []Element
	// Active is whether the context is among the active contexts.
	Active bool
	// Extra has unknown keys, and known keys that Encode would write with other values. Encode
	// writes them last, unchanged.
	Extra map[string]string
}

// Resource names a resource in EMCO's keys.
type Resource struct {
	App     string
	Cluster appcontext.ClusterID
	// Name is name+Kind.
	Name string
}

// Element is an element of EMCO's queue.
type Element struct {
	Event  string `json:"event"`
	UCID   string `json:"uCID"` // the other context of an update
	Status string `json:"status"`
}

type layoutQueue struct {
	AcQueue []Element
}

type layoutStatus struct {
	Status string
}

type layoutDependency struct {
	App    string `json:"app"`
	Status string `json:"opstatus"`
	Wait   int64  `json:"wait"` // seconds
}

// layoutHooks is EMCO's instruction about hooks: the resources of each hook.
type layoutHooks struct {
	Resources map[appcontext.Hook][]string `json:"resdependency"`
}

const (
	orderKey      = "instruction/order/"
	dependencyKey = "instruction/dependency/"
)

// Encode returns EMCO's keys for a context, with their values in JSON. It returns a
// [*appcontext.Problem] with [appcontext.FaultNotRepresentable] if EMCO's keys cannot represent the
// context.
func Encode(l *Layout) (map[string]string, error) {
	if l == nil || l.Context == nil {
		return nil, problem(appcontext.FaultNotRepresentable, "", "the app context is nil")
	}
	c := l.Context
	e := encoder{keys: map[string]string{}}
	root := "/context/" + c.ID + "/"
	e.put(root, c.ID)
	if !reflect.ValueOf(c.Meta).IsZero() {
		e.put(root+"meta/", c.Meta)
	}
	apps := make([]string, len(c.Apps))
	for i := range c.Apps {
		apps[i] = c.Apps[i].Name
		e.app(root+"app/"+c.Apps[i].Name+"/", &c.Apps[i])
	}
	e.instruction(root+"app/"+orderKey, map[string][]string{"apporder": apps})
	if l.Status != "" {
		e.put(root+"status/", layoutStatus{l.Status})
	}
	for r, status := range l.Resources {
		e.put(root+"app/"+r.App+"/cluster/"+r.Cluster.String()+"/resource/"+r.Name+"/status/", layoutStatus{status})
	}
	if l.Queue != nil {
		e.put(root+"rsync/AppContextEventQueue/", layoutQueue{l.Queue})
	}
	if l.Active {
		e.put("/activecontext/"+c.ID+"/", c.ID)
	}
	maps.Copy(e.keys, l.Extra)
	return e.keys, e.err
}

type encoder struct {
	keys map[string]string
	err  error
}

func (e *encoder) fail(where, format string, args ...any) {
	if e.err == nil {
		e.err = problem(appcontext.FaultNotRepresentable, where, format, args...)
	}
}

func (e *encoder) put(key string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		e.fail(key, "%s", err)
	}
	e.keys[key] = string(text)
}

// instruction writes JSON inside a JSON string.
func (e *encoder) instruction(key string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		e.fail(key, "%s", err)
	}
	e.put(key, string(text))
}

func (e *encoder) app(prefix string, a *appcontext.App) {
	e.put(prefix, a.Name)
	if len(a.DependsOn) > 0 {
		list := make([]layoutDependency, len(a.DependsOn))
		for i, d := range a.DependsOn {
			if d.Wait%time.Second != 0 {
				e.fail(fmt.Sprintf("app %q", a.Name), "EMCO waits for whole seconds, not for %s", d.Wait)
			}
			list[i] = layoutDependency{d.App, string(d.Status), int64(d.Wait / time.Second)}
		}
		e.instruction(prefix+dependencyKey, list)
	}
	for i := range a.Clusters {
		e.cluster(prefix+"cluster/"+a.Clusters[i].String()+"/", a.Name, &a.Clusters[i])
	}
}

func (e *encoder) cluster(prefix, app string, c *appcontext.Cluster) {
	e.put(prefix, c.String())
	order := []string{}
	hooks := map[appcontext.Hook][]string{}
	for i := range c.Resources {
		r := &c.Resources[i]
		name := layoutName(r.Object)
		where := fmt.Sprintf("app %q, cluster %q, %s", app, c.ClusterID, r.Object)
		key := prefix + "resource/" + name + "/"
		if _, there := e.keys[key]; there {
			e.fail(where, "EMCO's keys can have only one %s on a cluster", name)
		}
		if strings.ContainsRune(r.Name, '/') {
			e.fail(where, "a name in a key must not have a slash")
		}
		text := string(r.Manifest)
		if strings.ToValidUTF8(text, "") != text {
			e.fail(where, "EMCO stores manifests in JSON, and this manifest is not valid UTF-8")
		}
		e.put(key, text)
		if r.Wave != 0 || len(r.DeletePolicies) > 0 {
			e.fail(where, "EMCO supports neither waves nor delete policies: the resource has wave %d and policies %q",
				r.Wave, r.DeletePolicies)
		}
		if r.Hook == appcontext.HookNone {
			order = append(order, name)
		} else {
			hooks[r.Hook] = append(hooks[r.Hook], name)
		}
	}
	e.instruction(prefix+"resource/"+orderKey, map[string][]string{"resorder": order})
	if len(hooks) > 0 {
		e.instruction(prefix+"resource/"+dependencyKey, layoutHooks{hooks})
	}
}

func layoutName(o appcontext.Object) string { return o.Name + "+" + o.Kind }

func problem(fault appcontext.Fault, where, format string, args ...any) error {
	return &appcontext.Problem{Fault: fault, Where: where, What: fmt.Sprintf(format, args...)}
}
