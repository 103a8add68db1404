// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// swap is an override that replaces a part of the text.
func swap(from, to string) appcontext.Override {
	return func(manifest []byte) ([]byte, error) {
		return bytes.ReplaceAll(manifest, []byte(from), []byte(to)), nil
	}
}

var overridden = appcontext.Object{Kind: "ConfigMap", Name: "a"}

// TestOverride: overrides change one object on one cluster, in the order in which they were added.
// Contexts that were built before do not change.
func TestOverride(t *testing.T) {
	b := appcontext.NewBuilder("id")
	text := append(manifest("ConfigMap", "a"), "data: one\n"...)
	web := b.App("web")
	web.Override("edge", "c2", overridden, swap("one", "two")).Resource("edge", "c1", text).Resource("edge", "c2", text)
	first, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	web.Override("edge", "c2", overridden, swap("two", "three"))
	second, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		context     *appcontext.AppContext
		cluster     int
		name, value string
	}{{first, 0, "first", "one"}, {first, 1, "first", "two"}, {second, 0, "second", "one"},
		{second, 1, "second", "three"}} {
		r := test.context.Apps[0].Clusters[test.cluster].Resources[0]
		if !strings.Contains(string(r.Manifest), "data: "+test.value+"\n") {
			t.Errorf("cluster %d of the %s context has %s", test.cluster, test.name, r.Manifest)
		}
	}
	d := appcontext.Diff(first, second, nil)
	for id, change := range d.Updated {
		if want := map[string]appcontext.Change{"c1": appcontext.ChangeUnchanged,
			"c2": appcontext.ChangeChanged}[id.Cluster.Name]; change != want {
			t.Errorf("%s is %s, want %s", id, change, want)
		}
	}
	if err := appcontext.Validate(second); err != nil {
		t.Error(err)
	}
}

// TestOverrideDoesNotShareBytes: clusters that share a manifest keep it when an override writes
// into its argument.
func TestOverrideDoesNotShareBytes(t *testing.T) {
	text := append(manifest("ConfigMap", "a"), "data: one\n"...)
	b := appcontext.NewBuilder("id")
	b.App("web").Resource("edge", "c1", text).Resource("edge", "c2", text).Override("edge", "c2", overridden,
		func(manifest []byte) ([]byte, error) {
			copy(manifest[len(text)-len("one\n"):], "two")
			return manifest, nil
		})
	c, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"one", "two"} {
		if got := c.Apps[0].Clusters[i].Resources[0].Manifest; !bytes.Contains(got, []byte(want)) {
			t.Errorf("cluster %d has %s", i+1, got)
		}
	}
}

// TestOverridesThatDoNotApply: Build reports all overrides that do not apply, each with its place,
// its field and its reason.
func TestOverridesThatDoNotApply(t *testing.T) {
	b := appcontext.NewBuilder("id")
	text := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: here}\n")
	object := overridden
	object.Namespace = "here"
	web := b.App("web").Resource("edge", "c1", text).Resource("edge", "c2", text)
	b.App("db").Resource("edge", "c1", manifest("ConfigMap", "b"))
	tests := []struct {
		cluster  string
		object   appcontext.Object
		override appcontext.Override
		want     string
	}{
		{"c3", object, swap("", ""), "cluster: the app is not on that cluster"},
		{"c1", overridden, swap("", ""), "object: the app does not have it on that cluster"},
		{"c1", appcontext.Object{Kind: "ConfigMap", Name: "b"}, swap("", ""),
			"object: the app does not have it on that cluster"},
		{"c1", object, nil, "override: is nil"},
		{"c1", object, func([]byte) ([]byte, error) { return nil, errors.New("no value for this cluster") },
			"no value for this cluster"},
		{"c1", object, swap("v1", "v2"), `it changes apiVersion from "v1" to "v2"`},
		{"c1", object, swap("ConfigMap", "Secret"), `it changes kind from "ConfigMap" to "Secret"`},
		{"c1", object, swap("name: a", "name: z"), `it changes metadata.name from "a" to "z"`},
		{"c2", object, swap("here", "there"), `it changes metadata.namespace from "here" to "there"`},
		{"c2", object, swap(", namespace: here", ""), `it changes metadata.namespace from "here" to ""`},
		{"c2", object, swap("kind", "sort"), "its result is not a manifest: the manifest has no kind"},
	}
	for _, test := range tests {
		web.Override("edge", test.cluster, test.object, test.override)
	}
	b.App("new").Override("edge", "c1", object, swap("", ""))
	_, err := b.Build()
	problems := problemsOf(err)
	if len(problems) != len(tests)+1 {
		t.Fatalf("%d problems, want %d: %v", len(problems), len(tests)+1, err)
	}
	for i, test := range tests {
		p := problems[i]
		if p.Fault != appcontext.FaultBadOverride || !strings.Contains(p.What, test.want) ||
			!strings.Contains(p.Where, `app "web", override `) || !strings.Contains(p.Where, test.object.String()) {
			t.Errorf("override %d: %s: %v, want %s", i, p.Fault, p, test.want)
		}
	}
	if p := problems[len(tests)]; !strings.Contains(p.Error(), `app "new", override 0: cluster "edge+c1"`) {
		t.Errorf("an app without resources: %v", p)
	}
}

// TestOverrideIsValidated: Build validates the result of an override like an added manifest.
func TestOverrideIsValidated(t *testing.T) {
	job := []byte("apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {suspend: false}\n")
	b := appcontext.NewBuilder("id")
	b.App("web").Hook(appcontext.HookPreInstall, "edge", "c1", job).
		Override("edge", "c1", appcontext.Object{Group: "batch", Kind: "Job", Name: "a"}, swap("false", "true"))
	if _, err := b.Build(); !appcontext.Has(err, appcontext.FaultBadHook) {
		t.Errorf("a hook that an override suspends: %v", err)
	}
	large := appcontext.NewBuilder("id")
	large.App("web").Resource("edge", "c1", manifest("ConfigMap", "a")).Override("edge", "c1", overridden,
		func(manifest []byte) ([]byte, error) {
			return append(manifest, strings.Repeat("#", appcontext.MaxAppCluster)...), nil
		})
	if _, err := large.Build(); !appcontext.Has(err, appcontext.FaultTooLarge) &&
		!appcontext.Has(err, appcontext.FaultBadOverride) {
		t.Errorf("an override that makes a manifest too large: %v", err)
	}
}
