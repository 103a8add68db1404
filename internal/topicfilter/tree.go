// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package topicfilter

import (
	"fmt"
	"slices"
	"strings"
)

// CheckTopic returns an error for a topic that cannot be published to.
func CheckTopic(topic string) error {
	if topic == "" || strings.ContainsAny(topic, "+#\x00") {
		return fmt.Errorf("topic %q: must not be empty or contain +, # or NUL", topic)
	}
	return nil
}

// Tree has the filters of subscribers. It is not safe for concurrent use.
type Tree[S comparable] struct{ root *node[S] }

// NewTree returns an empty tree.
func NewTree[S comparable]() Tree[S] { return Tree[S]{newNode[S]()} }

type node[S comparable] struct {
	children map[string]*node[S]
	subs     []S // filters that end here, in the order of subscription
	groups   map[string]*group[S]
}

// group has the members of a share group on one filter, and the index of the last receiver.
type group[S comparable] struct {
	members []S
	next    int
}

func newNode[S comparable]() *node[S] {
	return &node[S]{children: map[string]*node[S]{}, groups: map[string]*group[S]{}}
}

// Add adds a filter of a subscriber.
func (t Tree[S]) Add(f Filter, s S) {
	n := t.root
	for _, level := range f.Levels {
		child := n.children[level]
		if child == nil {
			child = newNode[S]()
			n.children[level] = child
		}
		n = child
	}
	if f.Group == "" {
		n.subs = append(n.subs, s)
		return
	}
	g := n.groups[f.Group]
	if g == nil {
		g = &group[S]{}
		n.groups[f.Group] = g
	}
	g.members = append(g.members, s)
}

// Remove undoes one Add.
func (t Tree[S]) Remove(f Filter, s S) { t.root.remove(f, f.Levels, s) }

// remove undoes one Add, below the levels that are left of the filter. It prunes empty nodes:
// otherwise a long-lived tree with many short-lived names would grow.
func (n *node[S]) remove(f Filter, levels []string, s S) {
	if len(levels) > 0 {
		child := n.children[levels[0]]
		child.remove(f, levels[1:], s)
		if len(child.children) == 0 && len(child.subs) == 0 && len(child.groups) == 0 {
			delete(n.children, levels[0])
		}
		return
	}
	if f.Group == "" {
		n.subs = without(n.subs, s)
		return
	}
	g := n.groups[f.Group]
	if g.members = without(g.members, s); len(g.members) == 0 {
		delete(n.groups, f.Group)
	}
}

func without[S comparable](list []S, s S) []S {
	i := slices.Index(list, s)
	return slices.Delete(list, i, i+1)
}

// Match calls visit for each subscription that topic matches; one subscriber may be visited more
// than once. Of each share group, the next member is visited.
func (t Tree[S]) Match(topic string, visit func(S)) {
	// Wildcards at the first level do not match topics that begin with $ (MQTT v5, 4.7.2).
	t.root.matchLevel(topic, !strings.HasPrefix(topic, "$"), visit)
}

func (n *node[S]) matchLevel(topic string, wild bool, visit func(S)) {
	level, rest, more := strings.Cut(topic, "/")
	if wild {
		if child := n.children["#"]; child != nil {
			child.visit(visit)
		}
		if child := n.children["+"]; child != nil {
			child.descend(rest, more, visit)
		}
	}
	if child := n.children[level]; child != nil {
		child.descend(rest, more, visit)
	}
}

func (n *node[S]) descend(rest string, more bool, visit func(S)) {
	if more {
		n.matchLevel(rest, true, visit)
		return
	}
	n.visit(visit)
	if child := n.children["#"]; child != nil {
		child.visit(visit) // a/# matches a as well
	}
}

func (n *node[S]) visit(visit func(S)) {
	for _, s := range n.subs {
		visit(s)
	}
	for _, g := range n.groups {
		g.next = (g.next + 1) % len(g.members)
		visit(g.members[g.next])
	}
}
