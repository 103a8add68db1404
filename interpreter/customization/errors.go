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
	// File, Line and Column are the position of the mistake. Lines and columns count from 1. Column
	// is 0 if it is unknown. Inside a folded or escaped text, it is that of the text.
	File         string
	Line, Column int
	// Name is the metadata.name of the customization.
	Name string
	// Field is the path of the field, such as spec.health.
	Field string
	// Operation and Object identify the query. They are empty for an error of New or Set. Object is
	// a kind, a namespace and a name.
	Operation interpreter.Operation
	Object    string
	// Err is the mistake.
	Err error
}

// Error returns the known fields: file:line:column: InterpreterCustomization name: field: mistake.
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
