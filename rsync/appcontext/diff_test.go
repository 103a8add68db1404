// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext_test

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

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

// TestDiffOfRandomContexts: any context becomes any other by applying the new and changed objects
// and deleting the removed objects.
func TestDiffOfRandomContexts(t *testing.T) {
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
