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
	// bodiesMemory is the limit for the bodies of all requests. It is higher if two of the largest
	// bodies need more.
	bodiesMemory = 128 << 20
	// workMemory is the limit for answering all requests that need more than smallWork.
	workMemory = 128 << 20
	smallWork  = 1 << 20
	// byteWork and partWork estimate the memory to answer a request, for each byte of its body and
	// for each value in the body.
	byteWork, partWork = 8, 512
)

// memory bounds the memory of all requests to a server. The handlers of a server share it.
type memory struct {
	bodies *bodies.Bodies
	turns  *turns.Turns
}

func newMemory(largest int64) *memory {
	return &memory{bodies.New(largest, bodiesMemory), turns.New(workMemory)}
}

// turn waits until there is memory to answer a request of a client. The caller calls end when it is
// answered.
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

// readUntil returns the deadline for the body of a request: the end of the handler's time, or of
// the server's ReadTimeout if that is earlier.
func readUntil(ctx context.Context) time.Time {
	deadline, _ := ctx.Deadline()
	if server, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok && server.ReadTimeout > 0 {
		if end := time.Now().Add(server.ReadTimeout); end.Before(deadline) {
			return end
		}
	}
	return deadline
}
