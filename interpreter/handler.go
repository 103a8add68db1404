// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"context"
)

// Handler answers requests. Handle is called from many goroutines at once. Its context ends when
// the caller disconnects or the time limit is over. A panic is answered with the code 500.
type Handler interface {
	// Handle answers one request.
	Handle(ctx context.Context, r Request) Response
}

// HandlerFunc implements [Handler] with a function.
type HandlerFunc func(ctx context.Context, r Request) Response

// Handle calls the function.
func (f HandlerFunc) Handle(ctx context.Context, r Request) Response { return f(ctx, r) }
