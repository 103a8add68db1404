// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

// cursor reads JSON text and returns values as slices of it. It validates all text that it passes,
// each byte once. The pattern is
//
//	for c.open('{'); c.member(); {
//		switch string(c.key) {
//		case "wanted":
//			raw := c.value()
//		default:
//			c.value()
//		}
//	}
//	err := c.err
//
// err keeps the first error. After it, member and element report the end, and value returns nil.
type cursor struct {
	data []byte
	pos  int
	// depth is the number of open containers, fresh whether the innermost has had no entry yet.
	depth int
	fresh bool
	// elements is the number of counted elements.
	elements int
	// key is the key of the current member, unescaped; it may share memory with data.
	key []byte
	err error
}

func (c *cursor) fail(at int, reason string) {
	if c.err == nil {
		c.err = &syntaxError{offset: at, reason: reason}
	}
}

// peek returns the next byte that is not space, 0 at the end.
func (c *cursor) peek() byte {
	c.pos = skipSpace(c.data, c.pos)
	if c.err != nil || c.pos >= len(c.data) {
		return 0
	}
	return c.data[c.pos]
}

// open enters the object or array at the cursor; start is '{' or '['.
func (c *cursor) open(start byte) {
	switch {
	case c.peek() == start:
	case start == '{':
		c.fail(c.pos, reasonObject)
	default:
		c.fail(c.pos, reasonArray)
	}
	if c.depth++; c.depth > MaxDepth {
		c.fail(c.pos, reasonDepth)
	}
	c.pos++
	c.fresh = true
}

// member moves to the value of the object's next member and sets key. It leaves the object at its
// end.
func (c *cursor) member() bool {
	if !c.next('}') {
		return false
	}
	start := c.pos
	end, reason := scanKey(c.data, start)
	if reason != "" {
		c.fail(end, reason)
		return false
	}
	c.pos = end
	// The string ends at the last quote before the colon; only space can follow it.
	quote := end - 1
	for c.data[quote] != '"' {
		quote--
	}
	c.key = unquoteBytes(c.data[start : quote+1])
	return true
}

// element moves to the array's next element. It leaves the array at its end.
func (c *cursor) element() bool { return c.next(']') && c.count(1) }

// count counts elements of lists and members of maps, and reports whether there are no more than
// allowed.
func (c *cursor) count(n int) bool {
	if c.elements += n; c.elements > MaxElements {
		c.fail(c.pos, reasonMany)
	}
	return c.err == nil
}

// next moves past the comma before the next entry, or leaves the container.
func (c *cursor) next(closing byte) bool {
	b := c.peek()
	switch {
	case c.err != nil:
		return false
	case b == closing:
		c.pos++
		c.depth--
		c.fresh = false
		return false
	case c.fresh:
		c.fresh = false
		return true
	case c.pos >= len(c.data):
		c.fail(c.pos, reasonEnd)
		return false
	case b != ',':
		c.fail(c.pos, reasonComma)
		return false
	}
	c.pos = skipSpace(c.data, c.pos+1)
	return true
}

// value moves past the value at the cursor and returns it. Appending to the result never overwrites
// the following text.
func (c *cursor) value() []byte {
	c.peek()
	if c.err != nil {
		return nil
	}
	start := c.pos
	end, reason := scanValue(c.data, start, c.depth)
	if reason != "" {
		c.fail(end, reason)
		return nil
	}
	c.pos = end
	return c.data[start:end:end]
}

// end checks that only space is left, and returns the first error.
func (c *cursor) end() error {
	if c.peek(); c.err == nil && c.pos < len(c.data) {
		c.fail(c.pos, reasonMore)
	}
	return c.err
}

// validate returns data without surrounding space, or an error if it is not valid JSON.
func validate(data []byte) ([]byte, error) {
	c := cursor{data: data}
	raw := c.value()
	return raw, c.end()
}
