// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package folder_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/appcontext/folder"
)

func manifest(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
}

var two = []appcontext.ClusterID{{Provider: "fake", Name: "cluster1"}, {Provider: "fake", Name: "cluster2"}}

// build returns the context of a folder.
func build(files fs.FS, clusters ...appcontext.ClusterID) (*appcontext.AppContext, error) {
	b := appcontext.NewBuilder("shop")
	if err := folder.Add(b, files, "main", clusters...); err != nil {
		return nil, err
	}
	return b.Build()
}

func TestAdd(t *testing.T) {
	files := fstest.MapFS{
		"b.yaml":     {Data: []byte("# first\n" + manifest("one") + "---\n# nothing\n---\n" + manifest("two"))},
		"db/a.yml":   {Data: []byte(manifest("three"))},
		"web/c.json": {Data: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"four"}}`)},
		"README.md":  {Data: []byte("no manifest")},
	}
	c, err := build(files, two...)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range c.Apps {
		for _, cluster := range a.Clusters {
			for _, r := range cluster.Resources {
				got = append(got, a.Name+"@"+cluster.Name+" "+r.Name)
			}
		}
	}
	want := "main@cluster1 one, main@cluster1 two, main@cluster2 one, main@cluster2 two, db@cluster1 three, db@cluster2 " +
		"three, web@cluster1 four, web@cluster2 four"
	if strings.Join(got, ", ") != want {
		t.Errorf("%s", strings.Join(got, ", "))
	}
}

func TestBadFolders(t *testing.T) {
	for want, files := range map[string]fstest.MapFS{
		"no manifest in a file":    {"README.md": {}},
		"the manifest has no kind": {"a.yaml": {Data: []byte("apiVersion: v1")}},
		"the object is already": {"a.yaml": {Data: []byte(manifest("one"))},
			"web/b.yaml": {Data: []byte(manifest("one"))}},
		"neither a YAML nor a JSON object":    {"a.json": {Data: []byte("{")}},
		`the app's name has the character '/`: {"a/b/c.yaml": {Data: []byte(manifest("one"))}},
	} {
		if _, err := build(files, two...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
