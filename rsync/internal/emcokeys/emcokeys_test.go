// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package emcokeys_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/internal/emcokeys"
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

// TestSampleKeysRoundTrip reads EMCO's keys and writes them again, byte for byte.
func TestSampleKeysRoundTrip(t *testing.T) {
	keys := vector(t)
	layout, err := emcokeys.Decode("4207052301187134513", keys)
	if err != nil {
		t.Fatal(err)
	}
	again, err := emcokeys.Encode(layout)
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
		layout.Resources[emcokeys.Resource{App: "web", Cluster: cluster, Name: "web+Deployment"}] != "Pending" {
		t.Errorf("read as %+v", layout)
	}
}

// TestUnknownKeysStay: Encode writes keys that Decode does not recognize again, unchanged.
func TestUnknownKeysStay(t *testing.T) {
	keys := vector(t)
	root := "/context/4207052301187134513/"
	keys[root+"new/"] = `"thing"`
	keys[root+"meta/"] = `{"Project":"p2","Future":true}`
	keys["/context/other/"] = `"other"`
	layout, err := emcokeys.Decode("4207052301187134513", keys)
	if err != nil {
		t.Fatal(err)
	}
	again, err := emcokeys.Encode(layout)
	if err != nil {
		t.Fatal(err)
	}
	delete(keys, "/context/other/")
	if diff := cmp.Diff(keys, again); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestHooksAreInstructions reads and writes hooks as EMCO stores them: in a separate instruction, and not in
// the order.
func TestHooksAreInstructions(t *testing.T) {
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
	layout, err := emcokeys.Decode("4207052301187134513", keys)
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
	again, err := emcokeys.Encode(layout)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(keys, again); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	layout.Extra = nil // Encode must then write the instruction itself
	if again, err = emcokeys.Encode(layout); err != nil {
		t.Fatal(err)
	}
	if got := again[cluster+"resource/instruction/dependency/"]; got != known {
		t.Errorf("the instruction is written as %s", got)
	}

	keys[cluster+"resource/instruction/dependency/"] = `"{\"resdependency\":{\"pre-install\":[\"migrate+Job\"],\"post-delete\":[\"migrate+Job\"]}}"`
	if _, err := emcokeys.Decode("4207052301187134513", keys); !appcontext.Has(err, appcontext.FaultBadLayout) {
		t.Errorf("a resource with two hooks: %v", err)
	}
}

func TestDecodeInconsistentKeys(t *testing.T) {
	root := "/context/4207052301187134513/"
	for name, edit := range map[string]func(map[string]string){
		"no context": func(k map[string]string) { delete(k, root) },
		"a missing app": func(
			k map[string]string) {
			k[root+"app/instruction/order/"] = `"{\"apporder\":[\"db\"]}"`
		},
		"a number as order":         func(k map[string]string) { k[root+"app/instruction/order/"] = `17` },
		"an order that is not JSON": func(k map[string]string) { k[root+"app/instruction/order/"] = `"secret"` },
		"a missing resource": func(
			k map[string]string) {
			delete(k, root+"app/web/cluster/edge+cluster1/resource/web+Deployment/")
		},
		"a cluster without provider": func(k map[string]string) { k[root+"app/web/cluster/edge/"] = `"edge"` },
	} {
		t.Run(name, func(t *testing.T) {
			keys := vector(t)
			edit(keys)
			_, err := emcokeys.Decode("4207052301187134513", keys)
			if !appcontext.Has(err, appcontext.FaultBadLayout) || !errors.Is(err, appcontext.ErrInvalid) {
				t.Errorf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error quotes a value: %v", err)
			}
		})
	}
}

// TestEncodeWithoutContext: Encode returns an error if the context is nil.
func TestEncodeWithoutContext(t *testing.T) {
	for name, layout := range map[string]*emcokeys.Layout{"no layout": nil, "no context": {Status: "Created"}} {
		if keys, err := emcokeys.Encode(layout); !appcontext.Has(err, appcontext.FaultNotRepresentable) || keys != nil {
			t.Errorf("%s: %v, %v", name, keys, err)
		}
	}
}

func TestEncodeUnsupportedContext(t *testing.T) {
	twice := appcontext.NewBuilder("a")
	twice.App("web").Resource("p", "c", []byte("apiVersion: v1\nkind: X\nmetadata: {name: x, namespace: n1}")).
		Resource("p", "c", []byte("apiVersion: v1\nkind: X\nmetadata: {name: x, namespace: n2}"))
	short := appcontext.NewBuilder("a")
	short.App("db")
	short.App("web").DependsOn("db", appcontext.OpStatusReady, time.Millisecond)
	wave, policy := appcontext.NewBuilder("a"), appcontext.NewBuilder("a")
	wave.App("web").Add("p", "c", appcontext.Resource{Manifest: manifest("Job", "x"), Wave: 1})
	policy.App("web").Add("p", "c", appcontext.Resource{
		Manifest: manifest("Job", "x"), Hook: appcontext.HookPreInstall,
		DeletePolicies: []appcontext.HookDeletePolicy{appcontext.HookDeletePolicyBeforeCreation},
	})
	for name, b := range map[string]*appcontext.Builder{
		"two resources of one name and kind": twice, "a wait of a millisecond": short, "a wave": wave,
		"a delete policy": policy,
	} {
		c, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := emcokeys.Encode(&emcokeys.Layout{Context: c}); !appcontext.Has(err, appcontext.FaultNotRepresentable) {
			t.Errorf("%s: got %v", name, err)
		}
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
			builder.DependsOn(apps[i-1],
				rapid.SampledFrom([]appcontext.OpStatus{appcontext.OpStatusDeployed, appcontext.OpStatusReady}).Draw(t, "status"),
				time.Duration(rapid.IntRange(0, 9).Draw(t, "wait"))*time.Second)
		}
		clusters := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"c1", "c2", "c3"}), 0, 3, rapid.ID[string]).Draw(t,
			"clusters")
		for _, cluster := range clusters {
			builder.Cluster("edge", cluster)
			for range rapid.IntRange(0, 4).Draw(t, "resources") {
				name := rapid.SampledFrom([]string{"x", "z", "w", "v"}).Draw(t, "name")
				if taken[cluster+name] {
					continue
				}
				taken[cluster+name] = true
				value := rapid.StringMatching(`[a-z"<>&é ]{0,6}`).Draw(t, "value")
				hook := rapid.SampledFrom(append(appcontext.Hooks(), appcontext.HookNone, appcontext.HookNone,
					appcontext.HookNone)).Draw(t, "hook")
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

// TestRandomContextsRoundTrip: Encode and Decode preserve any context and its keys. There are two
// exceptions: EMCO does not store the order of clusters, and the order of hooks among other
// resources has no meaning.
func TestRandomContextsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t, "id")
		keys, err := emcokeys.Encode(&emcokeys.Layout{Context: c, Status: "Created"})
		if err != nil {
			t.Fatal(err)
		}
		back, err := emcokeys.Decode("id", keys)
		if err != nil {
			t.Fatal(err)
		}
		again, err := emcokeys.Encode(back)
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
