// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext_test

import (
	"testing"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// TestParseObjectRejectsSeveralDocuments: ParseObject rejects input that a parser of a single
// document would silently ignore.
func TestParseObjectRejectsSeveralDocuments(t *testing.T) {
	const a, b = "apiVersion: v1\nkind: A\nmetadata: {name: a}\n", "apiVersion: v1\nkind: B\nmetadata: {name: b}\n"
	const jsonA = `{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}`
	for name, test := range map[string]struct {
		manifest string
		refused  bool
	}{
		"one":                     {a, false},
		"a byte order mark":       {"\ufeff" + a, false},
		"JSON with such a mark":   {"\ufeff" + jsonA, false},
		"ends":                    {"---\n" + a + "...\n", false},
		"nothing after":           {a + "---\n---\n# c\n", false},
		"JSON and a comment":      {jsonA + " # c", false},
		"two":                     {a + "---\n" + b, true},
		"two by dots":             {a + "...\n" + b, true},
		"two by a tab":            {a + "---\t# c\n" + b, true},
		"JSON after JSON":         {jsonA + jsonA, true},
		"JSON after JSON, lines":  {jsonA + "\n" + jsonA + "\n", true},
		"fields in another case":  {`{"apiVersion":"v1","Kind":"A","metadata":{"Name":"a"}}`, true},
		"metadata that is a text": {`{"apiVersion":"v1","kind":"A","metadata":"a"}`, true},
	} {
		object, err := appcontext.ParseObject([]byte(test.manifest))
		if appcontext.Has(err, appcontext.FaultBadManifest) != test.refused {
			t.Errorf("%s: %v, %v", name, object, err)
		}
	}
	// Kubernetes reads kind and name here, not Kind and NAME.
	object, err := appcontext.ParseObject(
		[]byte(`{"apiVersion":"v1","kind":"A","Kind":"B","metadata":{"name":"a","NAME":"b"}}`))
	if want := (appcontext.Object{Kind: "A", Name: "a"}); err != nil || object != want {
		t.Errorf("got %v, %v", object, err)
	}
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
