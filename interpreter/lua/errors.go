// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/interpreter"
)

// Error is returned for a customization that cannot be loaded, and for a script that fails. Its
// text has no values of objects, unless the script adds them to a message.
type Error struct {
	File string // its name
	// Line and Column count from 1. If Field is set, they are a position in its script, otherwise
	// in the file. They are 0 if unknown: the compiler and running scripts have no column.
	Line, Column int

	Name  string // metadata.name of the customization
	Field string // the path of the field with the mistake
	// Operation is the operation of the script. Object is the kind, namespace and name of the
	// object of the query. Both are empty for an error of [New] or [Interpreter.Set].
	Operation interpreter.Operation
	Object    string

	Err error // the mistake
}

// Error returns the known fields:
//
//	FILE: ResourceInterpreterCustomization NAME: FIELD:LINE:COLUMN: OPERATION of OBJECT: mistake
func (e *Error) Error() string {
	place := ""
	if e.Line > 0 {
		place += fmt.Sprintf(":%d", e.Line)
	}
	if e.Column > 0 {
		place += fmt.Sprintf(":%d", e.Column)
	}
	parts := []string{e.File, "", e.Field, string(e.Operation), e.Err.Error()}
	if e.Name != "" {
		parts[1] = kind + " " + e.Name
	}
	if e.Field == "" {
		parts[0] += place
	} else {
		parts[2] += place
	}
	if e.Object != "" {
		parts[3] += " of " + e.Object
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

func (s *script) fail(err error) *Error {
	return &Error{File: s.file, Name: s.name, Operation: s.operation.name, Field: s.operation.path(), Err: err}
}

// about adds the object of a query to an error of its script.
func about(request *interpreter.Request, err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.Object = request.Kind.Kind + " " + strings.TrimPrefix(request.Namespace+"/"+request.Name, "/")
	}
	return err
}

// runError returns the error of a run, with the line of the script.
func (s *script) runError(m *meter, err error) *Error {
	e := s.fail(err)
	var raised *glua.ApiError
	if !errors.As(err, &raised) {
		return e
	}
	message := "error of type " + raised.Object.Type().String()
	if glua.LVCanConvToString(raised.Object) {
		message = m.lines(glua.LVAsString(raised.Object))
	}
	if rest, ok := strings.CutPrefix(message, chunkName+":"); ok {
		if line, text, ok := strings.Cut(rest, ":"); ok {
			if n, err := strconv.Atoi(line); err == nil {
				e.Line, message = n, strings.TrimPrefix(text, " ")
			}
		}
	}
	e.Err = errors.New(shorten(message))
	if m.err != nil {
		e.Err = m.err // unchanged, so errors.Is finds errors of the context
	}
	return e
}

// shorten limits the length of a message that a script has made.
func shorten(message string) string { return cut.Text(message, 1000) }
