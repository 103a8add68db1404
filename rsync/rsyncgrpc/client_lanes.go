// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"errors"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

// laneCalls limits the calls that share a connection. Beyond the limit of the server,
// [ServerOptions].MaxConcurrentStreams, calls wait without an error.
const laneCalls = 100

// lanes are connections for long calls, which must not delay other calls. Each connection except
// the first exists only while it has calls.
type lanes struct {
	dial func() (*grpc.ClientConn, error)

	mu     sync.Mutex
	all    []*lane
	closed bool
}

type lane struct {
	conn  *grpc.ClientConn
	calls int
}

// take returns a connection for one call, and a function that releases it.
func (l *lanes) take() (engine rsyncv1.EngineClient, release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, status.Error(codes.Canceled, "the client is closing")
	}
	i := slices.IndexFunc(l.all, func(x *lane) bool { return x.calls < laneCalls })
	if i < 0 {
		conn, err := l.dial()
		if err != nil {
			return nil, nil, err
		}
		i = len(l.all)
		l.all = append(l.all, &lane{conn: conn})
	}
	x := l.all[i]
	x.calls++
	return rsyncv1.NewEngineClient(x.conn), func() { l.release(x) }, nil
}

func (l *lanes) release(x *lane) {
	l.mu.Lock()
	x.calls--
	unused := x.calls == 0 && len(l.all) > 1 && !l.closed
	if unused {
		l.all = slices.DeleteFunc(l.all, func(y *lane) bool { return y == x })
	}
	l.mu.Unlock()
	if unused {
		_ = x.conn.Close()
	}
}

func (l *lanes) close() error {
	l.mu.Lock()
	all := l.all
	l.all, l.closed = nil, true
	l.mu.Unlock()
	var errs []error
	for _, x := range all {
		errs = append(errs, x.conn.Close())
	}
	return errors.Join(errs...)
}
