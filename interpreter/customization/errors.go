// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization

import (
	"fmt"
	"strings"

	"github.com/spokewire/sdk-go/interpreter"
)

// Error is a mistake in a customization: of a document when it is loaded, or of an expression when
// it is evaluated.
type Error struct {
	// File, Line and Column are the position of the mistake, from 1. Column is 0 if it is unknown. In a
	// folded or escaped text, it is the column where the text begins.
	File         string
	Line, Column int
	Name         string // metadata.name of the customization
	Field        string // the path of the field, such as spec.health
	// Operation and Object, a kind with namespace and name, identify the query. They are empty for an
	// error of New or Set.
	Operation interpreter.Operation
	Object    string

	Err error // the mistake
}

// Error returns the known fields:
//
//	FILE:LINE:COLUMN: InterpreterCustomization NAME: FIELD: OPERATION of OBJECT: mistake
func (e *Error) Error() string {
	var s strings.Builder
	if e.File != "" {
		s.WriteString(e.File + ":")
	}
	fmt.Fprintf(&s, "%d:", e.Line)
	if e.Column > 0 {
		fmt.Fprintf(&s, "%d:", e.Column)
	}
	if e.Name != "" {
		fmt.Fprintf(&s, " %s %s:", Kind, e.Name)
	}
	if e.Field != "" {
		s.WriteString(" " + e.Field)
		if e.Operation != "" {
			fmt.Fprintf(&s, ": %s of %s", e.Operation, e.Object)
		}
		s.WriteString(":")
	}
	return s.String() + " " + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
