// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"encoding/json"
	"reflect"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/internal/jsontext"
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
		{"nothing", "an unchanged field is not in the patch", `{"count":1,"x":{"y":[1,2]}}`, func(*known) {},
			`{"count":1,"x":{"y":[1,2]}}`, `[]`},
		{"a field", "beside one that is not known", `{"count":1,"x":1}`, func(k *known) { k.Count = 2 }, `{"count":2,"x":1}`,
			`[{"op":"replace","path":"/count","value":2}]`},
		{"a zero value", "only the type has it", `{"x":1}`, func(k *known) { k.Name = "n" }, `{"x":1,"name":"n"}`,
			`[{"op":"add","path":"/name","value":"n"}]`},
		{"a removed field", "", `{"count":1,"x":1}`, func(k *known) { k.Count = 0 }, `{"x":1}`,
			`[{"op":"remove","path":"/count"}]`},
		{"a null", "is replaced", `{"child":null}`, func(k *known) { k.Child = &child{A: 1} }, `{"child":{"a":1}}`,
			`[{"op":"replace","path":"/child","value":{"a":1}}]`},
		{"below", "the field next to it stays", `{"child":{"a":1,"x":2}}`, func(k *known) { k.Child.B = 3 },
			`{"child":{"a":1,"x":2,"b":3}}`, `[{"op":"add","path":"/child/b","value":3}]`},
		{"a key with signs", "RFC 6901", `{"labels":{"a/b~c":"1"}}`, func(k *known) { k.Labels["a/b~c"] = "2" },
			`{"labels":{"a/b~c":"2"}}`, `[{"op":"replace","path":"/labels/a~1b~0c","value":"2"}]`},
		{"an element", "by its place", `{"list":[{"name":"a","x":1},{"name":"b","x":2}]}`,
			func(k *known) { k.List[1].Value = "v" },
			`{"list":[{"name":"a","x":1},{"name":"b","x":2,"value":"v"}]}`, `[{"op":"add","path":"/list/1/value","value":"v"}]`},
		{"the first element goes", "the second keeps its own fields", `{"list":[{"name":"a","x":1},{"name":"b","x":2}]}`,
			func(k *known) { k.List = k.List[1:] },
			`{"list":[{"name":"b","x":2}]}`, ``},
		{"one goes and one comes", "a new element has nothing of the old one",
			`{"list":[{"name":"a","x":1},{"name":"b","x":2}]}`,
			func(k *known) { k.List = []item{k.List[1], {Name: "c"}} }, `{"list":[{"name":"b","x":2},{"name":"c"}]}`, ``},
		{"elements change places", "", `{"list":[{"name":"a","x":1},{"name":"b","x":2}]}`,
			func(k *known) { k.List[0], k.List[1] = k.List[1], k.List[0] },
			`{"list":[{"name":"b","x":2},{"name":"a","x":1}]}`, ``},
		{"moved and changed", "it is known by its name", `{"list":[{"name":"a","x":1},{"name":"b","x":2}]}`,
			func(k *known) { k.List = []item{{Name: "b", Value: "v"}} },
			`{"list":[{"name":"b","x":2,"value":"v"}]}`, ``},
		{"known by another key", "", `{"ports":[{"port":1,"x":1},{"port":2,"x":2}]}`,
			func(k *known) { k.Ports = k.Ports[1:] }, `{"ports":[{"port":2,"x":2}]}`, ``},
		{"words", "", `{"words":["a","b","c"]}`, func(k *known) { k.Words = []string{"a", "c", "d"} },
			`{"words":["a","c","d"]}`, ``},
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

func encode(t testing.TB, v any) []byte {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
