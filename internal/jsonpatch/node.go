// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsonpatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// node is a value. It is text, which never changes, until an operation opens it.
type node struct {
	raw  []byte
	open *container
}

// container is an opened object or list.
type container struct {
	members map[string]*node // nil for a list
	list    []node
}

func (n *node) isNull() bool { return n.open == nil && jsontext.KindOf(n.raw) == jsontext.Null }

// open returns the members or elements of a value, or nil if it is neither an object nor a list.
func (a *applier) open(n *node) (*container, error) {
	if n.open != nil {
		return n.open, nil
	}
	kind := jsontext.KindOf(n.raw)
	if kind != jsontext.Object && kind != jsontext.Array {
		return nil, nil //nolint:nilnil // the callers have errors of their own
	}
	if err := a.spend(len(n.raw)); err != nil {
		return nil, err
	}
	c := &container{}
	if kind == jsontext.Object {
		c.members = map[string]*node{}
	}
	for cursor := jsontext.Open(n.raw); cursor.Next(); {
		if err := a.spend(partCost); err != nil {
			return nil, err
		}
		if kind == jsontext.Object {
			name, _ := jsontext.Text(cursor.Key)
			c.members[name] = &node{raw: cursor.Value}
		} else {
			c.list = append(c.list, node{raw: cursor.Value})
		}
	}
	n.raw, n.open = nil, c
	return c, nil
}

func (n *node) text() ([]byte, error) {
	if n.open == nil {
		return n.raw, nil
	}
	return n.append(nil, 0)
}

func (n *node) append(out []byte, depth int) ([]byte, error) {
	if n.open == nil {
		return append(out, n.raw...), nil
	}
	if depth > maxDepth {
		return nil, errors.New("exceeded max depth")
	}
	var err error
	if n.open.members == nil {
		out = append(out, '[')
		for i := range n.open.list {
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = n.open.list[i].append(out, depth+1); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	}
	out = append(out, '{')
	for i, name := range slices.Sorted(maps.Keys(n.open.members)) {
		if i > 0 {
			out = append(out, ',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		out = append(append(out, key...), ':')
		if out, err = n.open.members[name].append(out, depth+1); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// equal compares values as the API server does: objects and lists by their parts, other values by
// their text.
func (a *applier) equal(x, y *node) (bool, error) {
	cx, err := a.open(x)
	if err != nil {
		return false, err
	}
	cy, err := a.open(y)
	switch {
	case err != nil:
		return false, err
	case cx == nil && cy == nil:
		return bytes.Equal(x.raw, y.raw), a.spend(len(x.raw))
	case cx == nil || cy == nil || (cx.members == nil) != (cy.members == nil) ||
		len(cx.members) != len(cy.members) || len(cx.list) != len(cy.list):
		return false, nil
	}
	for name, member := range cx.members {
		other := cy.members[name]
		if other == nil {
			return false, nil
		}
		if same, err := a.equal(member, other); !same || err != nil {
			return false, err
		}
	}
	for i := range cx.list {
		if same, err := a.equal(&cx.list[i], &cy.list[i]); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}
