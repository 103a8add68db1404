// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	glua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

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
