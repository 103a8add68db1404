// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"math"
	"strconv"
	"strings"

	glua "github.com/yuin/gopher-lua"
)

const (
	// chunkName is the name of a script in the messages of Lua, as in Karmada.
	chunkName   = "<string>"
	firstSite   = 1 << 28 // the number of the first site: larger than any line of a script
	constantBit = 1 << 8  // is set in an operand for a constant
)

// script is one compiled luaScript of a customization. It does not change.
type script struct {
	file, name string // of the customization
	operation  *operation
	proto      *glua.FunctionProto
	sites      []site
	constants  []any // large numbers
}

// site is an instruction of a script. The numbers of sites replace lines in the compiler's table, so
// the state reports the next instruction.
type site struct {
	op, a, b, c int
	line        int
	constants   []glua.LValue
	global      int // the constant of OP_SETGLOBAL
	upvalues    int // of the function that OP_CLOSURE makes
	parameters  int
	arguments   bool // the first instruction of a function with the table arg
}

// number sets the site numbers of the instructions of a function and its inner functions.
func (s *script) number(proto *glua.FunctionProto) {
	for _, constant := range proto.Constants {
		if n, ok := constant.(glua.LNumber); ok && math.Abs(float64(n)) > maxExact {
			s.constants = append(s.constants, float64(n))
		}
	}
	lines := proto.DbgSourcePositions
	for pc, instruction := range proto.Code {
		at := site{
			op: int(instruction >> 26), a: int(instruction>>18) & 0xff,
			b: int(instruction & 0x1ff), c: int(instruction>>9) & 0x1ff,
			line: lines[pc], constants: proto.Constants, parameters: int(proto.NumParameters),
		}
		at.arguments = pc == 0 && proto.IsVarArg&glua.VarArgNeedsArg != 0
		switch wide := int(instruction & 0x3ffff); at.op { // one operand in place of b and c
		case glua.OP_CLOSURE:
			if wide < len(proto.FunctionPrototypes) { // some words are data
				at.upvalues = int(proto.FunctionPrototypes[wide].NumUpvalues)
			}
		case glua.OP_SETGLOBAL:
			at.global = wide
		}
		lines[pc] = firstSite + len(s.sites)
		s.sites = append(s.sites, at)
	}
	for _, inner := range proto.FunctionPrototypes {
		s.number(inner)
	}
}

// lines returns a message with the numbers of sites replaced by lines.
func (m *meter) lines(message string) string {
	const mark = chunkName + ":"
	var out strings.Builder
	for {
		i := strings.Index(message, mark)
		if i < 0 {
			break
		}
		i += len(mark)
		out.WriteString(message[:i])
		message = message[i:]
		end := 0
		for end < len(message) && end < 10 && message[end] >= '0' && message[end] <= '9' {
			end++
		}
		if n, err := strconv.Atoi(message[:end]); err == nil && n >= firstSite && n-firstSite < len(m.sites) {
			out.WriteString(strconv.Itoa(m.sites[n-firstSite].line))
			message = message[end:]
		}
	}
	if out.Len() == 0 {
		return message
	}
	out.WriteString(message)
	return out.String()
}
