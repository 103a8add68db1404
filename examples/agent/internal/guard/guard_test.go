// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
)

func sleep(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
}

// TestTime checks the time limits: each expression has a limit, and all expressions share another.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, b := guard.WithBudget(t.Context())
		for range 7 {
			if err := guard.Evaluate(ctx, 250*time.Millisecond, sleep(time.Hour)); err == nil ||
				errors.Is(err, guard.ErrExceeded) || !strings.Contains(err.Error(), "longer than 250ms") {
				t.Fatal(err)
			}
		}
		if err := guard.Evaluate(ctx, 250*time.Millisecond, sleep(100*time.Millisecond)); err != nil || guard.Exceeded(ctx) {
			t.Fatal(err, guard.Exceeded(ctx))
		}
		for range 2 { // the first one begins with less than its own limit
			if err := guard.Evaluate(ctx, 250*time.Millisecond, sleep(time.Hour)); !errors.Is(err, guard.ErrExceeded) {
				t.Error(err)
			}
		}
		if !guard.Exceeded(ctx) || b.Spent() != guard.MaxTime {
			t.Error(guard.Exceeded(ctx), b.Spent())
		}
		if other, _ := guard.WithBudget(t.Context()); guard.Exceeded(other) ||
			guard.Evaluate(other, time.Second, sleep(0)) != nil {
			t.Error("the budget of one work is that of another")
		}
	})
}

// TestNumber checks the limit for the number of expressions.
func TestNumber(t *testing.T) {
	ctx, _ := guard.WithBudget(t.Context())
	for range guard.MaxRules {
		if err := guard.Evaluate(ctx, time.Minute, sleep(0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := guard.Evaluate(ctx, time.Minute, sleep(0)); !errors.Is(err, guard.ErrExceeded) {
		t.Error(err)
	}
}

// TestErrors checks that the error of an expression is returned, and that neither the error nor a
// cancellation exceeds the budget.
func TestErrors(t *testing.T) {
	wrong := errors.New("wrong")
	if err := guard.Evaluate(t.Context(), time.Minute, func(context.Context) error { return wrong }); !errors.Is(err,
		wrong) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := guard.Evaluate(ctx, time.Minute, func(ctx context.Context) error { return ctx.Err() }); !errors.Is(err,
		context.Canceled) || guard.Exceeded(ctx) {
		t.Error(err)
	}
}
