// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/spokewire/sdk-go/internal/bodies"
	"github.com/spokewire/sdk-go/internal/connlimit"
	"github.com/spokewire/sdk-go/internal/turns"
)

const (
	bodiesMemory = 128 << 20 // for the bodies of all requests, or more for two of the largest
	workMemory   = 128 << 20 // for answering all requests that need more than smallWork
	smallWork    = 1 << 20
	// The memory to answer a request is estimated for each byte of its body and each value in it.
	byteWork, partWork = 8, 512
)

// memory bounds the memory of all requests to a server.
type memory struct {
	bodies *bodies.Bodies
	turns  *turns.Turns
}

func newMemory(largest int64) *memory {
	return &memory{bodies.New(largest, bodiesMemory), turns.New(workMemory)}
}

// turn waits until there is memory to answer a request. The caller calls end when it is answered.
func (m *memory) turn(ctx context.Context, client string, body []byte) (end func(), err error) {
	values := bytes.Count(body, comma) + bytes.Count(body, brace) + bytes.Count(body, bracket)
	work := byteWork*len(body) + partWork*values
	if work <= smallWork {
		return func() {}, nil
	}
	return m.turns.Take(ctx, connlimit.Address(client), work)
}

// Each element and each member in JSON follows one of these.
var comma, brace, bracket = []byte{','}, []byte{'{'}, []byte{'['}

// readUntil returns the deadline for the body of a request.
func readUntil(ctx context.Context) time.Time {
	deadline, _ := ctx.Deadline()
	if server, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok && server.ReadTimeout > 0 {
		if end := time.Now().Add(server.ReadTimeout); end.Before(deadline) {
			return end
		}
	}
	return deadline
}
