// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spokewire/sdk-go/interpreter"
)

// wild matches any group, version or kind.
const wild = "*"

// target is a pattern of kinds. The group may be * or begin with *. Version and kind may be *.
type target struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// parse returns the pattern, or the invalid field and its error.
func (t target) parse() (gvk schema.GroupVersionKind, field string, err error) {
	gvk.Kind = t.Kind
	switch {
	case t.APIVersion == "":
		return gvk, "apiVersion", errors.New("is required")
	case t.Kind == "":
		return gvk, "kind", errors.New("is required")
	case t.Kind != wild && len(validation.IsDNS1035Label(strings.ToLower(t.Kind))) > 0:
		return gvk, "kind", fmt.Errorf("%q is not a kind: write a name or *", t.Kind)
	case t.APIVersion == wild:
		gvk.Group, gvk.Version = wild, wild
		return gvk, "", nil
	}
	gv, err := schema.ParseGroupVersion(t.APIVersion)
	gvk.Group, gvk.Version = gv.Group, gv.Version
	group := strings.TrimPrefix(gv.Group, "*.")
	switch {
	case err != nil || gv.Version == "",
		gv.Version != wild && len(validation.IsDNS1035Label(gv.Version)) > 0,
		group != "" && len(validation.IsDNS1123Subdomain(group)) > 0:
		err = fmt.Errorf("%q is not a group and version: write group/version, group/*, *.domain/* or *", t.APIVersion)
		return gvk, "apiVersion", err
	}
	return gvk, "", nil
}

// matches reports whether a kind fits a pattern.
func matches(pattern, gvk schema.GroupVersionKind) bool {
	if pattern.Kind != wild && pattern.Kind != gvk.Kind || pattern.Version != wild && pattern.Version != gvk.Version {
		return false
	}
	if suffix, ok := strings.CutPrefix(pattern.Group, wild); ok {
		return strings.HasSuffix(gvk.Group, suffix)
	}
	return pattern.Group == gvk.Group
}

// moreSpecific compares patterns: first by the group, then by the kind, then by the version.
func moreSpecific(a, b schema.GroupVersionKind) int {
	return cmp.Or(wildcards(a.Group)-wildcards(b.Group), len(b.Group)-len(a.Group),
		wildcards(a.Kind)-wildcards(b.Kind), wildcards(a.Version)-wildcards(b.Version))
}

func wildcards(pattern string) int { return strings.Count(pattern, wild) }

// entry is a customization for a target.
type entry struct {
	target     schema.GroupVersionKind
	operations map[interpreter.Operation]*operation
}

// table has the customizations by their targets.
type table struct {
	exact    map[schema.GroupVersionKind]*entry
	patterns []*entry // the most specific first
}

// add returns false if the table has the target already.
func (t *table) add(e *entry) bool {
	if t.exact[e.target] != nil {
		return false
	}
	t.exact[e.target] = e
	if strings.Contains(e.target.Group+e.target.Version+e.target.Kind, wild) {
		t.patterns = append(t.patterns, e)
	}
	return true
}

func (t *table) sort() {
	slices.SortStableFunc(t.patterns, func(a, b *entry) int { return moreSpecific(a.target, b.target) })
}

// find returns the expressions for an operation on a kind, or nil.
func (t *table) find(gvk schema.GroupVersionKind, asked interpreter.Operation) *operation {
	if e := t.exact[gvk]; e != nil && e.operations[asked] != nil {
		return e.operations[asked]
	}
	for _, e := range t.patterns {
		if o := e.operations[asked]; o != nil && matches(e.target, gvk) {
			return o
		}
	}
	return nil
}

func (t *table) kinds() []schema.GroupVersionKind {
	return slices.SortedFunc(maps.Keys(t.exact), func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
}
