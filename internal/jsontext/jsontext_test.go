// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// known is the Go type of the tests, with only some of the fields of an object.
type known struct {
	Name   string            `json:"name,omitempty"`
	Count  int32             `json:"count,omitempty"`
	Zero   int32             `json:"zero"`
	Labels map[string]string `json:"labels,omitempty"`
	List   []item            `json:"list,omitempty"`
	Child  *child            `json:"child,omitempty"`
	Ports  []port            `json:"ports,omitempty"`
	Words  []string          `json:"words,omitempty"`
}

type item struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

type port struct {
	Port int32 `json:"port"`
}

type child struct {
	A int `json:"a,omitempty"`
	B int `json:"b,omitempty"`
}

func TestMerge(t *testing.T) {
	tests := []struct {
		name, reason string
		raw          string
		change       func(*known)
		want, patch  string
	}{
		{"nothing", "what is not changed is not in the patch", `{"count":1,"x":{"y":[1,2]}}`, func(*known) {}, `{"count":1,"x":{"y":[1,2]}}`, `[]`},
		{"a field", "beside one that is not known", `{"count":1,"x":1}`, func(k *known) { k.Count = 2 }, `{"count":2,"x":1}`, `[{"op":"replace","path":"/count","value":2}]`},
		{"a zero value", "only the type has it", `{"x":1}`, func(k *known) { k.Name = "n" }, `{"x":1,"name":"n"}`, `[{"op":"add","path":"/name","value":"n"}]`},
		{"a removed field", "", `{"count":1,"x":1}`, func(k *known) { k.Count = 0 }, `{"x":1}`, `[{"op":"remove","path":"/count"}]`},
		{"a null", "is replaced", `{"child":null}`, func(k *known) { k.Child = &child{A: 1} }, `{"child":{"a":1}}`, `[{"op":"replace","path":"/child","value":{"a":1}}]`},
		{"below", "what is beside it survives", `{"child":{"a":1,"x":2}}`, func(k *known) { k.Child.B = 3 }, `{"child":{"a":1,"x":2,"b":3}}`, `[{"op":"add","path":"/child/b","value":3}]`},
		{"a key with signs", "RFC 6901", `{"labels":{"a/b~c":"1"}}`, func(k *known) { k.Labels["a/b~c"] = "2" }, `{"labels":{"a/b~c":"2"}}`, `[{"op":"replace","path":"/labels/a~1b~0c","value":"2"}]`},
		{"an element", "by its place", `{"list":[{"name":"a","x":1},{"name":"b","x":2}]}`, func(k *known) { k.List[1].Value = "v" },
			`{"list":[{"name":"a","x":1},{"name":"b","x":2,"value":"v"}]}`, `[{"op":"add","path":"/list/1/value","value":"v"}]`},
		{"the first element goes", "the second keeps what is its own", `{"list":[{"name":"a","x":1},{"name":"b","x":2}]}`, func(k *known) { k.List = k.List[1:] },
			`{"list":[{"name":"b","x":2}]}`, ``},
		{"one goes and one comes", "a new element has nothing of the old one", `{"list":[{"name":"a","x":1},{"name":"b","x":2}]}`,
			func(k *known) { k.List = []item{k.List[1], {Name: "c"}} }, `{"list":[{"name":"b","x":2},{"name":"c"}]}`, ``},
		{"elements change places", "", `{"list":[{"name":"a","x":1},{"name":"b","x":2}]}`, func(k *known) { k.List[0], k.List[1] = k.List[1], k.List[0] },
			`{"list":[{"name":"b","x":2},{"name":"a","x":1}]}`, ``},
		{"moved and changed", "it is known by its name", `{"list":[{"name":"a","x":1},{"name":"b","x":2}]}`, func(k *known) { k.List = []item{{Name: "b", Value: "v"}} },
			`{"list":[{"name":"b","x":2,"value":"v"}]}`, ``},
		{"known by another key", "", `{"ports":[{"port":1,"x":1},{"port":2,"x":2}]}`, func(k *known) { k.Ports = k.Ports[1:] }, `{"ports":[{"port":2,"x":2}]}`, ``},
		{"words", "", `{"words":["a","b","c"]}`, func(k *known) { k.Words = []string{"a", "c", "d"} }, `{"words":["a","c","d"]}`, ``},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var k known
			if err := utiljson.Unmarshal([]byte(test.raw), &k); err != nil {
				t.Fatal(err)
			}
			before := encode(t, k)
			test.change(&k)
			merged, err := jsontext.Merge([]byte(test.raw), before, encode(t, k), reflect.TypeFor[known](), false)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(merged)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
			patch := jsontext.Patch([]byte(test.raw), merged)
			if test.patch != "" && string(patch) != test.patch {
				t.Errorf("patch %s, want %s", patch, test.patch)
			}
			applies(t, []byte(test.raw), patch, merged)
		})
	}
}

// TestLongPatch checks a change in more places than the limit of operations in a patch.
func TestLongPatch(t *testing.T) {
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

func encode(t testing.TB, v any) []byte {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
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
		if !jsontext.Valid(from) || !jsontext.Valid(to) || jsontext.KindOf(from) != jsontext.Object || jsontext.KindOf(to) != jsontext.Object {
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

// FuzzDecode checks that objects and errors equal those of apimachinery for the same text.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"name":"a\u0062","labels":{"k":"v","k":"w"},"creationTimestamp":null},"spec":{"replicas":3}}`,
		`{"spec":{"replicas":1.0}}`, `{"spec":{"Replicas":1}}`, `{"spec":{"template":{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}},null]}}}}`,
		`{"spec":{"replicas":1,"replicas":null},"metadata":{"annotations":null}}`, `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":"25%"}}}}`, `[]`, `null`, `{`,
	} {
		f.Add([]byte(seed))
	}
	if deployment, err := os.ReadFile("../../interpreter/testdata/deployment-18k.json"); err == nil {
		f.Add(deployment)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		same[appsv1.Deployment](t, data)
		same[corev1.Pod](t, data)
		same[v1alpha1.ResourceInterpreterContext](t, data)
		same[v1alpha1.ResourceExploringWebhookConfiguration](t, data)
		same[metav1.ManagedFieldsEntry](t, data)
	})
}

func same[T any](t *testing.T, data []byte) {
	t.Helper()
	var got, want T
	gotErr := jsontext.Decode(data, &got)
	var quantity *jsontext.QuantityError
	if errors.As(gotErr, &quantity) {
		return // apimachinery would not return
	}
	wantErr := utiljson.Unmarshal(data, &want)
	if (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
		t.Fatalf("%T: got the error %v, want %v", got, gotErr, wantErr)
	}
	if wantErr != nil {
		return
	}
	// Quantities keep their original text in unexported fields.
	if diff := cmp.Diff(string(encode(t, want)), string(encode(t, got))); diff != "" {
		t.Fatalf("%T (-want +got):\n%s", got, diff)
	}
}

func TestDecodeAllocations(t *testing.T) {
	data, err := os.ReadFile("../../interpreter/testdata/deployment-18k.json")
	if err != nil {
		t.Fatal(err)
	}
	ours := testing.AllocsPerRun(20, func() {
		if err := jsontext.Decode(data, &appsv1.Deployment{}); err != nil {
			t.Fatal(err)
		}
	})
	theirs := testing.AllocsPerRun(20, func() {
		if err := utiljson.Unmarshal(data, &appsv1.Deployment{}); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%v allocations, apimachinery %v", ours, theirs)
	if ours > theirs/2 {
		t.Errorf("%v allocations, apimachinery needs %v", ours, theirs)
	}
}

func TestMember(t *testing.T) {
	data := []byte(` { "a" : 1 , "b\u0041" : "x\ny", "a" : [ {} ] } `)
	if got := string(jsontext.Member(data, "a")); got != "[ {} ]" {
		t.Errorf("the last value counts, got %s", got)
	}
	if got, _ := jsontext.Text(jsontext.Member(data, "bA")); got != "x\ny" {
		t.Errorf("names and strings are decoded, got %q", got)
	}
	if got := jsontext.Member([]byte(`[1]`), "a"); got != nil {
		t.Errorf("an array has no members, got %s", got)
	}
}
