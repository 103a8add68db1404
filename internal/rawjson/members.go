// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

// member is a member of an object with its decoded name.
type member struct {
	name  string
	value []byte
	taken bool
}

// object is the members of an object in their order. Looking one up is fast where both sides have the same order, and
// costs one map where there are many.
type object struct {
	members []member
	index   map[string]int
}

// indexed is from how many members on a map is made.
const indexed = 32

func parse(data []byte) object {
	var o object
	for c := Open(data); ; {
		key, value, ok := c.Next()
		if !ok {
			break
		}
		name, _ := Text(key)
		o.members = append(o.members, member{name: name, value: value})
	}
	if len(o.members) > indexed {
		o.index = make(map[string]int, len(o.members))
		for i, m := range o.members {
			o.index[m.name] = i
		}
	}
	return o
}

// find returns the member of a name, the last one where there are several, or nil.
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
	for c := Open(data); ; {
		_, value, ok := c.Next()
		if !ok {
			return out
		}
		out = append(out, value)
	}
}
