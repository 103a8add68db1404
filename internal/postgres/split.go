// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// lastBytes is the size of the messages Execute and Sync, the last messages of a statement.
	lastBytes = 15
	// largeWrite is a size that a system might write only in part.
	largeWrite = 8 << 10
)

// splitConn writes the last bytes of a large buffer separately. The server executes a statement
// when it receives Execute, and commits when it receives Sync. If a process stops between the two,
// the locks of its transaction remain, and no timeout of the server applies. A write of a few bytes
// is not divided.
type splitConn struct{ net.Conn }

func splitWrites(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
	return splitConn{conn}, nil
}

// Write implements [net.Conn].
func (c splitConn) Write(b []byte) (int, error) {
	if len(b) < largeWrite {
		return c.Conn.Write(b)
	}
	n, err := c.Conn.Write(b[:len(b)-lastBytes])
	if err != nil {
		return n, err
	}
	m, err := c.Conn.Write(b[n:])
	return n + m, err
}
