// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// TestPatchWithTooManyOperations checks a change in more places than the limit of operations in a patch.
func TestPatchWithTooManyOperations(t *testing.T) {
	from, to := make([]int, jsontext.MaxOperations+1), make([]int, jsontext.MaxOperations+1)
	for i := range to {
		to[i] = 1
	}
	a, b := encode(t, map[string]any{"n": from}), encode(t, map[string]any{"n": to})
	patch := jsontext.Patch(a, b)
	if want := `[{"op":"replace","path":"","value":` + string(b) + "}]"; string(patch) != want {
		t.Errorf("the patch is %.60s…", patch)
	}
	applies(t, a, patch, b)
}

// applies checks a patch with another implementation of RFC 6902.
func applies(t *testing.T, from, patch, want []byte) {
	t.Helper()
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatalf("%s: %v", patch, err)
	}
	got, err := operations.Apply(from)
	if err != nil {
		t.Fatalf("%s: %v", patch, err)
	}
	if !jsonpatch.Equal(got, want) {
		t.Fatalf("%s makes\n%s\nof\n%s\nwant\n%s", patch, got, from, want)
	}
}

// FuzzPatch checks that a patch turns one text into the other.
func FuzzPatch(f *testing.F) {
	f.Add([]byte(`{"a":[1,2,{"b":null}],"c":"d"}`), []byte(`{"a":[2,{"b":[]}],"e/~":{}}`))
	f.Add([]byte(`[1,2,3,4]`), []byte(`[1,4]`))
	f.Add([]byte(`{"":[],"a":{"":{"b":1}}}`), []byte(`{"":[{}],"a":{"":{"b":2,"c":3}}}`))
	f.Add([]byte(`{"":[],"a":{"":1}}`), []byte(`{"a":{"":2}}`))
	f.Add([]byte(`{"a":{}}`), []byte(`{"":{},"a":{"":2}}`))
	f.Fuzz(func(t *testing.T, from, to []byte) {
		if !jsontext.Valid(from) || !jsontext.Valid(to) || jsontext.KindOf(from) != jsontext.Object ||
			jsontext.KindOf(to) != jsontext.Object {
			return
		}
		from, to = normal(from), normal(to)
		if from == nil || to == nil {
			return
		}
		applies(t, from, jsontext.Patch(from, to), to)
	})
}

// normal removes differences between libraries: repeated keys, broken UTF-8, and the spelling of
// numbers.
func normal(data []byte) []byte {
	var v any
	if err := utiljson.Unmarshal(data, &v); err != nil {
		return nil
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return out
}
