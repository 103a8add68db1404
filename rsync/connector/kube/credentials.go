// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/rsync/connector"
)

// maxLeft limits the requests to one cluster that wait for credentials or an answer. Requests
// without a waiting caller count too.
const maxLeft = 128

// credentialsError is the error of a request without credentials, or without them in time. The
// underlying error may contain a secret, so the text omits it.
type credentialsError struct {
	from string
	err  error
}

func (e *credentialsError) Error() string {
	if e.late() {
		return e.from + ", which is to get credentials, does not come to an end"
	}
	return e.from + ", which is to get credentials, failed or gave none: run it by hand"
}

func (e *credentialsError) Unwrap() error { return e.err }

func (e *credentialsError) late() bool { return errors.Is(e.err, context.DeadlineExceeded) }

func (e *credentialsError) class() error {
	if e.late() {
		return connector.ErrUnreachable
	}
	return connector.ErrRetryable
}

// credentialsFrom describes the source of a configuration's credentials, or returns "".
func credentialsFrom(config *rest.Config) string {
	switch {
	case config.ExecProvider != nil:
		return fmt.Sprintf("the configuration's program %q", filepath.Base(config.ExecProvider.Command))
	case config.AuthProvider != nil:
		return fmt.Sprintf("the configuration's auth provider %q", config.AuthProvider.Name)
	}
	return ""
}

// impatient ends requests with their contexts: client-go runs programs without a context.
type impatient struct {
	next http.RoundTripper
	from string
	left chan struct{} // a token for each request that next has not completed
}

// sentKey is the key of an *atomic.Bool, which is set when the request has its credentials.
type sentKey struct{}

// RoundTrip implements [http.RoundTripper].
func (i *impatient) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := &atomic.Bool{}
	ctx := context.WithValue(req.Context(), sentKey{}, sent)
	select {
	case i.left <- struct{}{}:
	case <-ctx.Done():
		return nil, i.failed(sent, ctx.Err())
	}
	type answer struct {
		resp *http.Response
		err  error
	}
	answers := make(chan answer)
	go func() {
		defer func() { <-i.left }()
		resp, err := i.next.RoundTrip(req.WithContext(ctx))
		select {
		case answers <- answer{resp, err}:
		case <-ctx.Done():
			if err == nil {
				_ = resp.Body.Close() // it has no reader
			}
		}
	}()
	select {
	case a := <-answers:
		return a.resp, i.failed(sent, a.err)
	case <-ctx.Done():
		return nil, i.failed(sent, ctx.Err())
	}
}

func (i *impatient) failed(sent *atomic.Bool, err error) error {
	if err == nil || sent.Load() {
		return err
	}
	return &credentialsError{i.from, err}
}

func noteSent(req *http.Request) {
	if sent, ok := req.Context().Value(sentKey{}).(*atomic.Bool); ok {
		sent.Store(true)
	}
}
