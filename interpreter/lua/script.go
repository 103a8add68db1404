// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	glua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
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

const (
	// maxScript is the size limit of a script. It bounds the stack of the compiler, which is
	// recursive.
	maxScript = 64 << 10
	// maxArithmetic is the limit of nested arithmetic operators, as in a+1+1: the time to compile is
	// quadratic in their number. Lua has the same limit for levels of syntax.
	maxArithmetic = 200
)

func compile(c *customization, o *operation, source string) (*script, error) {
	s := &script{file: c.file, name: c.Name, operation: o}
	if len(source) > maxScript {
		return nil, s.fail(fmt.Errorf("the script has %d bytes: the limit is %d", len(source), maxScript))
	}
	var err error
	if s.proto, err = compileChunk(source); err != nil {
		return nil, s.syntaxError(source, err)
	}
	s.number(s.proto)
	return s, nil
}

func compileChunk(source string) (proto *glua.FunctionProto, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("compile script: %v", problem)
		}
	}()
	chunk, err := parse.Parse(strings.NewReader(source), chunkName)
	if err != nil {
		return nil, err
	}
	if err := checkArithmetic(chunk); err != nil {
		return nil, err
	}
	return glua.Compile(chunk, chunkName)
}

// checkArithmetic returns an error for a syntax tree with too many nested arithmetic operators. It
// is not recursive: a tree can have as many levels as the script has characters.
func checkArithmetic(chunk []ast.Stmt) error {
	type part struct {
		value reflect.Value
		depth int // arithmetic operators directly around it
	}
	for parts := []part{{value: reflect.ValueOf(chunk)}}; len(parts) > 0; {
		p := parts[len(parts)-1]
		parts = parts[:len(parts)-1]
		switch v := p.value; v.Kind() {
		case reflect.Interface:
			parts = append(parts, part{v.Elem(), p.depth})
		case reflect.Pointer:
			switch e := v.Interface().(type) {
			case *ast.ArithmeticOpExpr, *ast.UnaryMinusOpExpr:
				if p.depth++; p.depth > maxArithmetic {
					return &glua.CompileError{Line: e.(ast.Expr).Line(), Message: fmt.Sprintf(
						"more than %d arithmetic operators are in each other: use several statements", maxArithmetic)}
				}
			default:
				p.depth = 0
			}
			parts = append(parts, part{v.Elem(), p.depth})
		case reflect.Slice:
			for i := range v.Len() {
				parts = append(parts, part{v.Index(i), p.depth})
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					parts = append(parts, part{v.Field(i), p.depth})
				}
			}
		}
	}
	return nil
}

func (s *script) syntaxError(source string, err error) *Error {
	e := s.fail(err)
	var compiling *glua.CompileError
	if errors.As(err, &compiling) {
		e.Line, e.Err = compiling.Line, errors.New(compiling.Message)
	}
	var syntax *parse.Error
	if errors.As(err, &syntax) {
		e.Err = fmt.Errorf("%s near %q", syntax.Message, cmp.Or(syntax.Token, symbol(source, syntax.Pos)))
		if syntax.Pos.Line == parse.EOF {
			e.Err = fmt.Errorf("%s at the end of the script", syntax.Message)
		} else {
			e.Line, e.Column = syntax.Pos.Line, syntax.Pos.Column
		}
	}
	return e
}

// symbol returns the character at a position: the parser does not name tokens of one character.
func symbol(source string, at ast.Position) string {
	n := 0
	for line := range strings.Lines(source) {
		if n++; n == at.Line && at.Column >= 1 && at.Column <= len(line) {
			return line[at.Column-1 : at.Column]
		}
	}
	return ""
}
