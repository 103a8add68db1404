// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/interpreter"
)

// Errors of a [Caller] other than [*CallError], for errors.Is.
var (
	// ErrNotReady: the configurations are not known yet. See [Caller].Ready.
	ErrNotReady = errors.New("the webhook configurations have not been read yet")
	// ErrStarted: Start was called a second time.
	ErrStarted = errors.New("the caller has already been started")
)

// Reason is the kind of failure of a call.
type Reason string

// The values of [Reason]. The values of [interpreter.Problem] are reasons too, for an invalid
// answer.
const (
	// ReasonConfiguration: the webhook cannot be called because of its configuration.
	ReasonConfiguration Reason = "Configuration"
	// ReasonUnreachable: the server could not be reached, or its certificate was not accepted.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonInterrupted: the connection failed after the request was sent.
	ReasonInterrupted Reason = "Interrupted"
	// ReasonTimeout: the webhook did not answer in time.
	ReasonTimeout Reason = "Timeout"
	// ReasonCanceled: the context of the call ended.
	ReasonCanceled Reason = "Canceled"
	// ReasonStatus: the server answered with an HTTP status other than 2xx.
	ReasonStatus Reason = "Status"
	// ReasonRefused: the webhook answered that the request failed.
	ReasonRefused Reason = "Refused"
	// ReasonNotImplemented: the webhook answered with code 501, since it does not implement the operation
	// for the kind. The error is also interpreter.ErrNotInterpreted, as with
	// [interpreter.FromHandler].
	ReasonNotImplemented Reason = "NotImplemented"
	// ReasonRequest: the operation does not exist in the webhook's protocol.
	ReasonRequest Reason = "Request"
)

// CallError is a call that failed.
type CallError struct {
	Webhook   string // configuration/webhook
	Operation interpreter.Operation
	Reason    Reason
	Code      int   // the HTTP status, or the code of a failed answer, or 0
	Err       error // the cause, with a text that may be as long as an answer
}

// Error returns webhook, operation, reason and the first 1,024 bytes of the cause.
func (e *CallError) Error() string {
	const longest = 1024 // servers choose the text, and it is logged
	cause := cut.Text(fmt.Sprint(e.Err), longest)
	return fmt.Sprintf("webhook %s, %s: %s: %s", e.Webhook, e.Operation, e.Reason, cause)
}

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.Err }

// answerReason returns the reason and the code for an error of [interpreter.DecodeResponse] or
// [interpreter.Query].Answer.
func answerReason(err error) (Reason, int) {
	var refused *interpreter.RefusedError
	if errors.As(err, &refused) {
		if refused.Code == http.StatusNotImplemented {
			return ReasonNotImplemented, int(refused.Code)
		}
		return ReasonRefused, int(refused.Code)
	}
	var answer *interpreter.AnswerError
	if errors.As(err, &answer) {
		return Reason(answer.Problem), 0
	}
	return Reason(interpreter.ProblemMalformed), 0
}
