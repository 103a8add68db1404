// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
)

// environment is what expressions have beside variables.
func environment() []cel.EnvOption {
	return []cel.EnvOption{
		cel.HomogeneousAggregateLiterals(),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		cel.ParserExpressionSizeLimit(longestExpression),
		ext.Strings(), ext.Lists(), ext.Sets(), ext.Math(),
		cel.Function("hasConditions", cel.Overload("has_conditions_dyn", []*cel.Type{cel.DynType}, cel.BoolType, cel.UnaryBinding(hasConditions))),
	}
}

// hasConditions reports whether a status has any condition, so that a rule can ask before it looks for one.
func hasConditions(status ref.Val) ref.Val {
	object, ok := status.(traits.Mapper)
	if !ok {
		return types.False
	}
	found, ok := object.Find(types.String("conditions"))
	if !ok {
		return types.False
	}
	list, ok := found.(traits.Lister)
	return types.Bool(ok && list.Size() != types.IntZero)
}
