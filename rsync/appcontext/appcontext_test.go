// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

func manifest(kind, name string) []byte {
	return fmt.Appendf(nil, "apiVersion: v1\nkind: %s\nmetadata:\n  name: %q\n", kind, name)
}

// TestBadInput: Build reports each problem with its place, and all other problems.
func TestBadInput(t *testing.T) {
	x := manifest("ConfigMap", "x")
	for name, test := range map[string]struct {
		reason string
		fault  appcontext.Fault
		id     string
		build  func(*appcontext.Builder)
	}{
		"no ID":         {fault: appcontext.FaultBadName, id: "-", build: func(b *appcontext.Builder) { b.App("") }},
		"slash":         {fault: appcontext.FaultBadName, build: func(b *appcontext.Builder) { b.App("a/b") }},
		"plus":          {fault: appcontext.FaultBadName, build: func(b *appcontext.Builder) { b.App("a").Cluster("p+q", "c") }},
		"instruction":   {fault: appcontext.FaultBadName, build: func(b *appcontext.Builder) { b.App("instruction") }},
		"long":          {fault: appcontext.FaultBadName, build: func(b *appcontext.Builder) { b.App(strings.Repeat("a", 254)) }},
		"unknown app":   {fault: appcontext.FaultUnknownApp, build: func(b *appcontext.Builder) { b.App("a").DependsOn("b", appcontext.OpStatusReady, 0) }},
		"self":          {fault: appcontext.FaultCycle, build: func(b *appcontext.Builder) { b.App("a").DependsOn("a", appcontext.OpStatusReady, 0) }},
		"no status":     {fault: appcontext.FaultBadDependency, build: func(b *appcontext.Builder) { b.App("b"); b.App("a").DependsOn("b", "Done", 0) }},
		"negative wait": {fault: appcontext.FaultBadDependency, build: func(b *appcontext.Builder) { b.App("b"); b.App("a").DependsOn("b", appcontext.OpStatusReady, -1) }},
		"cycle": {fault: appcontext.FaultCycle, build: func(b *appcontext.Builder) {
			b.App("a").DependsOn("b", appcontext.OpStatusReady, 0)
			b.App("b").DependsOn("c", appcontext.OpStatusReady, 0)
			b.App("c").DependsOn("a", appcontext.OpStatusReady, 0)
		}},
		"object twice in an app":   {fault: appcontext.FaultDuplicate, build: func(b *appcontext.Builder) { b.App("a").Resource("p", "c", x).Resource("p", "c", x) }},
		"object twice in two apps": {fault: appcontext.FaultDuplicate, build: func(b *appcontext.Builder) { b.App("a").Resource("p", "c", x); b.App("b").Resource("p", "c", x) }},
		"hook":                     {fault: appcontext.FaultBadHook, build: func(b *appcontext.Builder) { b.App("a").Hook("post-mortem", "p", "c", x) }},
		"no kind": {fault: appcontext.FaultBadManifest, build: func(b *appcontext.Builder) {
			b.App("a").Resource("p", "c", []byte("apiVersion: v1\nmetadata: {name: x}"))
		}},
		"no name":       {fault: appcontext.FaultBadManifest, build: func(b *appcontext.Builder) { b.App("a").Resource("p", "c", []byte("apiVersion: v1\nkind: X")) }},
		"no apiVersion": {fault: appcontext.FaultBadManifest, build: func(b *appcontext.Builder) { b.App("a").Resource("p", "c", []byte("kind: X\nmetadata: {name: x}")) }},
		"a name that is a boolean": {fault: appcontext.FaultBadManifest, build: func(b *appcontext.Builder) {
			b.App("a").Resource("p", "c", []byte("apiVersion: v1\nkind: X\nmetadata: {name: y}"))
		}},
		"no object":     {fault: appcontext.FaultBadManifest, build: func(b *appcontext.Builder) { b.App("a").Resource("p", "c", []byte("password")) }},
		"two documents": {fault: appcontext.FaultBadManifest, build: func(b *appcontext.Builder) { b.App("a").Resource("p", "c", []byte(string(x)+"---\n"+string(x))) }},
		"manifests that are too large together": {fault: appcontext.FaultTooLarge, build: func(b *appcontext.Builder) {
			for i := range 17 {
				b.App("a").Resource("p", "c", fmt.Appendf(nil, "apiVersion: v1\nkind: X\nmetadata: {name: n%d}\n#%s", i, strings.Repeat("#", appcontext.MaxAppCluster/16)))
			}
		}},
		"everything at once": {fault: appcontext.FaultBadHook, id: "a b", build: func(b *appcontext.Builder) { b.App("a/b").Hook("x", "", "", nil).Hook("x", "p", "c", x) }},
	} {
		t.Run(name, func(t *testing.T) {
			id := "id"
			if test.id != "" {
				id = strings.Trim(test.id, "-")
			}
			b := appcontext.NewBuilder(id)
			test.build(b)
			_, err := b.Build()
			if !appcontext.Has(err, test.fault) || !errors.Is(err, appcontext.ErrInvalid) {
				t.Errorf("got %v, want %s", err, test.fault)
			}
			if err != nil && strings.Contains(err.Error(), "password") {
				t.Errorf("the error quotes the manifest: %v", err)
			}
		})
	}
	mismatch := &appcontext.AppContext{ID: "a", Apps: []appcontext.App{{Name: "a", Clusters: []appcontext.Cluster{{
		ClusterID: appcontext.ClusterID{Provider: "p", Name: "c"},
		Resources: []appcontext.Resource{{Object: appcontext.Object{Kind: "X", Name: "y"}, Manifest: x}},
	}}}}}
	if err := appcontext.Validate(mismatch); !appcontext.Has(err, appcontext.FaultIdentityMismatch) {
		t.Errorf("a manifest of another object: %v", err)
	}
}

// draw returns a random valid context.
func draw(t *rapid.T, id string) *appcontext.AppContext {
	b := appcontext.NewBuilder(id)
	taken := map[string]bool{}
	apps := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4, rapid.ID[string]).Draw(t, "apps")
	for i, app := range apps {
		builder := b.App(app)
		if i > 0 && rapid.Bool().Draw(t, "depends") {
			builder.DependsOn(apps[i-1], rapid.SampledFrom([]appcontext.OpStatus{appcontext.OpStatusDeployed, appcontext.OpStatusReady}).Draw(t, "status"),
				time.Duration(rapid.IntRange(0, 9).Draw(t, "wait"))*time.Second)
		}
		clusters := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"c1", "c2", "c3"}), 0, 3, rapid.ID[string]).Draw(t, "clusters")
		for _, cluster := range clusters {
			builder.Cluster("edge", cluster)
			for range rapid.IntRange(0, 4).Draw(t, "resources") {
				name := rapid.SampledFrom([]string{"x", "z", "w", "v"}).Draw(t, "name")
				if taken[cluster+name] {
					continue
				}
				taken[cluster+name] = true
				value := rapid.StringMatching(`[a-z"<>&é ]{0,6}`).Draw(t, "value")
				hook := rapid.SampledFrom(append(appcontext.Hooks(), appcontext.HookNone, appcontext.HookNone, appcontext.HookNone)).Draw(t, "hook")
				builder.Hook(hook, "edge", cluster, append(manifest("ConfigMap", name), "# "+value...))
			}
		}
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDiff: any context becomes any other by applying the new and changed objects and deleting the
// removed objects.
func TestDiff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := draw(t, "from"), draw(t, "to")
		have, want := flat(from), flat(to)
		d := appcontext.Diff(from, to, nil)
		for id := range d.Gone {
			if _, ok := want[id]; ok {
				t.Fatalf("%s is gone and wanted", id)
			}
			delete(have, id)
		}
		for id := range d.Moved {
			if _, gone := d.Gone[id]; gone {
				t.Fatalf("%s has moved and is gone", id)
			}
		}
		for id, text := range want {
			if d.Needs(id) {
				have[id] = text
			}
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
		same := appcontext.Diff(from, from, nil)
		if len(same.Gone)+len(same.Moved) > 0 || maps.Collect(maps.All(same.Updated)) == nil {
			t.Fatalf("a context differs from itself: %+v", same)
		}
	})
}

func flat(c *appcontext.AppContext) map[appcontext.Identity]string {
	out := map[appcontext.Identity]string{}
	for _, a := range c.Apps {
		for _, cluster := range a.Clusters {
			for _, r := range cluster.Resources {
				if r.Hook != appcontext.HookPreDelete && r.Hook != appcontext.HookPostDelete {
					out[appcontext.Identity{Cluster: cluster.ClusterID, Object: r.Object}] = string(r.Hook) + string(r.Manifest)
				}
			}
		}
	}
	return out
}

func FuzzParseObject(f *testing.F) {
	f.Add(manifest("X", "x"))
	f.Add([]byte(`{"apiVersion":"apps/v1","kind":"X","metadata":{"name":"x"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if o, err := appcontext.ParseObject(text); err == nil && (o.Kind == "" || o.Name == "") {
			t.Errorf("%q is %+v", text, o)
		}
	})
}

// TestDiffOfNil: Diff treats nil as a context without apps.
func TestDiffOfNil(t *testing.T) {
	cluster := appcontext.ClusterID{Provider: "edge", Name: "c1"}
	web := appcontext.Object{Kind: "ConfigMap", Name: "web"}
	some := &appcontext.AppContext{Apps: []appcontext.App{{Name: "web", Clusters: []appcontext.Cluster{
		{ClusterID: cluster, Resources: []appcontext.Resource{{Object: web, Manifest: manifest("ConfigMap", "web")}}},
	}}}}
	id := appcontext.Identity{Cluster: cluster, Object: web}
	if d := appcontext.Diff(nil, some, nil); d.Updated[id] != appcontext.ChangeAdded || len(d.Gone) > 0 {
		t.Errorf("from nothing: %+v", d)
	}
	if d := appcontext.Diff(some, nil, nil); len(d.Updated) > 0 || d.Gone[id].App != "web" {
		t.Errorf("to nothing: %+v", d)
	}
	if d := appcontext.Diff(nil, nil, nil); len(d.Updated)+len(d.Gone)+len(d.Moved) > 0 {
		t.Errorf("from nothing to nothing: %+v", d)
	}
}
