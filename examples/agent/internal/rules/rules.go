// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package rules evaluates the condition rules and the feedback rules of a work on the objects of its
// manifests.
//
// A CEL expression has the object as the variable object. The expression for a message also has the
// outcome as result. The functions are the standard ones, the string, list, set and math extensions
// of cel-go, optional values (object.?status.?phase) and, as in OCM's agent,
// hasConditions(object.status). The cost of expressions is limited, because works are untrusted.
package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
	"github.com/spokewire/sdk-go/internal/bound"
	"github.com/spokewire/sdk-go/internal/celbound"
	"github.com/spokewire/sdk-go/interpreter/native"
)

const (
	// timeLimit limits one evaluation. Package celbound also limits its cost and memory.
	timeLimit = 250 * time.Millisecond
	// longestMessage is the maximum length of the message of a condition, by the API's schema.
	longestMessage = 32 << 10
	// longestError limits the stored part of a compiler error, which quotes the expression for each
	// mistake.
	longestError = 2 << 10
)

// Evaluator evaluates rules. Its methods may be called from any goroutine.
type Evaluator struct {
	conditions, messages *celbound.Env
	compiled             programs
	native               *native.Interpreter
}

// New returns an Evaluator.
func New() (*Evaluator, error) {
	conditions, err := celbound.New(nil, cel.HomogeneousAggregateLiterals(), cel.Variable("object", cel.DynType),
		cel.Function("hasConditions", cel.Overload("has_conditions_dyn", []*cel.Type{cel.DynType}, cel.BoolType,
			cel.UnaryBinding(hasConditions))))
	if err != nil {
		return nil, err
	}
	messages, err := conditions.With(cel.Variable("result", cel.BoolType))
	if err != nil {
		return nil, err
	}
	return &Evaluator{conditions: conditions, messages: messages, native: native.New()}, nil
}

// Evaluate returns the condition that a rule yields for an object. Errors of the rule are in the
// reason and message of the condition.
func (e *Evaluator) Evaluate(
	ctx context.Context, rule workv1.ConditionRule, obj *unstructured.Unstructured,
) metav1.Condition {
	result, message, err := e.result(ctx, rule, obj)
	c := metav1.Condition{Type: rule.Condition, Status: metav1.ConditionFalse, Reason: workv1.ConditionRuleEvaluated}
	if result {
		c.Status = metav1.ConditionTrue
	}
	switch {
	case errors.As(err, new(*invalidError)), errors.Is(err, guard.ErrExceeded):
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, workv1.ConditionRuleInvalid, err.Error()
	case err != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, workv1.ConditionRuleExpressionError, err.Error()
	default:
		c.Message = e.message(ctx, rule, obj, result, message)
	}
	c.Message = strings.ToValidUTF8(c.Message[:min(len(c.Message), longestMessage)], "")
	return c
}

// invalidError is a rule that is invalid for any object, or for objects of this kind.
type invalidError struct{ error }

func invalid(format string, args ...any) error { return &invalidError{fmt.Errorf(format, args...)} }

// result returns the outcome of a rule, and the message of a well-known rule.
func (e *Evaluator) result(
	ctx context.Context, rule workv1.ConditionRule, obj *unstructured.Unstructured,
) (bool, string, error) {
	switch rule.Type {
	case workv1.WellKnownConditionsType:
		return e.wellKnown(ctx, rule.Condition, obj)
	case workv1.CelConditionExpressionsType:
		if len(rule.CelExpressions) == 0 {
			return false, "", invalid("the rule has no expression: write celExpressions")
		}
	default:
		return false, "", invalid("the type %q is unknown: write CEL or WellKnownConditions", rule.Type)
	}
	for i, text := range rule.CelExpressions {
		result, err := eval[bool](ctx, e, e.conditions, text, map[string]any{"object": obj.Object})
		if err != nil {
			return false, "", fmt.Errorf("celExpressions[%d]: %w", i, err)
		}
		if !result {
			return false, "", nil
		}
	}
	return true, "", nil
}

// message returns the message for a rule: the result of its expression, its text, or a default. If
// the expression fails, it returns the error.
func (e *Evaluator) message(
	ctx context.Context, rule workv1.ConditionRule, obj *unstructured.Unstructured, result bool, otherwise string,
) string {
	if rule.MessageExpression != "" {
		text, err := eval[string](ctx, e, e.messages, rule.MessageExpression,
			map[string]any{"object": obj.Object, "result": result})
		if err != nil {
			return fmt.Sprintf("messageExpression: %v", err)
		}
		if text != "" {
			return text
		}
	}
	switch {
	case rule.Message != "":
		return rule.Message
	case otherwise != "":
		return otherwise
	case result:
		return "Manifest is " + rule.Condition
	}
	return "Manifest is not " + rule.Condition
}

// eval evaluates an expression, which must return a T.
func eval[T any](
	ctx context.Context, e *Evaluator, env *celbound.Env, text string, variables map[string]any,
) (none T, err error) {
	budget := guard.BudgetFrom(ctx)
	if err := budget.Check(); err != nil {
		return none, err
	}
	start := time.Now()
	program, err := e.compile(env, text)
	budget.Add(time.Since(start))
	if err != nil {
		return none, err
	}
	var out ref.Val
	err = guard.Evaluate(ctx, timeLimit, func(ctx context.Context) (err error) {
		out, err = program.Eval(ctx, &bound.Steps{}, variables)
		return err
	})
	if err != nil {
		return none, err
	}
	value, ok := out.Value().(T)
	if !ok {
		return none, fmt.Errorf("result is a %s, must be a %T", out.Type().TypeName(), none)
	}
	return value, nil
}

// compile returns the program of an expression. Programs and errors are cached.
func (e *Evaluator) compile(env *celbound.Env, text string) (*celbound.Program, error) {
	if len(text) > celbound.MaxBytes { // not cached
		compiled, _, err := env.Compile(text)
		return compiled, err
	}
	key := expression{env, text}
	if p, ok := e.compiled.get(key); ok {
		return p.Program, p.err
	}
	compiled, nodes, err := env.Compile(text)
	if err != nil {
		message := err.Error()
		err = errors.New(strings.ToValidUTF8(strings.Clone(message[:min(len(message), longestError)]), ""))
	}
	p := program{compiled, err, perProgram + 2*len(text) + nodes*perNode}
	e.compiled.add(key, p)
	return p.Program, p.err
}

// hasConditions reports whether a status has any condition. A rule can check this before it reads a
// condition.
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

const (
	// mostCached limits the cache of compiled expressions, in estimated bytes.
	mostCached = 16 << 20
	// perProgram and perNode are the estimated bytes of a compiled expression, and of each of its
	// parts. Measured with cel-go 0.29: a part has 70 to 130 bytes.
	perProgram, perNode = 4 << 10, 160
)

// expression is the key of a program: the same text may be compiled for two environments.
type expression struct {
	env  *celbound.Env
	text string
}

// program is a compiled expression, or the error of the compiler.
type program struct {
	*celbound.Program
	err   error
	bytes int
}

// programs is a cache of compiled expressions: those that were used recently, and those that were
// used before these. The zero value is ready to use.
type programs struct {
	mu             sync.Mutex
	recent, before map[expression]program
	bytes          int // of recent
}

func (p *programs) get(key expression) (program, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.recent[key]
	if ok {
		return found, true
	}
	if found, ok = p.before[key]; ok {
		p.addLocked(key, found)
	}
	return found, ok
}

func (p *programs) add(key expression, compiled program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(key, compiled)
}

func (p *programs) addLocked(key expression, compiled program) {
	if p.recent == nil || p.bytes+compiled.bytes > mostCached/2 {
		p.recent, p.before, p.bytes = map[expression]program{}, p.recent, 0
	}
	p.recent[key] = compiled
	p.bytes += compiled.bytes
}
