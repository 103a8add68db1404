// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
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

// vector returns the keys and values of a context as EMCO stores them.
func vector(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/emco-appcontext.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Keys map[string]string }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Keys
}

// TestVector reads EMCO's keys and writes them again, byte for byte.
func TestVector(t *testing.T) {
	keys := vector(t)
	ids := appcontext.IDs(keys)
	if diff := cmp.Diff([]string{"4207052301187134513"}, ids); diff != "" {
		t.Fatal(diff)
	}
	layout, err := appcontext.Decode(ids[0], keys)
	if err != nil {
		t.Fatal(err)
	}
	again, err := appcontext.Encode(layout)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(keys, again); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(layout.Extra) != 0 {
		t.Errorf("not understood: %v", layout.Extra)
	}
	cluster := appcontext.ClusterID{Provider: "edge", Name: "cluster1"}
	web := layout.Context.App("web")
	if layout.Status != "Created" || !layout.Active || layout.Queue[0].Event != "Instantiate" ||
		layout.Context.Meta.LogicalCloud != "lc1" || web.DependsOn[0].Wait != 10*time.Second ||
		web.Cluster(cluster).Resources[1].Object != (appcontext.Object{Group: "apps", Kind: "Deployment", Name: "web"}) ||
		layout.Resources[appcontext.LayoutResource{App: "web", Cluster: cluster, Name: "web+Deployment"}] != "Pending" {
		t.Errorf("read as %+v", layout)
	}
}

// TestUnknownKeys: Encode writes keys that Decode does not recognize again, unchanged.
func TestUnknownKeys(t *testing.T) {
	keys := vector(t)
	root := "/context/4207052301187134513/"
	keys[root+"new/"] = `"thing"`
	keys[root+"meta/"] = `{"Project":"p2","Future":true}`
	keys["/context/other/"] = `"other"`
	layout, err := appcontext.Decode("4207052301187134513", keys)
	if err != nil {
		t.Fatal(err)
	}
	again, err := appcontext.Encode(layout)
	if err != nil {
		t.Fatal(err)
	}
	delete(keys, "/context/other/")
	if diff := cmp.Diff(keys, again); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestHookLayout reads and writes hooks as EMCO stores them: in a separate instruction, and not in
// the order.
func TestHookLayout(t *testing.T) {
	keys := vector(t)
	cluster := "/context/4207052301187134513/app/web/cluster/edge+cluster1/"
	for _, name := range []string{"crontabs+CustomResourceDefinition", "migrate+Job", "check+Job", "upgrade+Job"} {
		object, kind, _ := strings.Cut(name, "+")
		text, err := json.Marshal(string(manifest(kind, object)))
		if err != nil {
			t.Fatal(err)
		}
		keys[cluster+"resource/"+name+"/"] = string(text)
	}
	const known = `"{\"resdependency\":{\"crd-install\":[\"crontabs+CustomResourceDefinition\"],\"pre-install\":[\"migrate+Job\",\"check+Job\"]}}"`
	keys[cluster+"resource/instruction/dependency/"] = known
	keys[cluster+"meta/grp/"] = `"1"` // the group of a cluster; the engine does not need it
	layout, err := appcontext.Decode("4207052301187134513", keys)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range layout.Context.Apps[0].Clusters[0].Resources {
		got = append(got, fmt.Sprintf("%s:%s", r.Hook, r.Name))
	}
	want := []string{"crd-install:crontabs", "pre-install:migrate", "pre-install:check", ":web-config", ":web"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	again, err := appcontext.Encode(layout)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(keys, again); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	layout.Extra = nil // Encode must then write the instruction itself
	if again, err = appcontext.Encode(layout); err != nil {
		t.Fatal(err)
	}
	if got := again[cluster+"resource/instruction/dependency/"]; got != known {
		t.Errorf("the instruction is written as %s", got)
	}

	keys[cluster+"resource/instruction/dependency/"] = `"{\"resdependency\":{\"pre-install\":[\"migrate+Job\"],\"post-delete\":[\"migrate+Job\"]}}"`
	if _, err := appcontext.Decode("4207052301187134513", keys); !appcontext.Has(err, appcontext.FaultBadLayout) {
		t.Errorf("a resource with two hooks: %v", err)
	}
}

func TestBadLayout(t *testing.T) {
	root := "/context/4207052301187134513/"
	for name, edit := range map[string]func(map[string]string){
		"no context":          func(k map[string]string) { delete(k, root) },
		"an app that is not":  func(k map[string]string) { k[root+"app/instruction/order/"] = `"{\"apporder\":[\"db\"]}"` },
		"an order of numbers": func(k map[string]string) { k[root+"app/instruction/order/"] = `17` },
		"no JSON in the JSON": func(k map[string]string) { k[root+"app/instruction/order/"] = `"secret"` },
		"no resource":         func(k map[string]string) { delete(k, root+"app/web/cluster/edge+cluster1/resource/web+Deployment/") },
		"no plus sign":        func(k map[string]string) { k[root+"app/web/cluster/edge/"] = `"edge"` },
	} {
		t.Run(name, func(t *testing.T) {
			keys := vector(t)
			edit(keys)
			_, err := appcontext.Decode("4207052301187134513", keys)
			if !appcontext.Has(err, appcontext.FaultBadLayout) || !errors.Is(err, appcontext.ErrInvalid) {
				t.Errorf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error quotes a value: %v", err)
			}
		})
	}
}

func TestNotRepresentable(t *testing.T) {
	twice := appcontext.NewBuilder("a")
	twice.App("web").Resource("p", "c", []byte("apiVersion: v1\nkind: X\nmetadata: {name: x, namespace: n1}")).
		Resource("p", "c", []byte("apiVersion: v1\nkind: X\nmetadata: {name: x, namespace: n2}"))
	short := appcontext.NewBuilder("a")
	short.App("db")
	short.App("web").DependsOn("db", appcontext.OpStatusReady, time.Millisecond)
	for name, b := range map[string]*appcontext.Builder{"name and kind": twice, "half a second": short} {
		c, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := appcontext.Encode(&appcontext.Layout{Context: c}); !appcontext.Has(err, appcontext.FaultNotRepresentable) {
			t.Errorf("%s: got %v", name, err)
		}
	}
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

// TestLayoutRoundTrip: Encode and Decode preserve any context and its keys. There are two
// exceptions: EMCO does not store the order of clusters, and the order of hooks among other
// resources has no meaning.
func TestLayoutRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t, "id")
		keys, err := appcontext.Encode(&appcontext.Layout{Context: c, Status: "Created"})
		if err != nil {
			t.Fatal(err)
		}
		back, err := appcontext.Decode("id", keys)
		if err != nil {
			t.Fatal(err)
		}
		again, err := appcontext.Encode(back)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(keys, again); diff != "" {
			t.Fatalf("keys -first +second:\n%s", diff)
		}
		if err := appcontext.Validate(back.Context); err != nil {
			t.Fatal(err)
		}
		d := appcontext.Diff(c, back.Context, nil)
		if len(d.Gone)+len(d.Moved) > 0 || len(back.Context.Apps) != len(c.Apps) {
			t.Fatalf("%+v", d)
		}
		for id, change := range d.Updated {
			if change != appcontext.ChangeUnchanged {
				t.Fatalf("%s is %s", id, change)
			}
		}
	})
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

// TestNil: without a context, Encode returns an error, and Diff treats it as a context without
// apps.
func TestNil(t *testing.T) {
	for name, layout := range map[string]*appcontext.Layout{"no layout": nil, "no context": {Status: "Created"}} {
		if keys, err := appcontext.Encode(layout); !appcontext.Has(err, appcontext.FaultNotRepresentable) || keys != nil {
			t.Errorf("%s: %v, %v", name, keys, err)
		}
	}
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
