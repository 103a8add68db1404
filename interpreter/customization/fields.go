// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/spokewire/sdk-go/internal/celbound"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// field is a field of spec with an expression.
type field struct {
	name      string
	operation interpreter.Operation
	variables variables
	result    result
}

// fields are in the order of the documentation. The expressions of an operation are in evaluation
// order.
var fields = []field{
	{"replicas", v1alpha1.InterpreterOperationInterpretReplica, ofObject, number},
	{"requirements", v1alpha1.InterpreterOperationInterpretReplica, ofObject, object},
	{"components", v1alpha1.InterpreterOperationInterpretComponent, ofObject, list},
	{"revise", v1alpha1.InterpreterOperationReviseReplica, ofRevise, object},
	{"retain", v1alpha1.InterpreterOperationRetain, ofRetain, object},
	{"aggregate", v1alpha1.InterpreterOperationAggregateStatus, ofAggregate, object},
	{"dependencies", v1alpha1.InterpreterOperationInterpretDependency, ofObject, list},
	{"status", v1alpha1.InterpreterOperationInterpretStatus, ofObject, object},
	{"health", v1alpha1.InterpreterOperationInterpretHealth, ofObject, boolean},
	{"prune", v1alpha1.InterpreterOperationPrune, ofObject, object},
}

func fieldNames() string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return strings.Join(names, ", ")
}

// variables are the variables of an expression.
type variables int

const (
	ofObject    variables = iota // object
	ofRevise                     // object, replicas
	ofRetain                     // object, observed
	ofAggregate                  // object, items, statuses
	environments
)

// onlyIn maps variables to the only field that has them.
var onlyIn = map[string]string{
	"replicas": "revise", "observed": "retain", "items": "aggregate", "statuses": "aggregate",
}

// compiler has an environment for each set of variables.
type compiler struct {
	environments [environments]*celbound.Env
}

func newCompiler() (*compiler, error) {
	jsonObject := cel.MapType(cel.StringType, cel.DynType)
	base, err := celbound.New(functions(), celbound.Macros(), cel.ASTValidators(pathValidator{}),
		cel.Variable("object", jsonObject))
	if err != nil {
		return nil, err
	}
	c := &compiler{}
	c.environments[ofObject] = base
	for of, more := range map[variables][]cel.EnvOption{
		ofRevise: {cel.Variable("replicas", cel.IntType)},
		ofRetain: {cel.Variable("observed", jsonObject)},
		ofAggregate: {
			cel.Variable("items", cel.ListType(jsonObject)), cel.Variable("statuses", cel.ListType(jsonObject)),
		},
	} {
		if c.environments[of], err = base.With(more...); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// result is the type of a result.
type result string

const (
	number  result = "an int"
	boolean result = "a bool"
	object  result = "an object"
	list    result = "a list"
)

func withoutOptional(t *cel.Type) *cel.Type {
	if t.Kind() == types.OpaqueKind && t.TypeName() == "optional_type" {
		return t.Parameters()[0]
	}
	return t
}

func (r result) mistake(t *cel.Type) error {
	if t = withoutOptional(t); r == object && t.Kind() == types.MapKind {
		return fmt.Errorf("the result: a key of an object is %s: write a string",
			celbound.TypeName(t.Parameters()[0].String()))
	}
	return mistyped(r, celbound.TypeName(t.String()))
}

// allows reports whether an expression of a static type, or of an optional of it, can have the result
// type.
func (r result) allows(t *cel.Type) bool {
	switch t = withoutOptional(t); t.Kind() {
	case types.DynKind, types.AnyKind, types.TypeParamKind:
		return true
	case types.IntKind, types.UintKind:
		return r == number
	case types.BoolKind:
		return r == boolean
	case types.MapKind:
		key := t.Parameters()[0].Kind()
		return r == object && (key == types.StringKind || key == types.DynKind || key == types.TypeParamKind)
	case types.ListKind:
		return r == list
	}
	return false
}

// typeOf returns the name of the type of a value with its article.
func typeOf(v ref.Val) string { return celbound.TypeName(v.Type().TypeName()) }
