// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"context"
)

// Handler answers requests. Its method is called from many goroutines at once. The context ends when the caller has gone
// or waits no longer. A panic is answered with the code 500.
type Handler interface {
	// Handle answers one request.
	Handle(ctx context.Context, r Request) Response
}

// HandlerFunc is a function as a [Handler].
type HandlerFunc func(ctx context.Context, r Request) Response

// Handle calls the function.
func (f HandlerFunc) Handle(ctx context.Context, r Request) Response { return f(ctx, r) }
