// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"errors"

	glua "github.com/yuin/gopher-lua"
)

// maxPattern is the size limit of a pattern. It bounds the recursion of a match.
const maxPattern = 4096

// byteSet has a bit for each byte that it contains.
type byteSet [4]uint64

func (s *byteSet) add(first, last byte) {
	for c := int(first); c <= int(last); c++ {
		s[c>>6] |= 1 << (c & 63)
	}
}

func (s *byteSet) has(c byte) bool { return s[c>>6]&(1<<(c&63)) != 0 }

func (s *byteSet) join(other *byteSet) {
	for i := range s {
		s[i] |= other[i]
	}
}

func (s *byteSet) invert() {
	for i := range s {
		s[i] = ^s[i]
	}
}

type itemKind byte

const (
	one         itemKind = iota // one byte of a set
	repeated                    // * and +: as many as possible
	lazy                        // -: as few as possible
	optional                    // ?
	position                    // ()
	opening                     // (
	closing                     // )
	reference                   // %1
	balance                     // %bxy
	endOfString                 // $
)

type item struct {
	kind    itemKind
	set     byteSet
	least   int  // of a repeated item
	capture int  // from 0
	x, y    byte // of balance
}

// pattern is a pattern of Lua 5.1, as interpreted by gopher-lua.
type pattern struct {
	items    []item
	anchored bool
	captures int
}

var errPattern = errors.New("malformed pattern")

type parser struct {
	text string
	at   int
	pattern
	open   []int
	closed []bool // captures that %1 can refer to
}

func parsePattern(text string) (*pattern, error) {
	p := &parser{text: text}
	if len(text) > 0 && text[0] == '^' {
		p.anchored, p.at = true, 1
	}
	for p.at < len(text) {
		if err := p.next(); err != nil {
			return nil, err
		}
	}
	if len(p.open) > 0 {
		return nil, errors.New("unfinished capture")
	}
	p.captures = len(p.closed)
	return &p.pattern, nil
}

func (p *parser) next() error {
	c := p.text[p.at]
	switch c {
	case '(':
		p.at++
		i := item{kind: opening, capture: len(p.closed)}
		p.closed = append(p.closed, false)
		if p.at < len(p.text) && p.text[p.at] == ')' {
			p.at++
			i.kind = position
		} else {
			p.open = append(p.open, i.capture)
		}
		p.items = append(p.items, i)
		return nil
	case ')':
		p.at++
		if len(p.open) == 0 {
			return errors.New("invalid pattern capture")
		}
		last := p.open[len(p.open)-1]
		p.open, p.closed[last] = p.open[:len(p.open)-1], true
		p.items = append(p.items, item{kind: closing, capture: last})
		return nil
	case '$':
		if p.at == len(p.text)-1 && len(p.open) == 0 {
			p.at++
			p.items = append(p.items, item{kind: endOfString})
			return nil
		}
	case '*', '+', '-', '?':
		p.at++
		p.repeat(c)
		return nil
	case '%':
		if done, err := p.escaped(); done || err != nil {
			return err
		}
	}
	i := item{kind: one}
	err := p.class(&i.set, true)
	p.items = append(p.items, i)
	return err
}

// repeat makes the last item repeated if it is a byte. Otherwise the character is literal.
func (p *parser) repeat(c byte) {
	if n := len(p.items); n == 0 || p.items[n-1].kind != one {
		i := item{kind: one}
		i.set.add(c, c)
		p.items = append(p.items, i)
		return
	}
	last := &p.items[len(p.items)-1]
	switch c {
	case '*':
		last.kind = repeated
	case '+':
		last.kind, last.least = repeated, 1
	case '-':
		last.kind = lazy
	case '?':
		last.kind = optional
	}
}

// escaped reads %1 and %bxy.
func (p *parser) escaped() (done bool, err error) {
	if p.at+1 >= len(p.text) {
		return false, errPattern
	}
	switch c := p.text[p.at+1]; {
	case c >= '0' && c <= '9':
		n := int(c) - '1'
		if n < 0 || n >= len(p.closed) || !p.closed[n] {
			return false, errors.New("invalid capture index")
		}
		p.items = append(p.items, item{kind: reference, capture: n})
		p.at += 2
		return true, nil
	case c == 'b':
		if p.at+3 >= len(p.text) {
			return false, errPattern
		}
		p.items = append(p.items, item{kind: balance, x: p.text[p.at+2], y: p.text[p.at+3]})
		p.at += 4
		return true, nil
	}
	return false, nil
}

// class reads one byte or a set.
func (p *parser) class(set *byteSet, sets bool) error {
	if p.at >= len(p.text) {
		return errPattern
	}
	c := p.text[p.at]
	p.at++
	switch {
	case c == '%':
		if p.at >= len(p.text) {
			return errPattern
		}
		named(set, p.text[p.at])
		p.at++
	case c == '.' && sets:
		set.invert()
	case c == '[' && sets:
		return p.set(set)
	default:
		set.add(c, c)
	}
	return nil
}

// set reads the set after a [. As in gopher-lua, a range that begins or ends with a class is empty.
func (p *parser) set(out *byteSet) error {
	inverted := p.at < len(p.text) && p.text[p.at] == '^'
	if inverted {
		p.at++
	}
	var parts []byteSet
	var plain []int // the character of a part, or -1
	dash := false
	for {
		if p.at >= len(p.text) {
			return errPattern
		}
		c := p.text[p.at]
		if c == ']' && len(parts) > 0 {
			p.at++
			break
		}
		if c == '-' && len(parts) > 0 {
			p.at++
			dash = true
			continue
		}
		var part byteSet
		char := int(c)
		if c == '%' {
			char = -1
		}
		if err := p.class(&part, false); err != nil {
			return err
		}
		if n := len(parts) - 1; dash {
			dash = false
			var between byteSet
			if plain[n] >= 0 && char >= 0 {
				between.add(byte(plain[n]), byte(char))
			}
			parts[n], plain[n] = between, -1
			continue
		}
		parts, plain = append(parts, part), append(plain, char)
	}
	for i := range parts {
		out.join(&parts[i])
	}
	if dash {
		out.add('-', '-')
	}
	if inverted {
		out.invert()
	}
	return nil
}

// named adds the class of a letter after %. Any other character is literal.
func named(set *byteSet, letter byte) {
	ranges, ok := classes[letter|0x20]
	if !ok {
		set.add(letter, letter)
		return
	}
	var class byteSet
	for ; ranges != ""; ranges = ranges[2:] {
		class.add(ranges[0], ranges[1])
	}
	if letter <= 'Z' {
		class.invert()
	}
	set.join(&class)
}

// classes are the classes of letters: pairs of a first and a last byte.
var classes = map[byte]string{
	'a': "AZaz", 'c': "\x00\x1f\x7f\x7f", 'd': "09", 'l': "az", 'p': "!/:@[`{~", 's': "\t\r  ", 'u': "AZ",
	'w': "09AZaz", 'x': "09AFaf", 'z': "\x00\x00",
}

// matcher matches a pattern against one string, and counts steps.
type matcher struct {
	*pattern
	meter *meter
	state *glua.LState
	text  string
	found []capture
	tests int
}

type capture struct {
	from, to int
	position bool
}

func (m *meter) matcher(l *glua.LState, text, subject string) *matcher {
	if len(text) > maxPattern {
		l.RaiseError("a pattern of %d bytes: the limit is %d", len(text), maxPattern)
	}
	m.check(m.spend(1+len(text)/8) && m.charge(160*(len(text)+2)))
	p, err := parsePattern(text)
	if err != nil {
		l.RaiseError("%s", err.Error())
	}
	return &matcher{pattern: p, meter: m, state: l, text: subject, found: make([]capture, p.captures)}
}

// search returns the first match at or after an index.
func (r *matcher) search(at int) (from, to int, ok bool) {
	for ; at <= len(r.text); at++ {
		if to, ok := r.match(0, at); ok {
			return at, to, true
		}
		if r.anchored {
			break
		}
	}
	return 0, 0, false
}

func (r *matcher) tick() {
	const testsPerStep = 16
	if r.tests++; r.tests%testsPerStep == 0 {
		r.meter.check(r.meter.spend(1))
	}
}

// has reports whether the byte at an index is in the set of an item.
func (r *matcher) has(i *item, at int) bool {
	r.tick()
	return at < len(r.text) && i.set.has(r.text[at])
}

// match matches the items from next at an index, and returns the end of the match. Items are
// matched in order, so captures of a failed attempt are overwritten.
func (r *matcher) match(next, at int) (int, bool) {
	for ; next < len(r.items); next++ {
		i := &r.items[next]
		r.tick()
		switch i.kind {
		case one:
			if !r.has(i, at) {
				return 0, false
			}
			at++
		case repeated:
			n := 0
			for r.has(i, at+n) {
				n++
			}
			for ; n > i.least; n-- {
				if end, ok := r.match(next+1, at+n); ok {
					return end, true
				}
			}
			if n < i.least {
				return 0, false
			}
			at += n
		case lazy:
			for {
				if end, ok := r.match(next+1, at); ok {
					return end, true
				}
				if !r.has(i, at) {
					return 0, false
				}
				at++
			}
		case optional:
			if r.has(i, at) {
				if end, ok := r.match(next+1, at+1); ok {
					return end, true
				}
			}
		default:
			end, ok := r.matchOnce(i, at)
			if !ok {
				return 0, false
			}
			at = end
		}
	}
	return at, true
}

// matchOnce matches an item that has at most one match at an index, and returns the end.
func (r *matcher) matchOnce(i *item, at int) (int, bool) {
	switch i.kind {
	case position:
		r.found[i.capture] = capture{from: at, to: at, position: true}
	case opening:
		r.found[i.capture] = capture{from: at, to: at}
	case closing:
		r.found[i.capture].to = at
	case reference:
		c := r.found[i.capture]
		n := c.to - c.from
		if len(r.text)-at < n || r.text[at:at+n] != r.text[c.from:c.to] {
			return 0, false
		}
		r.meter.check(r.meter.spend(n / 64))
		return at + n, true
	case balance:
		return r.balanced(i, at)
	case endOfString:
		return at, at == len(r.text)
	}
	return at, true
}

func (r *matcher) balanced(i *item, at int) (int, bool) {
	if at >= len(r.text) || r.text[at] != i.x {
		return 0, false
	}
	depth := 1
	for at++; at < len(r.text); at++ {
		r.tick()
		switch r.text[at] {
		case i.y:
			if depth--; depth == 0 {
				return at + 1, true
			}
		case i.x:
			depth++
		}
	}
	return 0, false
}

// push puts the captures on the stack, and returns their number.
func (r *matcher) push(least int) int {
	r.meter.check(r.meter.charge(stringCost * (len(r.found) + least)))
	for _, c := range r.found {
		if c.position {
			r.state.Push(glua.LNumber(c.from + 1))
		} else {
			r.state.Push(glua.LString(r.text[c.from:c.to]))
		}
	}
	return len(r.found)
}

// pushOrWhole puts the captures on the stack, or the match if there are none.
func (r *matcher) pushOrWhole(from, to int) int {
	if r.push(1) > 0 {
		return len(r.found)
	}
	r.state.Push(glua.LString(r.text[from:to]))
	return 1
}
