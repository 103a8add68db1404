// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package budget bounds what the rules of one work may cost together: the expressions of CEL and jq and the paths that are
// evaluated each time the work is served. Works come from outside, and each expression alone is bounded already; but a work may
// have thousands.
package budget

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// Most is how many expressions and paths are evaluated for a work each time it is served. The
	// rules of all manifests together have no more either.
	Most = 10_000
	// Together is how long all of them may take.
	Together = 2 * time.Second
)

// ErrExceeded says that a work has more or slower rules than one may have. What came before was evaluated.
var ErrExceeded = fmt.Errorf("the work has more than %d rules, expressions and paths to evaluate, "+
	"or they take longer than %s together: make them fewer or simpler, or split the work", Most, Together)

// Budget is what is left for one work. It is for one goroutine.
type Budget struct {
	expressions int
	rules       int
	spent       time.Duration
	exceeded    bool
}

type key struct{}

// With returns a context in which all that is evaluated comes from one budget.
func With(ctx context.Context) (context.Context, *Budget) {
	b := &Budget{}
	return context.WithValue(ctx, key{}, b), b
}

// From returns the budget of a context, or a new one where the context has none.
func From(ctx context.Context) *Budget {
	if b, ok := ctx.Value(key{}).(*Budget); ok {
		return b
	}
	return &Budget{}
}

// Rules takes n rules of one manifest. It returns [ErrExceeded] and takes none if the work would
// have more than [Most] then.
func (b *Budget) Rules(n int) error {
	if n > Most-b.rules {
		b.exceeded = true
		return ErrExceeded
	}
	b.rules += n
	return nil
}

// Spent is how long evaluation has taken.
func (b *Budget) Spent() time.Duration { return b.spent }

// Exceeded reports whether something was not evaluated, or not to its end, because nothing was left. The budget is that
// of the context.
func Exceeded(ctx context.Context) bool {
	b, ok := ctx.Value(key{}).(*Budget)
	return ok && b.exceeded
}

// Add takes what was spent without a limit of its own.
func Add(ctx context.Context, spent time.Duration) {
	if b, ok := ctx.Value(key{}).(*Budget); ok {
		b.spent += spent
	}
}

// Left returns [ErrExceeded] when nothing is left: then nothing is compiled either.
func Left(ctx context.Context) error {
	if b, ok := ctx.Value(key{}).(*Budget); ok {
		return b.check()
	}
	return nil
}

func (b *Budget) check() error {
	if b.expressions >= Most || b.spent >= Together {
		b.exceeded = true
		return ErrExceeded
	}
	return nil
}

// Evaluate calls evaluate for one expression, with a context that ends after limit, or when nothing is left of the budget: it
// must return the error of its context then.
// The error is [ErrExceeded], says that it takes longer than limit, or is that of evaluate.
func Evaluate(ctx context.Context, limit time.Duration, evaluate func(context.Context) error) error {
	b := From(ctx)
	if err := b.check(); err != nil {
		return err
	}
	left := Together - b.spent
	b.expressions++
	bounded, cancel := context.WithTimeout(ctx, min(limit, left))
	defer cancel()
	start := time.Now()
	err := evaluate(bounded)
	b.spent += time.Since(start)
	switch {
	case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
		return err
	case left < limit:
		b.exceeded = true
		return ErrExceeded
	}
	return fmt.Errorf("it takes longer than %s", limit)
}
