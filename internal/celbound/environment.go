// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package celbound

import (
	"errors"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"

	"github.com/spokewire/sdk-go/internal/bound"
)

// Function is a function for expressions that limits its own time and memory.
type Function struct {
	Name string
	// Overloads are [cel.Overload] and [cel.MemberOverload] without a binding.
	Overloads []cel.FunctionOpt
	// Call reserves steps before each part that needs time or memory. The arguments are never
	// errors.
	Call func(steps *bound.Steps, args []ref.Val) ref.Val
}

// Env is an environment for expressions. Its methods may be called from any goroutine.
type Env struct {
	*cel.Env
	decorator interpreter.InterpretableDecoratorV2
}

// New returns an environment with the standard functions of CEL, optional values, and the string,
// list, set and math extensions of cel-go. The options add variables and macros. Functions that
// they add reserve few steps and must be fast.
func New(own []Function, options ...cel.EnvOption) (*Env, error) {
	all := append([]cel.EnvOption{
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		cel.ParserExpressionSizeLimit(MaxBytes),
		ext.Strings(), ext.Lists(), ext.Sets(), ext.Math(),
		optMacros(),
	}, options...)
	for _, f := range own {
		all = append(all, cel.Function(f.Name, slices.Concat(f.Overloads,
			[]cel.FunctionOpt{cel.SingletonFunctionBinding(unbounded)})...))
	}
	env, err := cel.NewEnv(all...)
	if err != nil {
		return nil, err
	}
	decorator, err := bounded(env, own)
	if err != nil {
		return nil, err
	}
	return &Env{env, decorator}, nil
}

// With returns an environment with more variables.
func (e *Env) With(variables ...cel.EnvOption) (*Env, error) {
	env, err := e.Extend(variables...)
	if err != nil {
		return nil, err
	}
	return &Env{env, e.decorator}, nil
}

// unbounded is the binding of functions that must be called with steps. It returns an error.
func unbounded(...ref.Val) ref.Val {
	return types.WrapErr(errors.New("the function is called without steps"))
}

// Macros returns the macros for two variables (map.transformMap(k, v, …)) and cel.bind(name, value,
// expression).
func Macros() cel.EnvOption {
	return func(env *cel.Env) (*cel.Env, error) {
		env, err := ext.TwoVarComprehensions()(env)
		if err != nil {
			return nil, err
		}
		return cel.Macros(cel.ReceiverMacro("bind", 3, bind))(env)
	}
}

// bind is the macro cel.bind(name, value, expression). The macro of cel-go binds the name to an
// accumulator. An addition to an empty list would change the accumulator itself.
func bind(f cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
	if target.Kind() != ast.IdentKind || target.AsIdent() != "cel" {
		return nil, nil
	}
	if args[0].Kind() != ast.IdentKind {
		return nil, f.NewError(args[0].ID(), "the first argument of cel.bind must be a name")
	}
	if name := args[0].AsIdent(); name == f.AccuIdentName() {
		return nil, f.NewError(args[0].ID(), "the first argument of cel.bind is a reserved name")
	}
	return boundTo(f, args[0].AsIdent(), args[1], args[2]), nil
}

// boundTo returns [value].map(name, expression)[0].
func boundTo(f cel.MacroExprFactory, name string, value, expression ast.Expr) ast.Expr {
	results := f.NewComprehension(f.NewList(value), name, f.AccuIdentName(), f.NewList(), f.NewLiteral(types.True),
		f.NewCall(operators.Add, f.NewAccuIdent(), f.NewList(expression)), f.NewAccuIdent())
	return f.NewCall(operators.Index, results, f.NewLiteral(types.IntZero))
}

const optional = "@optional" // no expression can name it

// optMap returns the macro optMap, or optFlatMap if result returns its argument. The macros of
// cel-go expand their target twice, so a chain of 20 would have a million parts before they are
// counted.
func optMap(result func(f cel.MacroExprFactory, e ast.Expr) ast.Expr) cel.MacroFactory {
	return func(f cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
		if args[0].Kind() != ast.IdentKind || args[0].AsIdent() == f.AccuIdentName() {
			return nil, f.NewError(args[0].ID(), "the first argument of optMap and optFlatMap must be a name")
		}
		value := f.NewMemberCall("value", f.NewIdent(optional))
		return boundTo(f, optional, target, f.NewCall(operators.Conditional,
			f.NewMemberCall("hasValue", f.NewIdent(optional)),
			result(f, boundTo(f, args[0].AsIdent(), value, args[1])),
			f.NewCall("optional.none"))), nil
	}
}

func optMacros() cel.EnvOption {
	return cel.Macros(
		cel.ReceiverMacro("optMap", 2, optMap(func(f cel.MacroExprFactory, e ast.Expr) ast.Expr {
			return f.NewCall("optional.of", e)
		})),
		cel.ReceiverMacro("optFlatMap", 2, optMap(func(_ cel.MacroExprFactory, e ast.Expr) ast.Expr { return e })),
	)
}
