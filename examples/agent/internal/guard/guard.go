// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package guard keeps one work from disturbing the others. [Recover] turns panics into errors. A
// [Budget] limits the total cost of the rules of a work: the CEL and jq expressions and the paths
// that are evaluated each time the work is served. Works are untrusted. Each expression has its own
// limit, but a work may have thousands.
package guard

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"
)

const (
	// MaxRules is the maximum number of expressions and paths that are evaluated for a work each time
	// it is served. It also limits the rules of all manifests of the work.
	MaxRules = 10_000
	// MaxTime is the maximum time for all of them.
	MaxTime = 2 * time.Second
)

// ErrExceeded is returned when the rules of a work exceed the budget, in number or in time. Earlier
// rules were evaluated.
var ErrExceeded = fmt.Errorf("the work has more than %d rules, expressions and paths to evaluate, "+
	"or they take longer than %s together: make them fewer or simpler, or split the work", MaxRules, MaxTime)

// Budget counts the evaluations for one work. It must be used by one goroutine at a time.
type Budget struct {
	expressions int
	rules       int
	spent       time.Duration
	exceeded    bool
}

type key struct{}

// WithBudget returns a context with a new budget, which all evaluations in that context share.
func WithBudget(ctx context.Context) (context.Context, *Budget) {
	b := &Budget{}
	return context.WithValue(ctx, key{}, b), b
}

// BudgetFrom returns the budget of a context, or a new one if the context has none.
func BudgetFrom(ctx context.Context) *Budget {
	if b, ok := ctx.Value(key{}).(*Budget); ok {
		return b
	}
	return &Budget{}
}

// Rules counts n rules of one manifest. It returns [ErrExceeded] and counts none if the work would
// then have more than [MaxRules].
func (b *Budget) Rules(n int) error {
	if n > MaxRules-b.rules {
		b.exceeded = true
		return ErrExceeded
	}
	b.rules += n
	return nil
}

// Spent returns the time that evaluation has taken.
func (b *Budget) Spent() time.Duration { return b.spent }

// Add adds time that was spent outside [Evaluate].
func (b *Budget) Add(spent time.Duration) { b.spent += spent }

// Check returns [ErrExceeded] if the budget is exhausted. Callers then must not compile either.
func (b *Budget) Check() error {
	if b.expressions >= MaxRules || b.spent >= MaxTime {
		b.exceeded = true
		return ErrExceeded
	}
	return nil
}

// Exceeded reports whether an evaluation was skipped or interrupted because the budget of the
// context was exhausted.
func Exceeded(ctx context.Context) bool { return BudgetFrom(ctx).exceeded }

// Evaluate calls evaluate for one expression, with a context that ends after limit, or when the
// budget is exhausted. evaluate must then return the error of its context. The error is
// [ErrExceeded], the error of evaluate, or an error that names limit if it is exceeded.
func Evaluate(ctx context.Context, limit time.Duration, evaluate func(context.Context) error) error {
	b := BudgetFrom(ctx)
	if err := b.Check(); err != nil {
		return err
	}
	left := MaxTime - b.spent
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

// PanicError is a recovered panic. It does not contain the value of the panic, which may contain
// parts of an object.
type PanicError struct {
	// Doing describes the call that panicked, for example "serving the work".
	Doing string
}

// Error returns the call that panicked.
func (e *PanicError) Error() string {
	return fmt.Sprintf("%s: the agent panicked: its log has the stack", e.Doing)
}

// Recover calls f. A panic of f is logged with its stack and returned as a [*PanicError].
func Recover(ctx context.Context, doing string, f func() error) (err error) {
	defer func() {
		problem := recover()
		if problem == nil {
			return
		}
		what := fmt.Sprintf("%T", problem) // formatting the value may panic again
		if own, ok := problem.(runtime.Error); ok {
			what = own.Error()
		}
		klog.FromContext(ctx).Error(nil, "Recovered from a panic", "doing", doing, "panic", what, "stack",
			string(debug.Stack()))
		err = &PanicError{doing}
	}()
	return f()
}
