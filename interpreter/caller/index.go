// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"cmp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// index finds the first webhook for an object and an operation. It is made once for a set of configurations, and then
// only read. Each combination of a rule is an entry of a map, so that a match takes the same few lookups however many
// webhooks there are.
type index struct {
	webhooks []*webhook // in the order in which they count
	kinds    map[key]int32
	// resources has the first webhook for objects without and with a namespace.
	resources map[key][2]int32
	// named is whether a rule names a resource, so that the resource of a kind has to be looked up.
	named bool
}

// key is one combination of a rule: a kind or a resource, where "*" stands for all.
type key struct {
	operation            interpreter.Operation
	group, version, name string
}

// none is greater than the place of any webhook.
const none = int32(1<<31 - 1)

// ruleset is a webhook with its rules.
type ruleset struct {
	webhook   *webhook
	kinds     []v1alpha1.KindRuleWithOperations
	resources []v1alpha1.RuleWithOperations
}

// newIndex takes webhooks in any order: as in Karmada, that of configuration/webhook counts.
func newIndex(rulesets []ruleset) *index {
	slices.SortStableFunc(rulesets, func(a, b ruleset) int {
		return cmp.Or(strings.Compare(a.webhook.id, b.webhook.id), strings.Compare(string(a.webhook.protocol), string(b.webhook.protocol)))
	})
	x := &index{kinds: map[key]int32{}, resources: map[key][2]int32{}}
	for i, r := range rulesets {
		x.webhooks = append(x.webhooks, r.webhook)
		for _, rule := range r.kinds {
			x.addKinds(int32(i), rule)
		}
		for _, rule := range r.resources {
			x.addResources(int32(i), rule)
		}
	}
	return x
}

func (x *index) addKinds(place int32, rule v1alpha1.KindRuleWithOperations) {
	each(rule.Operations, v1alpha1.InterpreterOperations(), func(o v1alpha1.InterpreterOperation) (interpreter.Operation, bool) { return o, true },
		rule.APIGroups, rule.APIVersions, rule.Kinds, func(k key) {
			if _, there := x.kinds[k]; !there { // they come in order
				x.kinds[k] = place
			}
		})
}

func (x *index) addResources(place int32, rule v1alpha1.RuleWithOperations) {
	var names []string
	for _, resource := range rule.Resources {
		// As in the API server's matcher, "pods/*" and "*/*" hold for the object itself too, and "pods/log" does not.
		name, sub, _ := strings.Cut(resource, "/")
		if sub != "" && sub != "*" {
			continue
		}
		if name == "" {
			continue
		}
		names = append(names, name)
		x.named = x.named || name != "*"
	}
	scope := admissionregistrationv1.AllScopes
	if rule.Scope != nil {
		scope = *rule.Scope
	}
	each(rule.Operations, explored(), v1alpha1.OperationType.Interpreter, rule.APIGroups, rule.APIVersions, names, func(k key) {
		places, there := x.resources[k]
		if !there {
			places = [2]int32{none, none}
		}
		if scope != admissionregistrationv1.NamespacedScope {
			places[0] = min(places[0], place)
		}
		if scope != admissionregistrationv1.ClusterScope {
			places[1] = min(places[1], place)
		}
		x.resources[k] = places
	})
}

// explored are the operations that have a form in the Explore protocol.
func explored() []interpreter.Operation {
	return slices.DeleteFunc(v1alpha1.InterpreterOperations(), func(o v1alpha1.InterpreterOperation) bool {
		_, ok := o.Explore()
		return !ok
	})
}

// each calls add for each combination. "*" as an operation is all of them, so that a match needs not look for it.
func each[O ~string](operations []O, all []interpreter.Operation, name func(O) (interpreter.Operation, bool), groups, versions, names []string, add func(key)) {
	var known []interpreter.Operation
	for _, o := range operations {
		switch operation, ok := name(o); {
		case ok && operation == v1alpha1.InterpretAll:
			known = append(known, all...)
		case ok:
			known = append(known, operation)
		}
	}
	for _, o := range known {
		for _, g := range groups {
			for _, v := range versions {
				for _, n := range names {
					add(key{o, g, v, n})
				}
			}
		}
	}
}

// match returns the first webhook for an operation, a kind and its resource, or nil. An empty resource is one that
// is not known: only rules for all resources hold for it.
func (x *index) match(o interpreter.Operation, gvk schema.GroupVersionKind, resource string, namespaced bool) *webhook {
	first := none
	groups, versions := [2]string{gvk.Group, "*"}, [2]string{gvk.Version, "*"}
	kinds, resources := [2]string{gvk.Kind, "*"}, [2]string{resource, "*"}
	scope := 0
	// A namespace is an object of the cluster, though its own name is given as its namespace in some places.
	if namespaced && gvk != (schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}) {
		scope = 1
	}
	for _, g := range groups {
		for _, v := range versions {
			for i := range kinds {
				if place, ok := x.kinds[key{o, g, v, kinds[i]}]; ok {
					first = min(first, place)
				}
				if places, ok := x.resources[key{o, g, v, resources[i]}]; ok {
					first = min(first, places[scope])
				}
			}
		}
	}
	if first == none {
		return nil
	}
	return x.webhooks[first]
}
