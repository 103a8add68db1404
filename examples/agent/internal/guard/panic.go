// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package guard keeps one work from disturbing the others. [Recover] turns panics into errors. A
// [Budget] limits the total cost of the rules of a work: the CEL and jq expressions and the paths
// that are evaluated each time the work is served. Works are untrusted. Each expression has its own
// limit, but a work may have thousands.
package guard

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"k8s.io/klog/v2"
)

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
