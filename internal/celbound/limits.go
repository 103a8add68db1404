// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package celbound

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/spokewire/sdk-go/internal/bound"
)

// CEL adds the cost of a call after the call, which it does not interrupt. It joins lists without a
// copy, so 40 additions make a list of 2^40 items. Therefore, calls and literals reserve steps
// before they begin.

const (
	// stepsVariable is the variable of an evaluation with its [bound.Steps]. No expression can name
	// it.
	stepsVariable = "#steps"
	// mapInsert is the function that adds an entry to the map of a macro with two variables.
	mapInsert = "cel.@mapInsert"
	// perItem and perEntry are the steps for an item of a new list and for an entry of a new map.
	perItem, perEntry = 8, 32
	// perRead are the steps for an item that is read from a list, because CEL wraps it.
	perRead = 24
	// mostNodes is the maximum number of parts of an expression. The type checker takes 0.2 s for
	// it, and four times as long for twice as many.
	mostNodes = 2_000
	// mostNesting is the maximum sum of the cubes of the depths of all parts, with which the time of
	// the type checker grows: 200 nested lists took 1 s and 471 MiB.
	mostNesting = 50_000_000
)

// work maps functions to the number of steps of a call. All other functions read their text
// arguments once: see [read].
var work = map[string]func(args []ref.Val) int{
	operators.Add:           added,
	operators.Equals:        compared,
	operators.NotEquals:     compared,
	operators.In:            looked,
	overloads.Matches:       one,
	mapInsert:               inserted,
	"charAt":                text,
	"distinct":              func(args []ref.Val) int { return sizeOf(args[0]) * max(perItem, lengthOf(args)) },
	"flatten":               flattened,
	"format":                lengthOf,
	"indexOf":               product,
	"join":                  joined,
	"lastIndexOf":           product,
	"lists.range":           ranged,
	"lowerAscii":            text,
	"math.@max":             lengthOf,
	"math.@min":             lengthOf,
	"optional.unwrap":       unwrapped,
	"replace":               replaced,
	"reverse":               func(args []ref.Val) int { return text(args) + perRead*sizeOf(args[0]) },
	"sets.contains":         deepProduct,
	"sets.equivalent":       deepProduct,
	"sets.intersects":       deepProduct,
	"slice":                 func(args []ref.Val) int { return perRead * sizeOf(args[0]) },
	"sort":                  items,
	"@sortByAssociatedKeys": func(args []ref.Val) int { return perRead*sizeOf(args[0]) + perItem*lengthOf(args[1:]) },
	"split":                 split,
	"strings.quote":         text,
	"substring":             text,
	"trim":                  text,
	"unwrapOpt":             unwrapped,
	"upperAscii":            text,
}

// operations replaces the bindings of functions.
var operations = map[string]func(*bound.Steps, []ref.Val) ref.Val{
	operators.Equals: func(_ *bound.Steps, args []ref.Val) ref.Val { return types.Equal(args[0], args[1]) },
	operators.NotEquals: func(_ *bound.Steps, args []ref.Val) ref.Val {
		return types.Bool(types.Equal(args[0], args[1]) != types.True)
	},
	overloads.Matches: func(steps *bound.Steps, args []ref.Val) ref.Val {
		s, isText := args[0].(types.String)
		pattern, ok := args[1].(types.String)
		if !isText || !ok {
			return types.MaybeNoSuchOverloadErr(args[0])
		}
		matched, err := steps.Match(string(pattern), string(s))
		var invalid *syntax.Error
		switch {
		case errors.As(err, &invalid): // the text of err quotes the pattern
			return types.WrapErr(ownError{fmt.Errorf("invalid regular expression: %s", invalid.Code)})
		case err != nil:
			return types.WrapErr(ownError{err})
		}
		return types.Bool(matched)
	},
}

// bounded returns the decorator that makes calls and literals reserve steps. The functions of the
// caller reserve their own steps.
func bounded(env *cel.Env, functionsOfCaller []Function) (interpreter.InterpretableDecoratorV2, error) {
	ownCalls := map[string]func(*bound.Steps, []ref.Val) ref.Val{}
	for _, f := range functionsOfCaller {
		ownCalls[f.Name] = f.Call
	}
	bindings := map[string][]*functions.Overload{}
	for name, function := range env.Functions() {
		var err error
		if bindings[name], err = function.Bindings(); err != nil {
			return nil, err
		}
	}
	for name := range work {
		if len(bindings[name]) == 0 && operations[name] == nil && name != mapInsert {
			return nil, fmt.Errorf("CEL's %s cannot be limited", name)
		}
	}
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		switch node := i.(type) {
		case interpreter.InterpretableCall:
			if operation := ownCalls[node.Function()]; operation != nil {
				marked := func(steps *bound.Steps, args []ref.Val) ref.Val { return own(operation(steps, args)) }
				return &call{node, node.Args(), one, marked, false}, nil
			}
			workOf, ok := work[node.Function()]
			if !ok {
				workOf = read
			}
			operation, ok := operations[node.Function()]
			nonStrict := false
			if !ok {
				overload := overloadOf(bindings[node.Function()], node)
				if overload == nil {
					return nil, fmt.Errorf("CEL's %s cannot be limited", node.Function())
				}
				operation, nonStrict = operationOf(overload), overload.NonStrict
			}
			return &call{node, node.Args(), workOf, operation, nonStrict}, nil
		case interpreter.InterpretableConstructor:
			steps := perItem * len(node.InitVals())
			if node.Type() != types.ListType {
				steps = perEntry * len(node.InitVals()) / 2
			}
			return &literal{node, steps}, nil
		}
		return i, nil
	}, nil
}

func overloadOf(bindings []*functions.Overload, node interpreter.InterpretableCall) *functions.Overload {
	for _, id := range []string{node.OverloadID(), node.Function()} {
		if i := slices.IndexFunc(bindings, func(b *functions.Overload) bool { return b.Operator == id }); i >= 0 {
			return bindings[i]
		}
	}
	return nil
}

func operationOf(to *functions.Overload) func(*bound.Steps, []ref.Val) ref.Val {
	return func(_ *bound.Steps, args []ref.Val) ref.Val {
		switch {
		case to.OperandTrait != 0 && (len(args) == 0 || !args[0].Type().HasTrait(to.OperandTrait)):
			return types.MaybeNoSuchOverloadErr(args[0])
		case len(args) == 1 && to.Unary != nil:
			return to.Unary(args[0])
		case len(args) == 2 && to.Binary != nil:
			return to.Binary(args[0], args[1])
		}
		return to.Function(args...)
	}
}

type call struct {
	interpreter.InterpretableCall
	args      []interpreter.InterpretableV2
	work      func([]ref.Val) int
	operation func(*bound.Steps, []ref.Val) ref.Val
	nonStrict bool // the function accepts errors as arguments
}

// Exec implements [interpreter.InterpretableV2].
func (c *call) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	args := make([]ref.Val, len(c.args))
	for i, arg := range c.args {
		args[i] = arg.Exec(frame)
	}
	for _, arg := range args {
		if !c.nonStrict && types.IsUnknownOrError(arg) {
			return arg
		}
	}
	steps := stepsOf(frame)
	err := steps.Err() // macros continue after an error
	if err == nil {
		err = steps.Take(display(c.Function()), c.work(args))
	}
	if err != nil {
		return types.LabelErrNode(c.ID(), types.WrapErr(ownError{err}))
	}
	out := c.operation(steps, args)
	if failed, ok := out.(*types.Err); ok && strings.HasPrefix(failed.String(), "no such overload") {
		names := make([]string, len(args))
		for i, arg := range args {
			names[i] = arg.Type().TypeName()
		}
		out = types.WrapErr(ownError{errors.New(mismatch(c.Function(), display(c.Function()), names))})
	}
	return types.LabelErrNode(c.ID(), out)
}

func display(function string) string {
	if operator, ok := operators.FindReverse(function); ok && operator != "" {
		return operator
	}
	return strings.TrimPrefix(function, "cel.@")
}

// Eval implements [interpreter.Interpretable].
func (c *call) Eval(vars interpreter.Activation) ref.Val { return c.Exec(interpreter.AsFrame(vars)) }

// literal creates a list or a map.
type literal struct {
	interpreter.InterpretableConstructor
	steps int
}

// Exec implements [interpreter.InterpretableV2].
func (l *literal) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	if err := stepsOf(frame).Take("a literal", l.steps); err != nil {
		return types.LabelErrNode(l.ID(), types.WrapErr(ownError{err}))
	}
	return l.InterpretableConstructor.Exec(frame)
}

// Eval implements [interpreter.Interpretable].
func (l *literal) Eval(vars interpreter.Activation) ref.Val { return l.Exec(interpreter.AsFrame(vars)) }

func stepsOf(frame *interpreter.ExecutionFrame) *bound.Steps {
	steps, _ := frame.ResolveName(stepsVariable)
	return steps.(*bound.Steps)
}

func nodesOf(expression *cel.Ast) (nodes int, err error) {
	nesting := 0
	celast.MatchDescendants(celast.NavigateAST(expression.NativeRep()), func(e celast.NavigableExpr) bool {
		nodes++
		nesting += e.Depth() * e.Depth() * e.Depth()
		return false
	})
	if nodes > mostNodes {
		return nodes, fmt.Errorf("the expression has %d parts, at most %d: shorten it", nodes, mostNodes)
	}
	if nesting > mostNesting {
		return nodes, errors.New("the expression is nested too deeply: shorten it")
	}
	return nodes, nil
}

func textOf(v ref.Val) string {
	text, _ := v.(types.String)
	return string(text)
}

func sizeOf(v ref.Val) int {
	sizer, ok := v.(traits.Sizer)
	if !ok {
		return 1
	}
	size, _ := sizer.Size().(types.Int)
	return int(size)
}

// added is the work of +. The list that a macro collects into grows in place.
func added(args []ref.Val) int {
	list, isList := args[1].(traits.Lister)
	switch _, collects := args[0].(traits.MutableLister); {
	case collects && isList:
		return perItem * sizeOf(list)
	case isList:
		return perItem * (sizeOf(args[0]) + sizeOf(list))
	}
	return sizeOf(args[0]) + sizeOf(args[1])
}

// compared is the work of ==, which reads items only if the numbers of items are equal.
func compared(args []ref.Val) int {
	for _, arg := range args {
		switch arg.(type) {
		case traits.Lister, traits.Mapper:
		default:
			return 1 + min(sizeOf(args[0]), sizeOf(args[1]))
		}
	}
	if sizeOf(args[0]) != sizeOf(args[1]) {
		return 1
	}
	return lengthOf(args)
}

// looked is the work of in, which compares the items of a list or looks up the key of a map.
func looked(args []ref.Val) int {
	if _, isMap := args[1].(traits.Mapper); isMap {
		return 1 + sizeOf(args[0])
	}
	return lengthOf(args[1:])
}

func product(args []ref.Val) int { return sizeOf(args[0]) * sizeOf(args[1]) }

// deepProduct is the work of functions that compare each item of one list with each of another.
func deepProduct(args []ref.Val) int {
	return max(sizeOf(args[0])*lengthOf(args[1:]), sizeOf(args[1])*lengthOf(args[:1]))
}

func items(args []ref.Val) int { return perItem * lengthOf(args) }

// flattened is the work of flatten, which reads lists in lists, but no other items.
func flattened(args []ref.Val) int {
	items := 0
	var count func(list traits.Lister)
	count = func(list traits.Lister) {
		for i := list.Iterator(); items <= bound.Most && i.HasNext() == types.True; {
			items++
			if inner, ok := i.Next().(traits.Lister); ok {
				count(inner)
			}
		}
	}
	if list, ok := args[0].(traits.Lister); ok {
		count(list)
	}
	return perRead * items
}

// text is the work of functions that read or split a text by characters.
func text(args []ref.Val) int { return 4 * len(textOf(args[0])) }

func ranged(args []ref.Val) int {
	n, _ := args[0].(types.Int)
	return perItem * int(min(max(n, 0), bound.Most))
}

func split(args []ref.Val) int {
	return len(textOf(args[0])) + 2*perItem*(1+strings.Count(textOf(args[0]), textOf(args[1])))
}

func replaced(args []ref.Val) int {
	text, times := textOf(args[0]), strings.Count(textOf(args[0]), textOf(args[1]))
	if len(args) == 4 {
		if most, ok := args[3].(types.Int); ok && most >= 0 {
			times = min(times, int(most))
		}
	}
	return len(text) + times*len(textOf(args[2]))
}

func joined(args []ref.Val) int {
	length := lengthOf(args[:1])
	if len(args) == 2 {
		length += sizeOf(args[0]) * len(textOf(args[1]))
	}
	return length
}

// read is the work of functions that read each text once. They may copy it, also into an error.
func read(args []ref.Val) int {
	steps := 1
	for _, v := range args {
		switch v := v.(type) {
		case types.String:
			steps += len(v) / 2
		case types.Bytes:
			steps += len(v) / 2
		}
	}
	return steps
}

// inserted is the work of adding one or more entries to a map. The map that a macro collects into
// grows in place.
func inserted(args []ref.Val) int {
	steps := perEntry
	if len(args) == 2 {
		steps = perEntry * sizeOf(args[1])
	}
	if _, collects := args[0].(traits.MutableMapper); !collects {
		steps += perEntry * sizeOf(args[0])
	}
	return steps + read(args)
}

func unwrapped(args []ref.Val) int { return perItem * sizeOf(args[0]) }

// one is the work of the call itself. The function reserves further steps.
func one([]ref.Val) int { return 1 }

// Length returns the approximate length of a value as a text, or a number above [bound.Most].
func Length(v ref.Val) int { return lengthOf([]ref.Val{v}) }

// lengthOf returns the approximate length of values as texts, plus the steps to read objects. It
// stops above [bound.Most].
func lengthOf(args []ref.Val) int {
	left := bound.Most
	for _, v := range args {
		left = without(left, v)
	}
	return bound.Most - left
}

// without subtracts the length of a value and its content from left. It stops when the result is
// negative.
func without(left int, v ref.Val) int {
	left--
	switch v := v.(type) {
	case types.String:
		left -= len(v)
	case types.Bytes:
		left -= len(v)
	case traits.Lister:
		for i := v.Iterator(); left >= 0 && i.HasNext() == types.True; {
			left = without(left, i.Next())
		}
	case traits.Mapper:
		left -= perItem
		for i := v.Iterator(); left >= 0 && i.HasNext() == types.True; {
			key := i.Next()
			left = without(without(left-perItem, key), v.Get(key))
		}
	}
	return left
}
