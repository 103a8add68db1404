// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Domain is the domain of the reasons in the google.rpc.ErrorInfo of errors.
const Domain = "rsync.spokewire.io"

// ErrUnavailable is returned if no server answered within [ClientOptions].RetryTimeout, or if the
// store of the server did not. The call may have been executed. A repeated call with the same
// idempotency key has no second effect.
var ErrUnavailable = errors.New("the rsync server does not answer")

var (
	errStopping = errors.New("the server is stopping")
	errSlow     = errors.New("the watch was read too slowly: continue from the last revision")
	errStalled  = errors.New("the client did not read the answer: read faster, or over a faster connection")
	errStore    = errors.New("the store did not answer in time")
	errPanic    = errors.New("internal error: see the server's log")
)

// existsError is the conflict of a Create.
type existsError struct{ error }

// Unwrap returns the engine's error.
func (e *existsError) Unwrap() error { return e.error }

// The limits of an error: a header that is too large breaks the connection with all of its calls.
const (
	problemLimit = 100     // problems of a context
	textLimit    = 8 << 10 // bytes of its text
	detailLimit  = 1 << 10 // bytes of each detail
)

// reasons has the code and the reason of each error. The first entry that matches counts.
var reasons = []struct {
	err    error
	reason string
	code   codes.Code
}{
	{errPanic, "PANIC", codes.Internal},
	{ErrDenied, "DENIED", codes.PermissionDenied},
	{errSlow, "SLOW", codes.Aborted},
	{errStalled, "STALLED", codes.Aborted},
	{errStopping, "STOPPING", codes.Unavailable},
	{appcontext.ErrInvalid, "INVALID_CONTEXT", codes.InvalidArgument},
	{rsync.ErrInvalidInput, "INVALID_INPUT", codes.InvalidArgument},
	{rsync.ErrNotFound, "NOT_FOUND", codes.NotFound},
	{rsync.ErrConflict, "CONFLICT", codes.Aborted},
	{rsync.ErrInvalidState, "INVALID_STATE", codes.FailedPrecondition},
	{rsync.ErrStopped, "STOPPED", codes.FailedPrecondition},
	{rsync.ErrFenced, "FENCED", codes.Unavailable},
	{rsync.ErrBroken, "BROKEN", codes.DataLoss},
	{store.ErrTooLarge, "TOO_LARGE", codes.ResourceExhausted},
	{store.ErrCompacted, "COMPACTED", codes.OutOfRange},
	{ErrUnavailable, "STORE", codes.Unavailable},
}

// toStatus converts an error of an engine to a gRPC error. Unknown errors are the store's.
func toStatus(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, cut.Text(err.Error(), textLimit))
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, cut.Text(err.Error(), textLimit))
	}
	var remote *remoteError
	if errors.As(err, &remote) {
		return remote.status.Err() // the engine is a client of another server
	}
	code, info := codes.Unavailable, &errdetails.ErrorInfo{Domain: Domain, Reason: "STORE"}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			code, info.Reason = r.code, r.reason
			break
		}
	}
	if errors.As(err, new(*existsError)) {
		code = codes.AlreadyExists
	}
	details := []protoadapt.MessageV1{info}
	var invalid *appcontext.Error
	var size *store.SizeError
	switch {
	case errors.As(err, &invalid):
		info.Metadata = map[string]string{
			"id": cut.Text(invalid.ID, detailLimit), "problems": strconv.Itoa(len(invalid.Problems) + invalid.More),
		}
		details = append(details, badRequest(invalid))
	case errors.As(err, &size):
		info.Metadata = map[string]string{"what": size.What, "key": cut.Text(size.Key, detailLimit),
			"have": strconv.Itoa(size.Have), "limit": strconv.Itoa(size.Limit)}
	}
	s, detailErr := status.New(code, cut.Text(err.Error(), textLimit)).WithDetails(details...)
	if detailErr != nil {
		return status.Error(code, cut.Text(err.Error(), textLimit))
	}
	return s.Err()
}

func badRequest(invalid *appcontext.Error) *errdetails.BadRequest {
	out := &errdetails.BadRequest{}
	for _, p := range invalid.Problems[:min(len(invalid.Problems), problemLimit)] {
		out.FieldViolations = append(out.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: cut.Text(p.Where, detailLimit), Description: cut.Text(p.What, detailLimit), Reason: string(p.Fault),
		})
	}
	return out
}

// remoteError is an error of a server. It wraps the error that the engine returned there.
type remoteError struct {
	status *status.Status
	is     error // a sentinel or an error with data, or nil
}

// Error returns the message of the server.
func (e *remoteError) Error() string {
	switch {
	case e.is == nil:
		return fmt.Sprintf("%s: %s", e.status.Code(), e.status.Message())
	case errors.Is(e.is, ErrUnavailable):
		return fmt.Sprintf("%s: %s", ErrUnavailable, e.status.Message())
	}
	return e.status.Message()
}

// Unwrap returns the error that the engine returned, or nil.
func (e *remoteError) Unwrap() error { return e.is }

// GRPCStatus returns the status that the server sent.
func (e *remoteError) GRPCStatus() *status.Status { return e.status }

// byCode has the errors of codes that need no reason.
var byCode = map[codes.Code]error{
	codes.DeadlineExceeded: context.DeadlineExceeded,
	codes.Canceled:         context.Canceled,
	codes.Unavailable:      ErrUnavailable,
	codes.Unimplemented:    errors.ErrUnsupported, // an older server
}

// fromStatus converts a gRPC error to an error of an engine.
func fromStatus(err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	out := &remoteError{status: s, is: byCode[s.Code()]}
	info, bad := detailsOf(s)
	switch info.GetReason() {
	case "", "STORE", "STOPPING":
		return out
	case "INVALID_CONTEXT":
		out.is = invalidOf(info, bad)
		return out
	case "TOO_LARGE":
		if size := sizeOf(info); size != nil {
			out.is = size
			return out
		}
	}
	for _, r := range reasons {
		if r.reason == info.GetReason() {
			out.is = r.err
		}
	}
	return out
}

// reasonOf returns the reason of this package in a gRPC error, or "".
func reasonOf(err error) string {
	info, _ := detailsOf(status.Convert(err))
	return info.GetReason()
}

func detailsOf(s *status.Status) (info *errdetails.ErrorInfo, bad *errdetails.BadRequest) {
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.Domain == Domain {
				info = d
			}
		case *errdetails.BadRequest:
			bad = d
		}
	}
	return info, bad
}

func invalidOf(info *errdetails.ErrorInfo, bad *errdetails.BadRequest) *appcontext.Error {
	out := &appcontext.Error{ID: info.Metadata["id"]}
	for _, v := range bad.GetFieldViolations() {
		out.Problems = append(out.Problems, &appcontext.Problem{
			Fault: appcontext.Fault(v.Reason), Where: v.Field, What: v.Description,
		})
	}
	if all, err := strconv.Atoi(info.Metadata["problems"]); err == nil {
		out.More = max(0, all-len(out.Problems))
	}
	return out
}

func sizeOf(info *errdetails.ErrorInfo) *store.SizeError {
	have, haveErr := strconv.Atoi(info.Metadata["have"])
	limit, limitErr := strconv.Atoi(info.Metadata["limit"])
	if haveErr != nil || limitErr != nil {
		return nil
	}
	return &store.SizeError{What: info.Metadata["what"], Key: info.Metadata["key"], Have: have, Limit: limit}
}
