// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/common/types/ref"

	"github.com/spokewire/sdk-go/internal/bound"
	"github.com/spokewire/sdk-go/internal/celbound"
	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/internal/yamldoc"
)

const (
	// timeLimit is the time limit of an evaluation. Unless the machine is overloaded, the limits of
	// package celbound, which do not depend on its load, are reached first.
	timeLimit = 3 * time.Second
	// longestMistake is the limit for the text of a mistake, in bytes: it may quote the input.
	longestMistake = 1 << 10
)

// expression is the expression of a field.
type expression struct {
	field
	file, name string // of the customization
	place      yamldoc.Text
	program    *celbound.Program
}

// failed returns the error for a mistake in the expression.
func (e *expression) failed(err error) *Error {
	at := e.place.Place
	var mistake *celbound.Error
	if errors.As(err, &mistake) {
		at, err = e.place.At(mistake.Line, mistake.Column), errors.New(mistake.Problem)
		for name, field := range onlyIn {
			if unknown := fmt.Sprintf("unknown variable %q", name); strings.HasPrefix(mistake.Problem, unknown+":") {
				err = fmt.Errorf("%s: only spec.%s has it", unknown, field)
			}
		}
	}
	if text := err.Error(); len(text) > longestMistake {
		err = errors.New(cut.Text(text, longestMistake))
	}
	return &Error{File: e.file, Line: at.Line, Column: at.Column, Name: e.name, Field: "spec." + e.field.name, Err: err}
}

// evaluate returns the result, or nil for an optional without a value.
func (e *expression) evaluate(ctx context.Context, steps *bound.Steps, variables map[string]any) (ref.Val, error) {
	limited, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	out, err := e.program.Eval(limited, steps, variables)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err() // the caller no longer waits
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("the expression takes longer than %s: make it simpler", timeLimit)
	case err != nil:
		return nil, err
	}
	return unwrap(out), nil
}
