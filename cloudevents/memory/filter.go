// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/internal/topicfilter"
)

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

func (n *node) add(f topicfilter.Filter, c *conn) {
	for _, level := range f.Levels {
		child := n.children[level]
		if child == nil {
			child = newNode()
			n.children[level] = child
		}
		n = child
	}
	if f.Group == "" {
		n.subs = append(n.subs, c)
		return
	}
	g := n.groups[f.Group]
	if g == nil {
		g = &group{}
		n.groups[f.Group] = g
	}
	g.members = append(g.members, c)
}

// remove undoes one add, below the levels that are left of the filter. It prunes empty nodes:
// otherwise a long-lived bus with many short-lived names would grow.
func (n *node) remove(f topicfilter.Filter, levels []string, c *conn) {
	if len(levels) > 0 {
		child := n.children[levels[0]]
		child.remove(f, levels[1:], c)
		if len(child.children) == 0 && len(child.subs) == 0 && len(child.groups) == 0 {
			delete(n.children, levels[0])
		}
		return
	}
	if f.Group == "" {
		n.subs = without(n.subs, c)
		return
	}
	g := n.groups[f.Group]
	if g.members = without(g.members, c); len(g.members) == 0 {
		delete(n.groups, f.Group)
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
