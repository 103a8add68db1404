// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsonpatch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	reference "gopkg.in/evanphx/json-patch.v4"

	"github.com/spokewire/sdk-go/internal/jsonpatch"
)

const maxCopied = 64 << 10

// TestApplyStrict checks that patches follow RFC 6902 without Lenient.
func TestApplyStrict(t *testing.T) {
	for patch, want := range map[string]string{
		`[{"op":"replace","path":"/b","value":1}]`: "replace operation does not apply: doc is missing key: /b: " +
			"missing value",
		`[{"op":"copy","from":"/b","path":"/c"}]`: "error in copy for from: '/b': missing value",
		`[{"op":"remove","path":"/a/-1"}]`: "error in remove for path: '/a/-1': Unable to access invalid " +
			"index: -1: invalid index referenced",
		`[{"op":"add","path":"/a/4","value":1}]`: "error in add for path: '/a/4': Unable to access invalid index: " +
			"4: invalid index referenced",
		`[{"op":"add","path":"","value":{"x":1}}]`:        `{"x":1}`,
		`[{"op":"add","path":"/a/3","value":4}]`:          `{"a":[1,2,3,4]}`,
		`[{"op":"move","from":"/a/0","path":"/a/-"}]`:     `{"a":[2,3,1]}`,
		`[{"op":"copy","from":"/a","path":"/a~1~0"}]`:     `{"a":[1,2,3],"a/~":[1,2,3]}`,
		`[{"op":"test","path":"","value":{"a":[1,2,3]}}]`: `{"a":[1,2,3]}`,
		`[{"op":"move","from":"/a","path":"/a/0"}]`: "move operation does not apply: doc is missing destination " +
			"path: /a/0: missing value",
	} {
		p, err := jsonpatch.Decode([]byte(patch))
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Apply([]byte(`{"a":[1,2,3]}`), jsonpatch.Options{MaxCopied: maxCopied})
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != want {
			t.Errorf("%s\ngot  %s\nwant %s", patch, got, want)
		}
	}
}

// TestMemory checks that small texts with many parts use little memory.
func TestMemory(t *testing.T) {
	const parts = 600_000 // more than the limit of opened parts
	list := func(part string) string { return "[" + strings.Repeat(part+",", parts-1) + part + "]" }
	long := `{"a":` + list("1") + `,"b":{"x":0` + strings.Repeat(`,"y":0`, parts) + "}}"
	tooExpensive := jsonpatch.ErrTooExpensive.Error()
	for _, test := range []struct {
		name, doc, patch, want string
		most                   uint64 // MiB
	}{
		{"operations", `{}`, list("{}"), "has 600000 operations: the limit is 10000", 10},
		{"null operations", `{}`, list("null"), "has 600000 operations: the limit is 10000", 10},
		{"members of an operation", `{}`, `[{"a":0` + strings.Repeat(`,"b":0`, parts) + "}]", "Unexpected kind: unknown", 10},
		{"elements", long, `[{"op":"remove","path":"/a/0"}]`, tooExpensive, 100},
		{"members", long, `[{"op":"remove","path":"/b/x"}]`, tooExpensive, 100},
		{"elements of a value", `{}`, `[{"op":"add","path":"/a","value":` + list("1") +
			`},{"op":"test","path":"/a","value":[]}]`, tooExpensive, 100},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := jsonpatch.Decode([]byte(test.patch))
		if err == nil {
			_, err = p.Apply([]byte(test.doc), jsonpatch.Options{MaxCopied: maxCopied})
		}
		runtime.ReadMemStats(&after)
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: %v", test.name, err)
		}
		n := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%s: %d MiB allocated", test.name, n)
		if n > test.most {
			t.Errorf("%s: %d MiB allocated", test.name, n)
		}
	}
}

// TestMergeOfDeepValues checks that a merge reads ordinary documents of any size, and rejects large
// values that are deeply nested.
func TestMergeOfDeepValues(t *testing.T) {
	deep := func(depth, size int) []byte {
		return []byte(strings.Repeat(`{"a":`, depth) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat("}", depth))
	}
	for _, test := range []struct {
		depth, size int
		want        error
	}{{10, 6 << 20, nil}, {1000, 10 << 10, nil}, {9000, 100 << 10, jsonpatch.ErrTooExpensive}} {
		patch := deep(test.depth, test.size)
		out, err := jsonpatch.Merge([]byte(`{"b":1}`), patch)
		if !errors.Is(err, test.want) || err == nil && len(out) != len(patch)+len(`"b":1,`) {
			t.Errorf("depth %d, %d bytes: got %d bytes, %v", test.depth, test.size, len(out), err)
		}
		// The document alone costs only the parts that the patch opens.
		if _, err := jsonpatch.Merge(patch, []byte(`{"b":1}`)); err != nil {
			t.Errorf("a shallow patch of a document of depth %d: %v", test.depth, err)
		}
	}
}

// FuzzApply checks that results and errors equal those of the API server's library, within limits
// of memory and time.
func FuzzApply(f *testing.F) {
	const doc = `{"a":{"b":[1,{"c":null},"x"],"n":null},"l":[1,2,3],"s":"t"}`
	for _, patch := range []string{
		`[]`, `null`, `{}`, `[{"op":"add","path":"/a/b/-","value":{}}]`, `[{"op":"remove","path":"/a/b/-1"}]`,
		`[{"op":"replace","path":"","value":{"z":1}},{"op":"test","path":"/z","value":1}]`,
		`[{"op":"move","from":"/a","path":"/l/0"},{"op":"copy","from":"/l/0/b","path":"/q"}]`,
		`[{"op":"copy","from":"/a","path":"/a/x"},{"op":"copy","from":"/a","path":"/a/y"},{"op":"copy","from":"/a","path":"/a/z"}]`,
		`[{"op":"test","path":"/a/n","value":null},{"op":"test","path":"","value":[]}]`,
		`[{"op":"add","path":"/l/99999999999","value":1}]`, `[{"op":7,"path":"/a"}]`, `[{"op":"add"}]`,
		`[{"path":"a/l/1","op":"remove"}]`,
		`[{"op":"replace","path":""}]`, `[{"op":"add","path":"/x~1y~0","value":1}]`,
	} {
		f.Add([]byte(doc), []byte(patch))
	}
	f.Fuzz(func(t *testing.T, doc, patch []byte) {
		p, err := jsonpatch.Decode(patch)
		theirs, theirErr := reference.DecodePatch(patch)
		if (err == nil) != (theirErr == nil) {
			t.Fatalf("decoded: %v, by the reference: %v", err, theirErr)
		}
		if err != nil || len(doc) > 1<<20 || !json.Valid(doc) {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		got, err := p.Apply(doc, jsonpatch.Options{MaxCopied: maxCopied, Lenient: true})
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		// The constant is for other goroutines of the fuzzer, which allocate too.
		if n := after.TotalAlloc - before.TotalAlloc; n > uint64(64*(len(doc)+len(patch)+maxCopied))+32<<20 {
			t.Fatalf("%d bytes allocated for %d bytes of input", n, len(doc)+len(patch))
		}
		if took > 10*time.Second {
			t.Fatalf("took %v", took)
		}
		if err == nil && (!json.Valid(got) || len(got) > len(doc)+len(patch)*6+maxCopied) {
			t.Fatalf("made %d bytes: %.200s", len(got), got)
		}
		if errors.As(err, new(*jsonpatch.CopySizeError)) || errors.Is(err, jsonpatch.ErrTooExpensive) ||
			bytes.ContainsAny(append(doc, patch...), "<>&\u2028\u2029") ||
			bytes.Contains(append(doc, patch...), []byte("null")) {
			return // limited, or a special rule of the reference for escapes and nulls
		}
		if want, ok, theirErr := apply(theirs, doc); ok {
			if (err == nil) != (theirErr == nil) || err != nil && err.Error() != theirErr.Error() {
				t.Fatalf("got  %v\nwant %v", err, theirErr)
			}
			if err == nil && !sameJSON(t, got, want) {
				t.Fatalf("got  %s\nwant %s", got, want)
			}
		}
	})
}

// apply returns the reference's result. ok is false if the reference panics or copies too much.
func apply(p reference.Patch, doc []byte) (out []byte, ok bool, err error) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	trimmed := bytes.TrimSpace(doc)
	if len(trimmed) == 0 || trimmed[0] != '{' && trimmed[0] != '[' {
		return nil, false, nil
	}
	out, err = p.Apply(trimmed)
	return out, true, err
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	decode := func(data []byte) (v any) {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	return reflect.DeepEqual(decode(a), decode(b))
}

// FuzzMerge checks that a merge ends within seconds and does not panic.
func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1},"c":[1]}`), []byte(`{"a":{"b":null,"d":{"e":null}},"c":{}}`))
	f.Fuzz(func(t *testing.T, doc, patch []byte) {
		if !json.Valid(doc) || !json.Valid(patch) {
			return
		}
		began := time.Now()
		out, err := jsonpatch.Merge(doc, patch)
		if took := time.Since(began); took > 20*time.Second {
			t.Fatalf("took %v", took)
		}
		if err == nil && !json.Valid(out) {
			t.Fatalf("made %.200s", out)
		}
	})
}
