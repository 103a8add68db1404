// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

var (
	errObjectFormat = errors.New("the repository's hash algorithm is not supported: must be SHA-1")
	errNoBranch     = errors.New("there is no such branch: create it, or set CreateBranch")
	errInTheWay     = errors.New("the branch cannot be created")
	errMoving       = errors.New("other writers push to the branch too often")
)

// refusal is the error of a push that the server rejected.
type refusal struct{ reason string }

func (e *refusal) Error() string { return "the server refused the push: " + e.reason }

// failed returns an error with a class and the repository, and without secrets.
func (r *remote) failed(ctx context.Context, doing string, err error) error {
	var known *connector.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	if ended := ctx.Err(); ended != nil {
		return driver.Ended(ended)
	}
	text, class := explain(err)
	for _, secret := range r.secrets {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return &connector.Error{Class: class,
		Err: fmt.Errorf("%s branch %s of %s: %s", doing, r.at.Branch, r.at.URL, driver.OneLine(text))}
}

// explain returns the text and the class for an error of go-git, of the network or of a server.
func explain(err error) (text string, class error) {
	var unexpected *plumbing.UnexpectedError // which does not unwrap
	if errors.As(err, &unexpected) {
		return explain(unexpected.Err)
	}
	var (
		refused   *refusal
		complaint *complaintError
		broken    *fileError
	)
	switch {
	case errors.As(err, &refused):
		return refused.Error(), refused.class()
	case errors.As(err, &broken):
		return broken.Error(), connector.ErrRetryable
	case errors.Is(err, errTooLarge), errors.Is(err, errObjectFormat), errors.Is(err, errNoBranch),
		errors.Is(err, errInTheWay), errors.Is(err, exec.ErrNotFound):
		return err.Error(), connector.ErrTerminal
	case errors.Is(err, errMoving), errors.Is(err, errMissing):
		return err.Error(), connector.ErrRetryable
	case errors.Is(err, transport.ErrAuthenticationRequired):
		return "the server does not accept the credentials: check Auth", connector.ErrTerminal
	case errors.Is(err, transport.ErrAuthorizationFailed):
		return "the server denies access: check what the user in Auth may do there", connector.ErrTerminal
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return "there is no such repository, or the user in Auth may not see it", connector.ErrTerminal
	case statusOf(err) != 0:
		return classOfStatus(statusOf(err))
	case errors.As(err, &complaint):
		return complaint.Error(), complaint.class()
	}
	return explainNetwork(err)
}

func explainNetwork(err error) (text string, class error) {
	var (
		certificate *tls.CertificateVerificationError
		invalid     x509.CertificateInvalidError
		key         *knownhosts.KeyError
		network     net.Error // also net.ErrClosed and errors of the operating system
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the server's certificate has expired, or is not valid yet", connector.ErrUnreachable
	case errors.As(err, &certificate):
		return "the server's certificate cannot be verified, check CAFile: " + certificate.Err.Error(), connector.ErrTerminal
	case errors.As(err, &key) && len(key.Want) == 0:
		return "the server is not in KnownHostsFile", connector.ErrTerminal
	case errors.As(err, &key):
		return "the server's key differs from KnownHostsFile", connector.ErrTerminal
	case strings.Contains(err.Error(), "ssh: unable to authenticate"): // x/crypto/ssh has no type for it
		return "the server does not accept the key: check Auth", connector.ErrTerminal
	case strings.Contains(err.Error(), "http redirect:"): // nor has go-git
		return "the server redirects to where we do not follow: check the URL", connector.ErrTerminal
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return err.Error(), connector.ErrUnreachable
	}
	var garbage *packp.ErrUnexpectedData // its text quotes the data
	if errors.As(err, &garbage) && bytes.Contains(garbage.Data, []byte("object-format=sha256")) {
		return errObjectFormat.Error(), connector.ErrTerminal // go-git cannot read its beginning
	}
	if errors.As(err, &garbage) || errors.Is(err, pktline.ErrInvalidPktLen) {
		return "the server does not speak git's protocol", connector.ErrRetryable
	}
	return err.Error(), connector.ErrRetryable
}

// statusOf returns the HTTP status with which a server rejected a request, or 0.
func statusOf(err error) int {
	var unexpected *plumbing.UnexpectedError
	if errors.As(err, &unexpected) {
		return statusOf(unexpected.Err)
	}
	var status *githttp.Err
	if errors.As(err, &status) {
		return status.StatusCode()
	}
	return 0
}

func classOfStatus(code int) (text string, class error) {
	text = fmt.Sprintf("the server answered %d %s", code, http.StatusText(code))
	switch {
	case code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return text, connector.ErrUnreachable
	case code >= http.StatusInternalServerError, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return text, connector.ErrRetryable
	}
	return text, connector.ErrTerminal
}

func (e *complaintError) class() error {
	if e.text == "" {
		return connector.ErrUnreachable
	}
	if containsAny(e.text, "not appear to be a git repository", "not found", "does not exist", "could not be found",
		"no such repository", "denied", "dubious ownership", "not allowed", "not permitted", "protected") {
		return connector.ErrTerminal
	}
	return connector.ErrRetryable
}

// class returns ErrTerminal if a rule or a hook has rejected the push.
func (e *refusal) class() error {
	if containsAny(e.reason, "hook declined", "protected", "denied", "deny", "prohibited", "not allowed", "checked out",
		"read-only", "read only", "quota", "hidden ref", "funny refname") {
		return connector.ErrTerminal
	}
	return connector.ErrRetryable
}

// raced reports whether another writer changes the branch, according to the texts of known servers.
func (e *refusal) raced() bool {
	return containsAny(e.reason, "lock", "failed to update ref", "incorrect old value", "fetch first",
		"non-fast-forward", "already exists", "stale info")
}

func containsAny(s string, parts ...string) bool {
	s = strings.ToLower(s)
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}
