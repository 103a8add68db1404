// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocm

import (
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/cloudevents"
)

// connectError returns err, as a [*cloudevents.PermanentError] if another attempt would fail too.
func connectError(err error) error {
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument, codes.Unimplemented:
		return &cloudevents.PermanentError{Err: err}
	}
	return err
}

// endsConnection reports whether no call succeeds until the next connection: the server is not
// reachable, or the token has expired.
func endsConnection(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.Unauthenticated
}

// publishError converts the error of a call for done, see [cloudevents.Conn].
func publishError(topic string, size int, err error) error {
	s := status.Convert(err)
	err = fmt.Errorf("publish on topic %q: %v: %s", topic, s.Code(), reason(s.Message()))
	switch s.Code() {
	case codes.ResourceExhausted:
		if limit, ok := sizeLimit(s.Message()); ok {
			return &cloudevents.TooLargeError{Topic: topic, Size: size, Limit: limit}
		}
		return &cloudevents.TemporaryError{Err: err}
	case codes.FailedPrecondition, // OCM's server returns it for all errors of the hub's API, such as conflicts
		codes.DeadlineExceeded, codes.Aborted, codes.Internal:
		return &cloudevents.TemporaryError{Err: err}
	}
	return err
}

// TooLarge returns the message that grpc-go's server sends for a request over its limit.
func TooLarge(size, limit int) string {
	return fmt.Sprintf("grpc: received message larger than max (%d vs. %d)", size, limit)
}

// sizeLimit reads the limit from the message of [TooLarge].
func sizeLimit(message string) (limit int, ok bool) {
	_, numbers, ok := strings.Cut(message, "larger than max (")
	var size int
	if ok {
		_, err := fmt.Sscanf(numbers, "%d vs. %d)", &size, &limit)
		ok = err == nil
	}
	return limit, ok
}

// longestReason is the length in bytes up to which a server's message is kept.
const longestReason = 512

// reason returns the message of an API error, which OCM's server sends as JSON, and other messages
// unchanged.
func reason(message string) string {
	var api struct{ ErrStatus struct{ Message string } }
	if json.Unmarshal([]byte(message), &api) == nil && api.ErrStatus.Message != "" {
		message = api.ErrStatus.Message
	}
	if len(message) > longestReason {
		message = strings.ToValidUTF8(message[:longestReason], "") + "…"
	}
	return message
}
