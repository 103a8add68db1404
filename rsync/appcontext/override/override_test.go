// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package override_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/appcontext/override"
)

var web = appcontext.Object{Group: "apps", Kind: "Deployment", Name: "web"}

const yamlManifest = `# The front.
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
`

func build(manifest, patch string) (string, error) {
	b := appcontext.NewBuilder("shop")
	b.App("web").Resource("edge", "c1", []byte(manifest)).Override("edge", "c1", web, override.JSONPatch([]byte(patch)))
	c, err := b.Build()
	if err != nil {
		return "", err
	}
	return string(c.Apps[0].Clusters[0].Resources[0].Manifest), nil
}

// TestJSONPatch: JSON patches change YAML and JSON manifests. A patch that does not apply is
// rejected with the reason.
func TestJSONPatch(t *testing.T) {
	const jsonManifest = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":1}}`
	const changed = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":3}}`
	for patch, want := range map[string]string{
		`[{"op":"replace","path":"/spec/replicas","value":3}]`:                                          changed,
		"- {op: test, path: /spec/replicas, value: 1}\n- {op: replace, path: /spec/replicas, value: 3}": changed,
		`[]`: jsonManifest,
		`[{"op":"test","path":"/spec/replicas","value":2}]`:          "JSON patch: testing value /spec/replicas failed",
		`[{"op":"replace","path":"/spec/paused","value":true}]`:      "JSON patch: replace operation does not apply",
		`[{"op":"replace","path":"/metadata/name","value":"db"}]`:    `it changes metadata.name from "web" to "db"`,
		`[{"op":"add","path":"/metadata/namespace","value":"shop"}]`: `it changes metadata.namespace from "" to "shop"`,
		`[{"op":"replace","path":"/apiVersion","value":"apps/v2"}]`:  `it changes apiVersion from "apps/v1" to "apps/v2"`,
		`[{"op":"remove","path":"/kind"}]`:                           "the manifest has no kind",
		`[{"op":"add","path":"","value":[]}]`:                        "not a manifest",
		`null`:                                                       "JSON patch: must be a list of operations",
		`{"spec":{"replicas":3}}`:                                    "JSON patch: must be a list of operations",
		`- {op: a`:                                                   "JSON patch: ",
		"[" + strings.Repeat(`{"op":"remove","path":"/a"},`, 10_000) +
			`{"op":"remove","path":"/a"}]`: "JSON patch: has 10001 operations: the limit is 10000",
	} {
		for format, manifest := range map[string]string{"YAML": yamlManifest, "JSON": jsonManifest} {
			got, err := build(manifest, patch)
			if strings.HasPrefix(want, "{") {
				if err != nil || got != want {
					t.Errorf("%.100s of %s: %v\n%s, want\n%s", patch, format, err, got, want)
				}
				continue
			}
			if !appcontext.Has(err, appcontext.FaultBadOverride) || !strings.Contains(err.Error(), want) {
				t.Errorf("%.100s of %s: %s, %v, want %s", patch, format, got, err, want)
			}
		}
	}
}

// TestCopiesAreBounded: a patch that doubles a value many times is rejected.
func TestCopiesAreBounded(t *testing.T) {
	patch := `[{"op":"add","path":"/a","value":{"x":"` + strings.Repeat("x", 1000) + `"}}`
	for i := range 40 {
		patch += fmt.Sprintf(`,{"op":"copy","from":"/a","path":"/a/%d"}`, i)
	}
	if got, err := build(yamlManifest, patch+"]"); !appcontext.Has(err, appcontext.FaultBadOverride) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func ExampleJSONPatch() {
	b := appcontext.NewBuilder("shop")
	b.App("web").Resource("edge", "c1", []byte(yamlManifest)).Resource("edge", "c2", []byte(yamlManifest)).
		Override("edge", "c2", web, override.JSONPatch([]byte("[{op: replace, path: /spec/replicas, value: 5}]")))
	shop, err := b.Build()
	fmt.Println(err)
	fmt.Printf("%s\n", shop.Apps[0].Clusters[1].Resources[0].Manifest)
	// Output:
	// <nil>
	// {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":5}}
}
