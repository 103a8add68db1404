// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/broker"
	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/ocm"
	"github.com/spokewire/sdk-go/internal/admission"
	"github.com/spokewire/sdk-go/internal/tlsfiles"
)

// Transport connects one source or agent to a server. Its methods may be called from any goroutine.
type Transport struct {
	settings settings
	claimed  atomic.Bool
	ocm      ocm.Client // for a server without the Broker service
}

var _ cloudevents.Transport = (*Transport)(nil)

// New returns a transport. It validates the options and starts nothing; files are read when a
// connection is opened. Errors contain the field and a solution.
func New(o Options) (*Transport, error) {
	s, err := o.settings()
	if err != nil {
		return nil, tlsfiles.OptionNames(o.OptionNames).Invalid("gRPC options", err)
	}
	return &Transport{settings: s}, nil
}

// CheckFiles reads the files of the options once. A program that calls it at its start reports wrong
// files before the first connection, which reads them again.
func (t *Transport) CheckFiles() error {
	_, err := t.settings.token()
	if err == nil && t.settings.tls != nil {
		_, err = t.settings.tls()
	}
	return t.settings.names.Error(err)
}

// String returns the address of the server.
func (t *Transport) String() string { return "gRPC transport to " + t.settings.address }

// Claim reserves the transport for one client; a second call returns [cloudevents.ErrClaimed].
// Claim ignores its argument.
func (t *Transport) Claim(string) error {
	if !t.claimed.CompareAndSwap(false, true) {
		return cloudevents.ErrClaimed
	}
	return nil
}

// Connect implements [cloudevents.Transport]. Receive may be called before Connect returns. The
// content mode is ignored: attributes are always next to the data.
//
// It returns a [*cloudevents.PermanentError] for an unreadable file, a certificate that is not
// accepted, a malformed filter, and a refusal that would be repeated. Invalid content of a file is
// no PermanentError: the file may be in the middle of a replacement. Refusals of the server have a
// gRPC status. The error after Options.ConnectTimeout wraps [context.DeadlineExceeded].
func (t *Transport) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	s := &t.settings
	waitingFor := "other clients of this process to connect"
	fail := func(err error) (cloudevents.Conn, error) {
		return nil, s.names.Error(s.connectError(ctx, waitingFor, err))
	}
	if _, err := broker.ParseFilters(slices.Concat(o.Filters, o.Optional)...); err != nil {
		return fail(&cloudevents.PermanentError{Err: err})
	}
	leave, err := admission.Enter(ctx, s.address)
	if err != nil {
		return fail(err)
	}
	defer leave()
	timed, cancel := context.WithTimeout(ctx, s.connectTimeout)
	defer cancel()
	token, err := s.token()
	if err != nil {
		return fail(fileError(err))
	}
	l, err := s.dial(timed, func(step string) { waitingFor = step })
	if err != nil {
		return fail(err)
	}
	waitingFor = "the server to grant the subscriptions"
	c := newConn(s.address, l, o, token)
	var opened cloudevents.Conn = c
	err = c.open(timed)
	if status.Code(err) == codes.Unimplemented {
		c.stop(err) // another connection uses the link
		opened, err = t.ocm.Connect(timed, ocm.Link{
			Client: l.client, Calls: withToken(context.Background(), token), Close: l.close,
		}, o)
	}
	if err != nil {
		reason := l.reason()
		_ = c.Close()
		return fail(refusedConnection(err, reason, s.tls != nil))
	}
	return opened, nil
}

// refusedConnection returns the error of a stream that did not open. reason is the end of the link,
// if it has ended.
func refusedConnection(err, reason error, secure bool) error {
	if reason != nil {
		if advised := adviseTLS(reason); advised != reason { //nolint:errorlint // whether it was wrapped
			return advised
		}
		if secure {
			return fmt.Errorf("%w: check the port, and that the server accepts the client certificate", err)
		}
		return fmt.Errorf("%w: check the port; if it uses TLS, remove Insecure", err)
	}
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument:
		return &cloudevents.PermanentError{Err: err}
	case codes.Unimplemented:
		return &cloudevents.PermanentError{Err: fmt.Errorf("the server has no service for events: %w", err)}
	}
	return err
}

func (s *settings) connectError(ctx context.Context, waitingFor string, err error) error {
	var permanent *cloudevents.PermanentError
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("gave up waiting for %s: %w", waitingFor, ctx.Err())
	case errors.As(err, &permanent):
		return &cloudevents.PermanentError{Err: fmt.Errorf("connect to %s: %w", s.address, permanent.Err)}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded): // a socket may end first
		err = fmt.Errorf("waited %v for %s: %w", s.connectTimeout, waitingFor, context.DeadlineExceeded)
	}
	return fmt.Errorf("connect to %s: %w", s.address, err)
}
