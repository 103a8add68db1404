// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"context"
	"errors"
	"fmt"

	"github.com/spokewire/sdk-go/interpreter"
)

// Chained asks several interpreters in order.
type Chained struct {
	interpreter.Ask
	list []interpreter.Interpreter
}

// Chain returns an interpreter that asks others in order, until one has an answer or an error other than
// [interpreter.ErrNotInterpreted]: such as Chain(caller, native.New()). It may be called from any goroutine, if they may.
func Chain(list ...interpreter.Interpreter) *Chained {
	c := &Chained{list: list}
	c.Ask = interpreter.Ask{Interpreter: c}
	return c
}

// Interpret implements [interpreter.Interpreter]. Where nobody has an answer, the error says why not, of each that did.
func (c *Chained) Interpret(ctx context.Context, q interpreter.Query) (interpreter.Answer, error) {
	var reasons []error
	for _, i := range c.list {
		answer, err := i.Interpret(ctx, q)
		if err == nil || !errors.Is(err, interpreter.ErrNotInterpreted) {
			return answer, err
		}
		if err != interpreter.ErrNotInterpreted { //nolint:errorlint // the bare sentinel has nothing to tell
			reasons = append(reasons, err)
		}
	}
	if len(reasons) > 0 {
		return interpreter.Answer{}, errors.Join(reasons...)
	}
	kind := ""
	if q.Object != nil {
		kind = q.Object.GetKind()
	}
	return interpreter.Answer{}, fmt.Errorf("%w: %s of %s", interpreter.ErrNotInterpreted, q.Operation, kind)
}
