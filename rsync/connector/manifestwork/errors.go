// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

// errRivals is the error of a call after too many conflicts with other writers.
var errRivals = errors.New("other writers change the same works too often")

// namespaceTerminating is the cause of package corev1, without an import of corev1.
const namespaceTerminating metav1.CauseType = "NamespaceTerminating"

// failed returns an error with a class, the operation, and the name of the work.
func (c *conn) failed(ctx context.Context, doing, name string, err error) error {
	var known *connector.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	if ended := ctx.Err(); ended != nil {
		return driver.Ended(ended)
	}
	text, class := explain(err)
	what := "the works"
	if name != "" {
		what = "the work " + name
	}
	return &connector.Error{
		Class: ofHub{class}, Err: fmt.Errorf("%s %s in the namespace %s: %s", doing, what, c.namespace, driver.OneLine(text)),
	}
}

// ofHub is a class of an answer of the hub: the cluster received no request.
type ofHub struct{ class error }

func (o ofHub) Error() string { return strings.Replace(o.class.Error(), "the cluster", "the hub", 1) }
func (o ofHub) Unwrap() error { return o.class }

// explain returns the text, without quotes of manifests, and the class for an error.
func explain(err error) (text string, class error) {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s := status.Status()
		return explainStatus(err, &s)
	}
	var network net.Error // also net.ErrClosed and errors of the operating system
	switch {
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return err.Error(), connector.ErrUnreachable
	case errors.Is(err, errRivals):
		return err.Error(), connector.ErrRetryable
	case utilnet.IsProbableEOF(err), strings.Contains(err.Error(), "http2: "),
		strings.Contains(err.Error(), "when reading response body"):
		// net/http and client-go have no types for these
		return "the connection broke while the hub answered", connector.ErrUnreachable
	}
	return "the hub's answer cannot be understood", connector.ErrRetryable // the error may quote the answer
}

func explainStatus(err error, s *metav1.Status) (text string, class error) {
	switch {
	case apierrors.IsRequestEntityTooLargeError(err),
		strings.Contains(s.Message, "request is too large"), // of etcd, through an API server
		strings.Contains(s.Message, "larger than max"):      // of gRPC, likewise
		return "the hub or its broker does not accept a work of this size, divide the app: " + s.Message,
			connector.ErrTerminal
	case apierrors.IsInvalid(err):
		return "it is invalid: " + fields(s), connector.ErrTerminal
	case apierrors.HasStatusCause(err, namespaceTerminating):
		return "the namespace is being deleted", connector.ErrRetryable
	case strings.Contains(s.Message, "admission webhook"):
		rule, _, _ := strings.Cut(s.Message, "denied the request") // free text follows
		class := connector.ErrTerminal
		if apierrors.IsInternalError(err) {
			rule, class = "an admission webhook of the hub does not work", connector.ErrRetryable
		}
		return strings.TrimSpace(rule), class
	case apierrors.IsForbidden(err):
		return "the hub denies access: " + s.Message, connector.ErrTerminal
	case apierrors.IsUnauthorized(err):
		return "the hub does not accept the credentials", connector.ErrTerminal
	case apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err), apierrors.IsUnsupportedMediaType(err),
		apierrors.IsNotAcceptable(err):
		return "the hub does not accept the request: " + string(s.Reason), connector.ErrTerminal
	case apierrors.IsNotFound(err) && ofNamespace(*s):
		return "there is no such namespace on the hub (yet): is the cluster registered?", connector.ErrRetryable
	case apierrors.IsNotFound(err):
		return "the hub has no such resource (yet)", connector.ErrRetryable
	case s.Code == http.StatusBadGateway, s.Code == http.StatusServiceUnavailable, s.Code == http.StatusGatewayTimeout:
		return "the hub does not answer now: " + s.Message, connector.ErrUnreachable
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsTooManyRequests(err),
		apierrors.IsServerTimeout(err), apierrors.IsInternalError(err), apierrors.IsResourceExpired(err),
		apierrors.IsGone(err):
		return "the hub refused for now: " + string(s.Reason), connector.ErrRetryable
	}
	return fmt.Sprintf("the hub answered %d %s", s.Code, s.Reason), connector.ErrRetryable
}

// fields returns the invalid fields and the reasons, without values.
func fields(s *metav1.Status) string {
	var all []string
	if s.Details != nil {
		for _, cause := range s.Details.Causes {
			text := fmt.Sprintf("%s (%s): %s", cause.Field, cause.Type, detail(cause.Message))
			all = append(all, strings.TrimSuffix(text, ": "))
		}
	}
	if len(all) == 0 {
		return string(s.Reason)
	}
	return strings.Join(all, ", ")
}

// detail returns the text after the quoted value in the message of a cause, or "" if the text may
// contain the value.
func detail(message string) string {
	_, rest, _ := strings.Cut(message, ": ")
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return ""
	}
	value, err := strconv.Unquote(quoted)
	text, found := strings.CutPrefix(rest[len(quoted):], ": ")
	if err != nil || !found || value != "" && strings.Contains(text, value) {
		return ""
	}
	return text
}

// moved reports whether a write failed because the work was changed since it was read.
func moved(err error) bool {
	if apierrors.IsNotFound(err) {
		var status apierrors.APIStatus
		return !errors.As(err, &status) || !ofNamespace(status.Status())
	}
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// ofNamespace reports whether the missing object is the namespace.
func ofNamespace(s metav1.Status) bool { return s.Details != nil && s.Details.Kind == "namespaces" }
