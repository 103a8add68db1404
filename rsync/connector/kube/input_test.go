// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/kube"
)

// TestLargeNumbers: the server receives a number that no float64 can represent exactly as it is in
// the manifest.
func TestLargeNumbers(t *testing.T) {
	a := start(t, false)
	c := open(t, kube.Cluster{Config: a.config()}, kube.Options{})
	for name, manifest := range map[string]string{
		"yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml, namespace: shop}\nlarge: 9007199254740993\nless: " +
			"-9223372036854775807\nhalf: 1.5\n",
		"json": `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "json", "namespace": "shop"}, "large": 9007199254740993, "less": -9223372036854775807, "half": 1.5}`,
	} {
		b := configMap(name)
		b.Resources[0].Manifest = []byte(manifest)
		if err := c.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		a.mu.Lock()
		sent := string(a.objects["/api/v1/namespaces/shop/configmaps/"+name])
		a.mu.Unlock()
		for _, part := range []string{`"large":9007199254740993`, `"less":-9223372036854775807`, `"half":1.5`} {
			if !strings.Contains(sent, part) {
				t.Errorf("%s: what was sent is %s, want %s in it", name, sent, part)
			}
		}
	}
}

// TestUnusualNames: an object with a name that cannot be part of a path does not affect the states
// of the other objects of its kind.
func TestUnusualNames(t *testing.T) {
	a := start(t, false)
	c := open(t, kube.Cluster{Config: a.config()}, kube.Options{})
	batch := connector.Batch{}
	for i := range 12 {
		batch.Resources = append(batch.Resources, configMap(fmt.Sprint("a", i)).Resources...)
	}
	if err := c.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	a.respond(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/configmaps") {
			return false
		}
		items := []string{}
		for i := range 12 {
			items = append(items,
				fmt.Sprintf(`{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a%d", "namespace": "shop"}}`, i))
		}
		fmt.Fprintf(w, `{"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": [%s]}`,
			strings.Join(items, ","))
		return true
	})
	odd := appcontext.Resource{Object: appcontext.Object{Kind: "ConfigMap", Namespace: "shop", Name: "a/b"}}
	batch.Resources = append([]appcontext.Resource{odd}, batch.Resources...)
	batch.Resources[0].Manifest = []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a/b, namespace: shop}}")
	states, err := c.Get(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range states {
		if s.Exists != (i > 0) {
			t.Errorf("%s exists: %v", s.Object, s.Exists)
		}
	}
}

// TestNeverApplied: Apply of an object that can never exist is a terminal error. Delete succeeds,
// and Get reports that the object does not exist.
func TestNeverApplied(t *testing.T) {
	c := open(t, kube.Cluster{Config: start(t, false).config()}, kube.Options{})
	for text, object := range map[string]appcontext.Object{
		"do not support patch":         {Kind: "Binding", Namespace: "shop", Name: "a"},
		"namespace is invalid":         {Kind: "ConfigMap", Namespace: "A shop", Name: "a"},
		"name or namespace is invalid": {Kind: "ConfigMap", Namespace: "shop", Name: ".."},
	} {
		batch := connector.Batch{Resources: []appcontext.Resource{{
			Object: object,
			Manifest: fmt.Appendf(nil, "{apiVersion: v1, kind: %s, metadata: {name: %q, namespace: %q}}", object.Kind,
				object.Name, object.Namespace),
		}}}
		refused(t, c.Apply(t.Context(), batch), connector.ErrTerminal, text)
		if err := c.Delete(t.Context(), batch); err != nil {
			t.Errorf("Delete of %s: %v", object, err)
		}
		if states, err := c.Get(t.Context(), batch); err != nil || states[0].Exists {
			t.Errorf("Get of %s: %+v, %v", object, states, err)
		}
	}
}
