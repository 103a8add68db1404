// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrClosed is returned by the methods of a [Store] after Close.
var ErrClosed = errors.New("the store is closed")

// ErrUnreachable is returned when no member of etcd answers in time. The changes of the call may or
// may not have been made.
var ErrUnreachable = errors.New("etcd is unreachable")

// ErrForeign is returned when the prefix has data of another program or of another version of this
// package, or when its data was removed.
var ErrForeign = errors.New("the prefix is not a store of this version")

// ErrDamaged is returned when a record cannot be read. The error names its key.
var ErrDamaged = errors.New("the record is damaged")

// errCollected is returned when a batch takes so long that its parts were removed.
var errCollected = errors.New("the staged parts of the batch were removed: it took longer than Options.CleanupInterval")

// timeout is the cause of the end of a request's context.
type timeout struct{ limit string }

func (t *timeout) Error() string { return "no answer within " + t.limit }

// hints are added to errors of etcd that need an operator.
var hints = []struct {
	err  error
	hint string
}{
	{rpctypes.ErrAuthFailed, "Options.Username or Options.Password is wrong"},
	{rpctypes.ErrUserEmpty, "etcd requires a user: set Options.Username"},
	{rpctypes.ErrPermissionDenied, "the user needs the permission readwrite for the prefix"},
	{rpctypes.ErrNoSpace, "etcd has raised the alarm NOSPACE: compact, defragment and disarm it"},
	{rpctypes.ErrCorrupt, "etcd has raised the alarm CORRUPT: replace the damaged member"},
	{rpctypes.ErrRequestTooLarge, "set Options.MaxRequestBytes below the server's --max-request-bytes"},
	{rpctypes.ErrTooManyOps, "set Options.MaxTxnOps below the server's --max-txn-ops"},
}

// failure describes an error of the client. ctx is the context of the caller.
func (s *Store) failure(ctx context.Context, doing string, err error) error {
	for _, h := range hints {
		if errors.Is(err, h.err) {
			return fmt.Errorf("%s in %q: %w: %s", doing, s.keys, err, h.hint)
		}
	}
	var late *timeout
	switch code := status.Code(err); {
	case s.life.Err() != nil:
		return ErrClosed
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	case errors.As(err, &late):
		return fmt.Errorf("%s: %w: %s: %w", doing, ErrUnreachable, s.endpoints(), late)
	case errors.Is(err, context.DeadlineExceeded), code == codes.Unavailable, code == codes.DeadlineExceeded:
		return fmt.Errorf("%s: %w: %s: %w", doing, ErrUnreachable, s.endpoints(), err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// endpoints returns the endpoints without user names and passwords.
func (s *Store) endpoints() string {
	endpoints := s.options.Endpoints
	if s.options.Client != nil {
		endpoints = s.options.Client.Endpoints()
	}
	names := make([]string, len(endpoints))
	for i, endpoint := range endpoints {
		scheme, addr := splitEndpoint(endpoint)
		names[i] = scheme + addr
	}
	return strings.Join(names, ", ")
}

// splitEndpoint returns the scheme of an endpoint, for example "https://", or an empty string, and the
// address without a user name and password.
func splitEndpoint(endpoint string) (scheme, addr string) {
	if i := strings.Index(endpoint, "://"); i >= 0 {
		i += len("://")
		scheme, endpoint = endpoint[:i], endpoint[i:]
	}
	return scheme, endpoint[strings.LastIndex(endpoint, "@")+1:]
}

// isPermanent reports whether a watch with this error fails again.
func isPermanent(err error) bool {
	return errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrAuthFailed) ||
		errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrCorrupt)
}
