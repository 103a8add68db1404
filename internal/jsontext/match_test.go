// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// route is the Go type with lists that have no key.
type route struct {
	Rules []rule   `json:"rules,omitempty"`
	Hosts []rule   `json:"hosts,omitempty" patchMergeKey:"host"`
	Ports []socket `json:"ports,omitempty"`
	Items []item   `json:"items,omitempty"`
	Set   set      `json:"set,omitempty"`
	Zero  rule     `json:"zero,omitzero"`

	Map map[string]rule `json:"map,omitempty"`
}

type rule struct {
	Host   string `json:"host,omitempty"`
	Weight int32  `json:"weight"`
	Ports  []port `json:"ports,omitempty"`
}

type socket struct {
	Port     int32  `json:"port"`
	Protocol string `json:"protocol,omitempty"`
	Host     string `json:"host,omitempty"`
}

// set encodes equal elements once.
type set []rule

func (s set) MarshalJSON() ([]byte, error) {
	equal := func(a, b rule) bool { return reflect.DeepEqual(a, b) }
	return json.Marshal(slices.CompactFunc(slices.Clone([]rule(s)), equal))
}

func TestMergeLists(t *testing.T) {
	swap := func(r *route) { r.Rules[0], r.Rules[1] = r.Rules[1], r.Rules[0] }
	tests := []struct {
		name, raw string
		change    func(*route)
		want      string // the result, or the path of the error
	}{
		{"an element is changed", `{"rules":[{"host":"a"},{"host":"b","x":1}]}`,
			func(r *route) { r.Rules[1].Host = "c" }, "rules[1]"},
		{"elements are swapped and changed", `{"rules":[{"host":"a","x":1},{"host":"b","x":2}]}`,
			func(r *route) { swap(r); r.Rules[0].Weight, r.Rules[1].Weight = 1, 2 }, "rules[0]"},
		{"a field below an element is not known", `{"rules":[{"host":"a","ports":[{"port":1,"x":1}]}]}`,
			func(r *route) { r.Rules[0].Host = "c" }, "rules[0]"},
		{"the changed element has no unknown field", `{"rules":[{"host":"a"},{"host":"b","x":1}]}`,
			func(r *route) { r.Rules[0].Host = "c" }, `{"rules":[{"host":"c"},{"host":"b","x":1}]}`},
		{"zero values are known", `{"rules":[{"host":"","weight":0,"ports":[]}]}`,
			func(r *route) { r.Rules[0].Weight = 1 }, `{"rules":[{"host":"","weight":1,"ports":[]}]}`},
		{"elements are swapped", `{"rules":[{"host":"a","x":1},{"host":"b","x":2}]}`, swap,
			`{"rules":[{"host":"b","x":2},{"host":"a","x":1}]}`},
		{"an element is removed", `{"rules":[{"host":"a","x":1},{"host":"b","x":2}]}`,
			func(r *route) { r.Rules = r.Rules[1:] }, `{"rules":[{"host":"b","x":2}]}`},
		{"elements are added", `{"rules":[{"host":"a","x":1}]}`,
			func(r *route) { r.Rules = []rule{{Host: "b"}, r.Rules[0], {Host: "c"}} },
			`{"rules":[{"host":"b","weight":0},{"host":"a","x":1},{"host":"c","weight":0}]}`},
		{"one is added and one is removed", `{"rules":[{"host":"a","x":1},{"host":"b","x":2}]}`,
			func(r *route) { r.Rules = []rule{r.Rules[1], {Host: "c"}} }, "rules[0]"},
		{"all are removed", `{"rules":[{"host":"a","x":1}]}`, func(r *route) { r.Rules = nil }, `{}`},

		{"equal elements keep their order", `{"rules":[{"host":"a","x":1},{"host":"a","x":2},{"host":"b"}]}`,
			func(r *route) { slices.Reverse(r.Rules) }, `{"rules":[{"host":"b"},{"host":"a","x":1},{"host":"a","x":2}]}`},
		{"one of equal elements is removed", `{"rules":[{"host":"a","x":1},{"host":"a","x":2}]}`,
			func(r *route) { r.Rules = r.Rules[1:] }, "rules[0]"},
		{"one of elements with equal unknown fields is removed", `{"rules":[{"host":"a","x":1},{"host":"a","x":1}]}`,
			func(r *route) { r.Rules = r.Rules[1:] }, `{"rules":[{"host":"a","x":1}]}`},
		{"an element is copied", `{"rules":[{"host":"a","x":1}]}`,
			func(r *route) { r.Rules = append(r.Rules, r.Rules[0]) }, "rules[0]"},

		{"the type has a key", `{"hosts":[{"host":"a","x":1},{"host":"b","x":2}]}`,
			func(r *route) { r.Hosts = []rule{{Host: "b", Weight: 1}, {Host: "a", Weight: 2}} },
			`{"hosts":[{"host":"b","x":2,"weight":1},{"host":"a","x":1,"weight":2}]}`},
		{"another key is another element", `{"hosts":[{"host":"a","x":1}]}`,
			func(r *route) { r.Hosts[0].Host = "b" }, `{"hosts":[{"host":"b","weight":0}]}`},
		{"a key is removed", `{"hosts":[{"host":"a","x":1}]}`, func(r *route) { r.Hosts[0].Host = "" }, "hosts[0]"},
		{"two elements have a key", `{"hosts":[{"host":"a","x":1},{"host":"a","weight":1,"x":2},{"host":"b","x":3}]}`,
			func(r *route) { r.Hosts[1].Weight = 2 }, "hosts[1]"},
		{"keys of others are unique", `{"hosts":[{"host":"a","x":1},{"host":"a","weight":1,"x":2},{"host":"b","x":3}]}`,
			func(r *route) { r.Hosts[2].Weight = 2 },
			`{"hosts":[{"host":"a","x":1},{"host":"a","weight":1,"x":2},{"host":"b","x":3,"weight":2}]}`},
		{"a key has two members", `{"ports":[{"port":1,"x":1},{"port":1,"protocol":"UDP","x":2}]}`,
			func(r *route) {
				r.Ports = []socket{{Port: 1, Protocol: "UDP", Host: "b"}, {Port: 1, Protocol: "TCP", Host: "a"}}
			},
			`{"ports":[{"port":1,"protocol":"UDP","x":2,"host":"b"},{"port":1,"x":1,"protocol":"TCP","host":"a"}]}`},
		{"an element has no key", `{"items":[{"name":"a","x":1},{"name":"","x":2}]}`,
			func(r *route) { r.Items[0].Value, r.Items[1].Value = "v", "v" }, "items[1]"},

		{"the type has fewer elements", `{"set":[{"host":"a"},{"host":"a","x":1},{"host":"b"}]}`,
			func(r *route) { r.Set[2].Host = "c" }, "set[0]"},
		{"an empty struct is no removed struct", `{"zero":{"host":"a","x":1}}`,
			func(r *route) { r.Zero = rule{} }, `{"zero":{"x":1}}`},
		{"a value of a map is removed", `{"map":{"a":{"host":"a","x":1},"b":{"host":"b","x":2}}}`,
			func(r *route) { delete(r.Map, "a") }, `{"map":{"b":{"host":"b","x":2}}}`},
		{"an empty struct without unknown fields is left out", `{"zero":{"host":"a","weight":0}}`,
			func(r *route) { r.Zero = rule{} }, `{}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var r route
			if err := json.Unmarshal([]byte(test.raw), &r); err != nil {
				t.Fatal(err)
			}
			before := encode(t, r)
			test.change(&r)
			merged, err := jsontext.Merge([]byte(test.raw), before, encode(t, r), reflect.TypeFor[route](), false)
			got := string(merged)
			if e, ok := errors.AsType[*jsontext.UncertainError](err); ok {
				got = e.Path
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
