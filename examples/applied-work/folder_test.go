// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/fstest"
)

func TestRead(t *testing.T) {
	files := fstest.MapFS{
		"a.yaml":    {Data: []byte("kind: A\n---\n# nothing\n---\nkind: B\n")},
		"b/c.json":  {Data: []byte(`{"kind":"C"}`)},
		"d.yml":     {Data: []byte("kind: [")},
		"README.md": {Data: []byte("kind: no")},
	}
	objects, err := readManifests(files)
	got := ""
	for _, o := range objects {
		if o == nil {
			got += "?"
			continue
		}
		got += o.GetKind()
	}
	if got != "ABC?" || err == nil {
		t.Errorf("%s, %v, want ABC? and what is wrong with d.yml", got, err)
	}
	files["a.yaml"].Data = []byte("kind: X")
	if changed, _ := readManifests(files); reflect.DeepEqual(changed, objects) {
		t.Error("a change is not seen")
	}
}

// unreadable is a folder with a file that cannot be read.
type unreadable struct{ fstest.MapFS }

func (u unreadable) Open(name string) (fs.File, error) {
	if name == "b.yaml" {
		return nil, fs.ErrPermission
	}
	return u.MapFS.Open(name)
}

func (u unreadable) ReadFile(name string) ([]byte, error) {
	if name == "b.yaml" {
		return nil, fs.ErrPermission
	}
	return u.MapFS.ReadFile(name)
}

// TestReadUnreadableFiles checks that an unreadable file or folder results in a nil object, which
// prevents pruning. It may have the manifest of any object.
func TestReadUnreadableFiles(t *testing.T) {
	for reason, files := range map[string]fs.FS{
		"a file":   unreadable{fstest.MapFS{"b.yaml": {Data: []byte("kind: B")}, "c.yaml": {Data: []byte("kind: C")}}},
		"a folder": os.DirFS(filepath.Join(t.TempDir(), "missing")),
	} {
		objects, err := readManifests(files)
		if err == nil || len(objects) == 0 || objects[len(objects)-1] != nil {
			t.Errorf("%s: %v, %v, want a nil object at the end and why", reason, objects, err)
		}
	}
}
