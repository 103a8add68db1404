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

// index finds the first webhook for an object and an operation. It does not change. Groups and names of
// rules are keys of a map, so a match takes a few lookups. Operations and versions are part of the
// entry, since all combinations of the lists of a rule may be millions.
type index struct {
	webhooks   []*webhook // in matching order
	kinds      map[key][]rule
	resources  map[key][]rule
	operations map[interpreter.Operation]uint16 // to their bits
	named      bool                             // a rule names a resource
}

// key is a group with a kind or a resource. "*" matches all.
type key struct{ group, name string }

// rule has the other conditions of an entry, and the index of its webhook.
type rule struct {
	place      int32
	operations uint16  // bits
	scopes     [2]bool // objects without and with a namespace
	versions   []string
}

// none is greater than the place of any webhook.
const none = int32(1<<31 - 1)

// ruleset is a webhook with its rules.
type ruleset struct {
	webhook   *webhook
	kinds     []v1alpha1.KindRuleWithOperations
	resources []v1alpha1.RuleWithOperations
}

// newIndex sorts the webhooks: as in Karmada, they match in the order of configuration/webhook.
func newIndex(rulesets []ruleset) *index {
	slices.SortStableFunc(rulesets, func(a, b ruleset) int {
		return cmp.Or(cmp.Compare(a.webhook.id, b.webhook.id), cmp.Compare(a.webhook.protocol, b.webhook.protocol))
	})
	x := &index{kinds: map[key][]rule{}, resources: map[key][]rule{}, operations: map[interpreter.Operation]uint16{}}
	for i, o := range v1alpha1.InterpreterOperations() {
		x.operations[o] = 1 << i
	}
	for i, r := range rulesets {
		x.webhooks = append(x.webhooks, r.webhook)
		for j := range r.kinds {
			x.addKinds(int32(i), &r.kinds[j])
		}
		for j := range r.resources {
			x.addResources(int32(i), &r.resources[j])
		}
	}
	return x
}

func (x *index) addKinds(place int32, r *v1alpha1.KindRuleWithOperations) {
	entry := rule{place: place, versions: r.APIVersions, scopes: [2]bool{true, true}}
	for _, o := range r.Operations {
		entry.operations |= x.bits(o)
	}
	add(x.kinds, r.APIGroups, r.Kinds, entry)
}

func (x *index) addResources(place int32, r *v1alpha1.RuleWithOperations) {
	var names []string
	for _, resource := range r.Resources {
		// As in the API server's matcher, "pods/*" and "*/*" match the object itself too, and
		// "pods/log" does not.
		name, sub, _ := strings.Cut(resource, "/")
		if sub != "" && sub != "*" || name == "" {
			continue
		}
		names = append(names, name)
		x.named = x.named || name != "*"
	}
	scope := admissionregistrationv1.AllScopes
	if r.Scope != nil {
		scope = *r.Scope
	}
	entry := rule{place: place, versions: r.APIVersions,
		scopes: [2]bool{scope != admissionregistrationv1.NamespacedScope, scope != admissionregistrationv1.ClusterScope}}
	for _, o := range r.Operations {
		if operation, ok := o.Interpreter(); ok {
			entry.operations |= x.bits(operation)
		}
	}
	// "*" includes only operations of the protocol.
	entry.operations &^= x.operations[v1alpha1.InterpreterOperationInterpretComponent]
	add(x.resources, r.APIGroups, names, entry)
}

// bits returns the bit of an operation, or all bits for "*".
func (x *index) bits(o interpreter.Operation) uint16 {
	if o == v1alpha1.InterpreterOperationAll {
		return 1<<len(x.operations) - 1
	}
	return x.operations[o]
}

func add(to map[key][]rule, groups, names []string, entry rule) {
	for _, group := range groups {
		for _, name := range names {
			k := key{group, name}
			to[k] = append(to[k], entry)
		}
	}
}

// match returns the first webhook for an operation, a kind and its resource, or nil. Only rules for all
// resources match an unknown resource, "".
func (x *index) match(o interpreter.Operation, gvk schema.GroupVersionKind, resource string, namespaced bool) *webhook {
	operation, scope := x.operations[o], 0
	// A Namespace is cluster-scoped, though some programs set its own name as its namespace.
	if namespaced && gvk != (schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}) {
		scope = 1
	}
	// Secrets match only rules with their kind or resource.
	kinds, resources := [...]string{gvk.Kind, "*"}, [...]string{resource, "*"}
	if gvk.Group == "" && gvk.Kind == "Secret" {
		kinds[1], resources[1] = gvk.Kind, resource
	}
	first := none
	for _, group := range [...]string{gvk.Group, "*"} {
		for _, kind := range kinds {
			first = firstOf(x.kinds[key{group, kind}], first, operation, gvk.Version, scope)
		}
		for _, name := range resources {
			first = firstOf(x.resources[key{group, name}], first, operation, gvk.Version, scope)
		}
	}
	if first == none {
		return nil
	}
	return x.webhooks[first]
}

// firstOf returns the lesser of before and the place of the first matching rule.
func firstOf(rules []rule, before int32, operation uint16, version string, scope int) int32 {
	for i := range rules { // they are in order
		r := &rules[i]
		if r.place >= before {
			break
		}
		if r.operations&operation != 0 && r.scopes[scope] &&
			(slices.Contains(r.versions, version) || slices.Contains(r.versions, "*")) {
			return r.place
		}
	}
	return before
}
