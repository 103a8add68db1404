// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"
	"slices"
	"strings"
)

type filter struct {
	group  string // of a shared subscription, otherwise empty
	levels []string
}

// parseFilter parses a filter by MQTT v5, sections 4.7 and 4.8.2.
func parseFilter(s string) (filter, error) {
	var f filter
	path := s
	if rest, shared := strings.CutPrefix(s, "$share/"); shared {
		group, p, ok := strings.Cut(rest, "/")
		if !ok || group == "" || strings.ContainsAny(group, "+#") {
			return f, fmt.Errorf("topic filter %q: must be $share/<group>/<filter>, with a group without + and #", s)
		}
		f.group, path = group, p
	}
	if path == "" {
		return f, fmt.Errorf("topic filter %q is empty", s)
	}
	f.levels = strings.Split(path, "/")
	for i, level := range f.levels {
		switch {
		case level == "#" && i != len(f.levels)-1:
			return f, fmt.Errorf("topic filter %q: # must be the last level", s)
		case len(level) > 1 && strings.ContainsAny(level, "+#"):
			return f, fmt.Errorf("topic filter %q: + and # must be a level of their own", s)
		}
	}
	return f, nil
}

func checkTopic(topic string) error {
	if topic == "" || strings.ContainsAny(topic, "+#\x00") {
		return fmt.Errorf("topic %q: must not be empty or contain +, # or NUL", topic)
	}
	return nil
}

type node struct {
	children map[string]*node
	subs     []*conn // filters that end here, in the order of subscription
	groups   map[string]*group
}

// group has the members of a share group on one filter, and the index of the last receiver.
type group struct {
	members []*conn
	next    int
}

func newNode() *node {
	return &node{children: map[string]*node{}, groups: map[string]*group{}}
}

func (n *node) add(f filter, c *conn) {
	for _, level := range f.levels {
		child := n.children[level]
		if child == nil {
			child = newNode()
			n.children[level] = child
		}
		n = child
	}
	if f.group == "" {
		n.subs = append(n.subs, c)
		return
	}
	g := n.groups[f.group]
	if g == nil {
		g = &group{}
		n.groups[f.group] = g
	}
	g.members = append(g.members, c)
}

// remove undoes one add, below the levels that are left of the filter. It prunes empty nodes:
// otherwise a long-lived bus with many short-lived names would grow.
func (n *node) remove(f filter, levels []string, c *conn) {
	if len(levels) > 0 {
		child := n.children[levels[0]]
		child.remove(f, levels[1:], c)
		if len(child.children) == 0 && len(child.subs) == 0 && len(child.groups) == 0 {
			delete(n.children, levels[0])
		}
		return
	}
	if f.group == "" {
		n.subs = without(n.subs, c)
		return
	}
	g := n.groups[f.group]
	if g.members = without(g.members, c); len(g.members) == 0 {
		delete(n.groups, f.group)
	}
}

func without(conns []*conn, c *conn) []*conn {
	i := slices.Index(conns, c)
	return slices.Delete(conns, i, i+1)
}

// match calls visit for each subscription that topic matches; one connection may be visited more
// than once.
func (n *node) match(topic string, visit func(*conn)) {
	// Wildcards at the first level do not match topics that begin with $ (MQTT v5, 4.7.2).
	n.matchLevel(topic, !strings.HasPrefix(topic, "$"), visit)
}

func (n *node) matchLevel(topic string, wild bool, visit func(*conn)) {
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

func (n *node) descend(rest string, more bool, visit func(*conn)) {
	if more {
		n.matchLevel(rest, true, visit)
		return
	}
	n.visit(visit)
	if child := n.children["#"]; child != nil {
		child.visit(visit) // a/# matches a as well
	}
}

func (n *node) visit(visit func(*conn)) {
	for _, c := range n.subs {
		visit(c)
	}
	for _, g := range n.groups {
		g.next = (g.next + 1) % len(g.members)
		visit(g.members[g.next])
	}
}
