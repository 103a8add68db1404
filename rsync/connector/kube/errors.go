// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

// failed returns an error with a class, and with a text without content of manifests.
func (c *cluster) failed(ctx context.Context, object appcontext.Object, doing string, err error) error {
	var known *connector.Error
	if errors.As(err, &known) {
		if known.Object.Kind == "" {
			return &connector.Error{Class: connector.ClassOf(known), Object: object, Err: known.Err}
		}
		return known
	}
	var credentials *credentialsError
	if ended := ctx.Err(); ended != nil {
		// otherwise users would look for the cause on the cluster
		if errors.As(err, &credentials) && credentials.late() {
			return driver.Fault(connector.ErrUnreachable, object, "%s: %w", doing, credentials)
		}
		return driver.Ended(ended)
	}
	text, class := explain(err)
	if errors.Is(err, errNotServed) && c.options.AwaitKinds {
		class = connector.ErrRetryable
	}
	return &connector.Error{Class: class, Object: object, Err: fmt.Errorf("%s: %s", doing, driver.OneLine(text))}
}

func printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// explain returns the text and the class for an error of client-go, of the network or of the
// server.
func explain(err error) (text string, class error) {
	var (
		answer apierrors.APIStatus
		other  *otherVersionError
		large  *http.MaxBytesError
		creds  *credentialsError
	)
	switch {
	case errors.As(err, &creds):
		return creds.Error(), creds.class()
	case errors.Is(err, errNotReady):
		return err.Error(), connector.ErrUnreachable
	case errors.Is(err, errStarting), errors.Is(err, errLeaving):
		return err.Error(), connector.ErrRetryable
	case errors.Is(err, errNotServed):
		return err.Error() + ": check its apiVersion, and whether its definition is applied before", connector.ErrTerminal
	case errors.Is(err, errNoNamespace), errors.Is(err, errNamespace), errors.Is(err, errNotApplied),
		errors.As(err, &other):
		return err.Error(), connector.ErrTerminal
	case errors.As(err, &large):
		text = fmt.Sprintf("the answer has more than the %d bytes that Options.MaxResponseBytes allows", large.Limit)
		return text, connector.ErrTerminal
	case errors.As(err, &answer):
		status := answer.Status()
		return explainStatus(&status)
	}
	return explainNetwork(err)
}

func explainNetwork(err error) (text string, class error) {
	var (
		invalid     x509.CertificateInvalidError
		certificate *tls.CertificateVerificationError
		request     *url.Error
		network     *net.OpError
		name        *net.DNSError
		alert       tls.AlertError
		header      tls.RecordHeaderError
	)
	if errors.As(err, &request) {
		err = request.Err // url.Error repeats the URL
	}
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the server's certificate has expired, or is not valid yet", connector.ErrUnreachable
	case errors.As(err, &certificate):
		return "the server's certificate cannot be verified, check the configuration's CA: " + certificate.Err.Error(),
			connector.ErrUnreachable
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time", connector.ErrUnreachable
	case errors.As(err, &name):
		return "the host cannot be found: " + name.Error(), connector.ErrUnreachable
	case errors.As(err, &network), errors.As(err, &alert), errors.As(err, &header),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNREFUSED),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return "no connection: " + err.Error(), connector.ErrUnreachable
	case utilnet.IsProbableEOF(err), utilnet.IsHTTP2ConnectionLost(err), utilnet.IsTimeout(err),
		strings.Contains(err.Error(), "http2: "),
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"): // net/http has no types for these
		return "no connection: " + err.Error(), connector.ErrUnreachable
	}
	// The remaining errors come from the source of credentials, so their texts may contain secrets.
	return "the request could not be made" + causeType(err), connector.ErrRetryable
}

// causeType returns the type of an error's cause in parentheses, or "" for the plain text errors of
// the standard library.
func causeType(err error) string {
	for next := err; next != nil; next = errors.Unwrap(err) {
		err = next
	}
	name := fmt.Sprintf("%T", err)
	if strings.HasPrefix(name, "*fmt.") || strings.HasPrefix(name, "*errors.") {
		return ""
	}
	return " (" + name + ")"
}

// explainStatus returns the text and the class for an answer of the server. It omits texts that may
// quote a manifest.
func explainStatus(s *metav1.Status) (text string, class error) {
	has := func(cause metav1.CauseType) bool {
		_, ok := apierrors.StatusCause(&apierrors.StatusError{ErrStatus: *s}, cause)
		return ok
	}
	foreign := has(metav1.CauseTypeUnexpectedServerResponse) // no Status: a gateway, or no API server at all
	code := int(s.Code)
	switch {
	case foreign && (code == http.StatusBadGateway || code == http.StatusServiceUnavailable ||
		code == http.StatusGatewayTimeout):
		return fmt.Sprintf("a gateway does not reach the API server: HTTP %d", code), connector.ErrUnreachable
	case has("NamespaceTerminating"):
		return "its namespace is being deleted", connector.ErrRetryable
	case code == http.StatusConflict:
		return explainConflict(s)
	case code == http.StatusUnauthorized:
		return "the server does not accept the credentials: check the configuration, which the next call reads again",
			connector.ErrRetryable
	case code == http.StatusForbidden:
		return "forbidden: " + denial(s.Message), connector.ErrTerminal
	case code == http.StatusNotFound && s.Details != nil && s.Details.Kind == "namespaces":
		return "its namespace does not exist", connector.ErrRetryable
	case code == http.StatusNotFound, code == http.StatusGone:
		return fmt.Sprintf("the resource is gone: HTTP %d", code), connector.ErrRetryable
	case code == http.StatusTooManyRequests:
		return "the server has too many requests", connector.ErrRetryable
	case isSchemaError(s):
		return "the manifest does not fit its kind" + undeclared(s.Message), connector.ErrTerminal
	case code >= http.StatusInternalServerError:
		return fmt.Sprintf("HTTP %d", code) + webhookDown(s.Message), connector.ErrRetryable
	case code == http.StatusRequestTimeout:
		return "the server gave up waiting for the request", connector.ErrRetryable
	case code == http.StatusRequestEntityTooLarge:
		return "the server does not accept objects of this size", connector.ErrTerminal
	case code == http.StatusUnprocessableEntity:
		return "the object is invalid" + fields(s), connector.ErrTerminal
	case code == http.StatusBadRequest:
		return "the server cannot read the manifest, or denies it: " + denial(s.Message), connector.ErrTerminal
	case code >= http.StatusMultipleChoices && code < http.StatusBadRequest:
		return fmt.Sprintf("redirects are not supported: HTTP %d", code), connector.ErrTerminal
	}
	return fmt.Sprintf("HTTP %d %s", code, s.Reason), connector.ErrTerminal
}
