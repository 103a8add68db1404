// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/interpreter"
)

// Chained calls several interpreters in order.
type Chained struct {
	interpreter.Ask
	list []interpreter.Interpreter
}

// Chain returns an interpreter that calls others in order until one has an answer. Put your own
// interpreters first, and kinds.New() last, because its default answers for every kind:
//
//	caller.Chain(inCEL, inLua, webhooks, native.New(), kinds.New())
//
// Any error other than [interpreter.ErrNotInterpreted] ends the chain. A chain may be used from any
// goroutine, if its interpreters may.
func Chain(list ...interpreter.Interpreter) *Chained {
	c := &Chained{list: list}
	c.Ask = interpreter.Ask{Interpreter: c}
	return c
}

// Interpret implements [interpreter.Interpreter]. If no interpreter has an answer, the error is
// [interpreter.ErrNotInterpreted] with the reasons of all.
func (c *Chained) Interpret(ctx context.Context, q interpreter.Query) (interpreter.Answer, error) {
	var reasons []error
	for _, i := range c.list {
		answer, err := i.Interpret(ctx, q)
		if err == nil || !errors.Is(err, interpreter.ErrNotInterpreted) {
			return answer, err
		}
		inner, chained := err.(*noAnswer) //nolint:errorlint // of a nested chain
		switch {
		case chained:
			reasons = append(reasons, inner.reasons...)
		case err != interpreter.ErrNotInterpreted: //nolint:errorlint // the bare sentinel is no reason
			reasons = append(reasons, err)
		}
	}
	kind := ""
	if q.Object != nil {
		kind = q.Object.GetKind()
	}
	return interpreter.Answer{}, &noAnswer{operation: q.Operation, kind: kind, reasons: reasons}
}

// noAnswer is the error of a chain without an answer.
type noAnswer struct {
	operation interpreter.Operation
	kind      string
	reasons   []error
}

// Error returns each reason once. The reasons have the operation and the kind.
func (e *noAnswer) Error() string {
	prefix := interpreter.ErrNotInterpreted.Error() + ": "
	var texts []string
	for _, err := range e.reasons {
		if text := strings.TrimPrefix(err.Error(), prefix); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return prefix + string(e.operation) + " of " + e.kind
	}
	return prefix + strings.Join(texts, "; ")
}

// Is reports that the error is [interpreter.ErrNotInterpreted].
func (e *noAnswer) Is(target error) bool { return target == interpreter.ErrNotInterpreted }

// Unwrap returns the reasons.
func (e *noAnswer) Unwrap() []error { return e.reasons }
