// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package folder_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/spokewire/sdk-go/examples/rsync/internal/folder"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

var overridden = fstest.MapFS{
	"db/a.yaml":  {Data: []byte(manifest("one") + "data: {color: blue}\n")},
	"web/b.yaml": {Data: []byte(manifest("two") + "data: {color: blue}\n")},
}

// TestOverrides checks that an override changes its object on its clusters, also without the name
// of an app.
func TestOverrides(t *testing.T) {
	overrides, err := folder.Overrides([]byte(`
overrides:
- target: {kind: ConfigMap, name: two}
  clusters: [fake+cluster2]
  patch:
  - {op: replace, path: /data/color, value: green}
`))
	if err != nil {
		t.Fatal(err)
	}
	c, err := folder.Read(overridden, "shop", "main", two, overrides)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range c.Apps {
		for _, cluster := range a.Clusters {
			want := "blue"
			if a.Name == "web" && cluster.Name == "cluster2" {
				want = "green"
			}
			if got := string(cluster.Resources[0].Manifest); !strings.Contains(got, want) {
				t.Errorf("app %s on %s: %s, want %s", a.Name, cluster.Name, got, want)
			}
		}
	}
}

func TestBadOverrides(t *testing.T) {
	const target, clusters = "target: {kind: ConfigMap, name: two}, ", "clusters: [fake+cluster1, fake+cluster2], "
	for text, want := range map[string]string{
		"{}":                                     "overrides: must have an override",
		"override: []":                           `unknown field "override"`,
		"overrides: [{}":                         "yaml",
		"overrides: [{target: {version: v1}}]":   `unknown field "version"`,
		"overrides: [{" + target + "patch: []}]": "overrides[0].clusters: must name a cluster",
		"overrides: [{" + target + "clusters: [cluster1]}]":  `overrides[0].clusters[0]: "cluster1" is not provider+name`,
		"overrides: [{" + target + clusters + "}]":           "overrides[0].patch: JSON patch: must be a list",
		"overrides: [{" + target + clusters + "patch: {}}]":  "overrides[0].patch: JSON patch: ",
		"overrides: [{" + target + "clusters: [fake+c9]}]":   "overrides[0].clusters[0]: fake+c9 is not a cluster",
		"overrides: [{target: {name: x}, " + clusters + "}]": "overrides[0].target: no manifest has",
		"overrides: [{" + target + clusters + "patch: [{op: remove, path: /data/size}]}]": "overrides[0].patch: " +
			"JSON patch: ",
		"overrides: [{" + target + clusters + "patch: [{op: replace, path: /metadata/name, value: x}]}]": `app "web", ` +
			`override 0: cluster "fake+cluster1", ConfigMap two: it changes metadata.name`,
	} {
		overrides, err := folder.Overrides([]byte(text))
		if err == nil {
			_, err = folder.Read(overridden, "shop", "main", two, overrides)
			if !appcontext.Has(err, appcontext.FaultBadOverride) {
				t.Errorf("%q: %v, want the fault BadOverride", text, err)
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	overrides, err := folder.Overrides([]byte("overrides: [{" + target + clusters + "patch: []}]"))
	if err != nil {
		t.Fatal(err)
	}
	bad := fstest.MapFS{"b.yaml": {Data: []byte(manifest("two"))}, "c.yaml": {Data: []byte(manifest("two"))}}
	if _, err := folder.Read(bad, "shop", "main", two, overrides); !appcontext.Has(err, appcontext.FaultDuplicate) {
		t.Errorf("wrong manifests with an override: %v", err)
	}
}
