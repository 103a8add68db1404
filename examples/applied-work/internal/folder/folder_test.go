// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package folder_test

import (
	"testing"
	"testing/fstest"

	"github.com/spokewire/sdk-go/examples/applied-work/internal/folder"
)

func TestRead(t *testing.T) {
	files := fstest.MapFS{
		"a.yaml":    {Data: []byte("kind: A\n---\n# nothing\n---\nkind: B\n")},
		"b/c.json":  {Data: []byte(`{"kind":"C"}`)},
		"d.yml":     {Data: []byte("kind: [")},
		"README.md": {Data: []byte("kind: no")},
	}
	objects, err := folder.Read(files)
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
	before := folder.Fingerprint(files)
	files["a.yaml"].Data = []byte("kind: X")
	if folder.Fingerprint(files) == before {
		t.Error("a change is not seen")
	}
}
