// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext

type member struct {
	name  string
	value []byte
	taken bool
}

// object has the members of an object in their order.
type object struct {
	members []member
	index   map[string]int // nil for small objects
}

// indexed is the number of members above which an object has an index.
const indexed = 32

func parse(data []byte) object {
	var o object
	for c := Open(data); c.Next(); {
		name, _ := Text(c.Key)
		o.members = append(o.members, member{name: name, value: c.Value})
	}
	if len(o.members) > indexed {
		o.index = make(map[string]int, len(o.members))
		for i, m := range o.members {
			o.index[m.name] = i
		}
	}
	return o
}

// find returns the member with a name, or nil. If a name is repeated, the last member counts.
func (o *object) find(name string) *member {
	if o.index != nil {
		if i, ok := o.index[name]; ok {
			return &o.members[i]
		}
		return nil
	}
	for i := len(o.members) - 1; i >= 0; i-- {
		if o.members[i].name == name {
			return &o.members[i]
		}
	}
	return nil
}

func elements(data []byte) [][]byte {
	var out [][]byte
	for c := Open(data); c.Next(); {
		out = append(out, c.Value)
	}
	return out
}
