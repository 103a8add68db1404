// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"context"
	"fmt"
	"math"
	"time"

	glua "github.com/yuin/gopher-lua"
)

// The costs of values in bytes. They are at least as high as the memory that gopher-lua allocates:
// a map has up to twice the slots that it needs, and its keys are stored three times.
const (
	numberCost    = 8
	stringCost    = 32
	tableCost     = 112
	elementCost   = 40
	firstElements = 512 // an array starts with 32 elements
	memberCost    = 280
	firstMembers  = 3 << 10 // a map starts with 32 slots
	functionCost  = 96
	upvalueCost   = 64
	callCost      = 2 * stringCost // a result, such as a number or a short text
	argumentsCost = tableCost + firstMembers + firstElements
	maxString     = 1_000_000 // as in Karmada
	checkEvery    = 16        // steps between checks of the context
)

// limits bound one call of a script.
type limits struct {
	steps, memory int
	timeout       time.Duration
}

// meter counts the steps and the memory of one call, and ends it at its limits.
//
// It is the context of the Lua state. The virtual machine calls Done before each instruction, so
// Done can inspect the instruction first. Memory never decreases: garbage counts, too.
type meter struct {
	ctx       context.Context
	limits    limits
	state     *glua.LState
	sites     []site
	constants []any // large numbers of the script

	steps, memory int
	err           error // the first error, which ends the call

	arguments    *glua.LTable // the last counted table arg
	object, list *glua.LTable // the metatables that mark tables made of JSON
}

// ended is the channel that Done returns when the call must end.
var ended = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Done implements [context.Context].
func (m *meter) Done() <-chan struct{} {
	if m.err == nil && m.spend(1) {
		m.inspect()
	}
	if m.err != nil {
		return ended
	}
	return nil
}

// Err implements [context.Context].
func (m *meter) Err() error { return m.err }

// Deadline implements [context.Context].
func (m *meter) Deadline() (time.Time, bool) { return m.ctx.Deadline() }

// Value implements [context.Context].
func (m *meter) Value(key any) any { return m.ctx.Value(key) }

func (m *meter) fail(err error) bool {
	if m.err == nil {
		m.err = err
	}
	return false
}

// spend counts steps. It reports whether the call may continue.
func (m *meter) spend(steps int) bool {
	before := m.steps
	m.steps += steps
	switch {
	case m.err != nil:
		return false
	case m.steps > m.limits.steps:
		return m.fail(fmt.Errorf("the script needs more than %d steps: make it simpler, or raise Options.MaxSteps",
			m.limits.steps))
	case before/checkEvery != m.steps/checkEvery && m.ctx.Err() != nil:
		return m.fail(context.Cause(m.ctx))
	}
	return true
}

// charge counts memory. It reports whether the call may continue.
func (m *meter) charge(bytes int) bool {
	if m.err != nil {
		return false
	}
	if bytes < 0 || bytes > m.limits.memory-m.memory {
		return m.fail(fmt.Errorf("the script needs more than %d bytes of memory: make it simpler, or raise "+
			"Options.MaxMemory", m.limits.memory))
	}
	m.memory += bytes
	return true
}

// text counts the memory of a new string.
func (m *meter) text(length int) bool {
	if length > maxString {
		return m.fail(fmt.Errorf("the script makes a string of %d bytes: the limit is %d", length, maxString))
	}
	return m.charge(stringCost + length)
}

// inspect counts the memory that the next instruction will allocate.
func (m *meter) inspect() {
	frame, ok := m.state.GetStack(0)
	if !ok {
		return
	}
	if _, err := m.state.GetInfo("l", frame, glua.LNil); err != nil {
		m.fail(err)
		return
	}
	i := frame.CurrentLine - firstSite
	if i < 0 || i >= len(m.sites) {
		m.fail(fmt.Errorf("the script ran an unknown instruction"))
		return
	}
	s := &m.sites[i]
	if s.arguments {
		m.chargeArguments(s)
	}
	switch s.op {
	case glua.OP_ADD, glua.OP_SUB, glua.OP_MUL, glua.OP_DIV, glua.OP_MOD, glua.OP_POW, glua.OP_UNM, glua.OP_LEN,
		glua.OP_FORPREP, glua.OP_FORLOOP:
		m.charge(numberCost)
	case glua.OP_CONCAT:
		m.chargeConcat(s)
	case glua.OP_NEWTABLE:
		cost := tableCost + elementCost*s.b
		if s.c > 0 {
			cost += memberCost * (s.c + 1)
		}
		m.charge(cost)
	case glua.OP_SETTABLE, glua.OP_SETTABLEKS:
		m.chargeSet(m.register(s.a), m.operand(s, s.b))
	case glua.OP_CALL, glua.OP_TAILCALL, glua.OP_TFORLOOP:
		m.charge(callCost)
	case glua.OP_SETGLOBAL:
		m.chargeSet(m.state.G.Global, s.constants[s.global])
	case glua.OP_SETLIST:
		n := s.b
		if n == 0 {
			n = m.state.GetTop() - s.a - 1
		}
		m.charge(firstElements + elementCost*n)
	case glua.OP_CLOSURE:
		m.charge(functionCost + upvalueCost*s.upvalues)
	}
}

func (m *meter) register(i int) glua.LValue { return m.state.Get(i + 1) }

// operand returns a register or a constant.
func (m *meter) operand(s *site, i int) glua.LValue {
	if i&constantBit != 0 {
		return s.constants[i&^constantBit]
	}
	return m.register(i)
}

func (m *meter) chargeConcat(s *site) {
	length := 0
	for i := s.b; i <= s.c; i++ {
		switch v := m.register(i).(type) {
		case glua.LString:
			length += len(v)
		case glua.LNumber:
			length += maxNumberText
		}
	}
	if m.charge(stringCost * (s.c - s.b + 1)) {
		m.text(length)
	}
}

// maxNumberText is the length of the longest number: 17 digits, sign, point and exponent.
const maxNumberText = 25

// chargeArguments counts the table arg of functions with variable arguments that do not use "...".
func (m *meter) chargeArguments(s *site) {
	// A loop can return to the first instruction.
	if table, ok := m.register(s.parameters).(*glua.LTable); ok && table != m.arguments {
		m.arguments = table
		m.charge(argumentsCost + elementCost*table.Len())
	}
}

// chargeSet counts the memory of a new element or member of a table.
func (m *meter) chargeSet(target, key glua.LValue) bool {
	table, ok := target.(*glua.LTable)
	if !ok {
		return true // the virtual machine raises an error
	}
	switch k := key.(type) {
	case glua.LNumber:
		if i := int(k); i >= 1 && i < glua.MaxArrayIndex && glua.LNumber(i) == k {
			return m.chargeElement(table, i)
		}
	case glua.LString:
		if table.RawGetString(string(k)) != glua.LNil {
			return true
		}
		if first, _ := table.Next(glua.LNil); first.Type() == glua.LTString {
			return m.charge(memberCost)
		}
		return m.charge(memberCost + firstMembers)
	}
	if key == glua.LNil || table.RawGetH(key) != glua.LNil {
		return true
	}
	return m.charge(2*memberCost + firstMembers)
}

func (m *meter) chargeElement(table *glua.LTable, i int) bool {
	if table.RawGetInt(i) != glua.LNil {
		return true
	}
	n := table.Len()
	switch {
	case n == 0:
		return m.charge(firstElements + elementCost*i)
	case i > n:
		return m.charge(elementCost * (i - n))
	}
	return true
}

// whole returns a number as an integer, if no other integer has the same float64.
func whole(n float64) (int64, bool) {
	if n != math.Trunc(n) || math.Abs(n) > maxExact {
		return 0, false
	}
	return int64(n), true
}

// maxExact is the largest integer up to which each float64 represents one integer.
const maxExact = 1<<53 - 1
