// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// CEL counts what a call costs when the call has returned, and does not interrupt one. Some functions of the extensions make
// much of little or take long in a single call, which would be too late. They are asked before.

// mostWork is how many steps one call may take, or how long a text or a list it may make, as far as work can tell.
const mostWork = 1_000_000

// work tells of functions about how much that is.
var work = map[string]func(args []ref.Val) int{
	"distinct":        func(args []ref.Val) int { return sizeOf(args[0]) * sizeOf(args[0]) },
	"flatten":         lengthOf,
	"format":          lengthOf,
	"indexOf":         product,
	"join":            joined,
	"lastIndexOf":     product,
	"replace":         replaced,
	"sets.contains":   product,
	"sets.equivalent": product,
	"sets.intersects": product,
	"split":           lengthOf,
}

// limited returns the functions of an environment for which there is a limit, with it.
func limited(env *cel.Env) (options []cel.EnvOption, err error) {
	for name, workOf := range work {
		function := env.Functions()[name]
		bindings, err := function.Bindings()
		if err != nil {
			return nil, err
		}
		var overloads []cel.FunctionOpt
		for _, o := range function.OverloadDecls() {
			i := slices.IndexFunc(bindings, func(b *functions.Overload) bool { return b.Operator == o.ID() })
			if i < 0 {
				return nil, fmt.Errorf("CEL's %s cannot be limited", o.ID())
			}
			declare := cel.Overload
			if o.IsMemberFunction() {
				declare = cel.MemberOverload
			}
			overloads = append(overloads, declare(o.ID(), o.ArgTypes(), o.ResultType(), limit(name, bindings[i], workOf)))
		}
		options = append(options, cel.Function(name, overloads...))
	}
	return options, nil
}

// limit binds a function that is not called where that would be too much work.
func limit(name string, to *functions.Overload, workOf func([]ref.Val) int) cel.OverloadOpt {
	return cel.FunctionBinding(func(args ...ref.Val) ref.Val {
		switch {
		case workOf(args) > mostWork:
			return types.NewErr("%s would take more than %d steps", name, mostWork)
		case len(args) == 1 && to.Unary != nil:
			return to.Unary(args[0])
		case len(args) == 2 && to.Binary != nil:
			return to.Binary(args[0], args[1])
		}
		return to.Function(args...)
	})
}

// costs counts the work of many calls.
type costs struct{}

// CallCost returns nil for functions that CEL itself knows the cost of.
func (costs) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	workOf, ok := work[function]
	if !ok {
		return nil
	}
	cost := 1 + uint64(workOf(args))/10
	return &cost
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

func product(args []ref.Val) int { return sizeOf(args[0]) * sizeOf(args[1]) }

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

// lengthOf is about how long values are as texts, and no more than it takes to know that it is too much.
func lengthOf(args []ref.Val) int {
	left := mostWork
	for _, v := range args {
		left = without(left, v)
	}
	return mostWork - left
}

// without returns what is left of a length without a value, with all that is in it; less than 0 for nothing.
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
		for i := v.Iterator(); left >= 0 && i.HasNext() == types.True; {
			key := i.Next()
			left = without(without(left, key), v.Get(key))
		}
	}
	return left
}
