// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package celbound compiles and evaluates untrusted CEL expressions in limited time and memory: see
// [Env.Compile] and [Program.Eval].
package celbound

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/spokewire/sdk-go/internal/bound"
)

const (
	// costLimit limits the cost of one evaluation, in CEL's units, as in the API server.
	costLimit = 1_000_000
	// MaxBytes is the size limit of an expression.
	MaxBytes = 16 << 10
)

// Error is a mistake in an expression, found when it was compiled or evaluated.
type Error struct {
	Line, Column int // in the expression, from 1; 0 if the place is unknown
	Problem      string

	display string
	err     error
}

// Error returns the problem. For an error of the compiler, the text includes the line of the
// expression.
func (e *Error) Error() string {
	if e.display != "" {
		return e.display
	}
	return e.Problem
}

// Unwrap returns the error of an evaluation.
func (e *Error) Unwrap() error { return e.err }

// Program is a compiled expression. Its methods may be called from any goroutine.
type Program struct {
	// Type is the static type of the result.
	Type *cel.Type
	// Nodes is the number of parts of the expression.
	Nodes int

	program cel.Program
	ast     *cel.Ast
}

// Compile compiles an expression of up to 16 KiB and 2,000 parts. Deep nesting lowers the limit of
// parts. The error is an [*Error]. Compile returns the number of parts, also with errors that were
// found after the parts were counted.
func (e *Env) Compile(text string) (*Program, int, error) {
	if len(text) > MaxBytes {
		return nil, 0, &Error{
			Problem: fmt.Sprintf("the expression has %d bytes, at most %d: shorten it", len(text), MaxBytes),
		}
	}
	ast, issues := e.Parse(text)
	if err := e.firstOf(nil, issues, text); err != nil {
		return nil, 0, err
	}
	nodes, err := nodesOf(ast)
	if err != nil {
		return nil, nodes, &Error{Problem: err.Error()}
	}
	parsed := ast
	ast, issues = e.Check(parsed)
	if err := e.firstOf(parsed, issues, text); err != nil {
		return nil, nodes, err
	}
	p, err := e.Program(
		ast,
		cel.CostLimit(costLimit),
		cel.CustomDecoratorV2(e.decorator),
		cel.InterruptCheckFrequency(1),
	)
	if err != nil {
		return nil, nodes, &Error{Problem: err.Error(), err: err}
	}
	return &Program{Type: ast.OutputType(), Nodes: nodes, program: p, ast: ast}, nodes, nil
}

// firstOf returns the first error of the compiler: a thousand would quote the expression each.
func (e *Env) firstOf(ast *cel.Ast, issues *cel.Issues, text string) error {
	if len(issues.Errors()) == 0 {
		return nil
	}
	first := *issues.Errors()[0]
	if strings.Contains(first.Message, " '<EOF>'") {
		first.Location = lastOf(text)
	}
	first.Message, first.Location = e.compileProblem(ast, first.Message, first.Location)
	out := &Error{Problem: first.Message, display: first.ToDisplayString(common.NewTextSource(text))}
	if first.Location.Line() > 0 {
		out.Line, out.Column = first.Location.Line(), first.Location.Column()+1
	}
	return out
}

// Eval evaluates a program with variables, and adds an internal variable to the map. Operations
// that need time or memory reserve steps, and CEL's cost is limited. The evaluation ends with the
// context: the error is then that of the context, and otherwise an [*Error].
func (p *Program) Eval(ctx context.Context, steps *bound.Steps, variables map[string]any) (ref.Val, error) {
	variables[stepsVariable] = steps
	out, _, err := p.program.ContextEval(ctx, variables)
	if err == nil {
		return out, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // it was interrupted
	}
	problem := &Error{Problem: err.Error(), err: err}
	var known ownError
	if !errors.As(err, &known) {
		problem.Problem = evalProblem(err.Error(), p.ast.Source().Content())
	}
	var value *types.Err
	if errors.As(err, &value) {
		if at := p.ast.NativeRep().SourceInfo().GetStartLocation(value.NodeID()); at != common.NoLocation {
			problem.Line, problem.Column = at.Line(), at.Column()+1
		}
	}
	return nil, problem
}
