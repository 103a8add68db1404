// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/interpreter"
)

// call sends a query to a webhook. Every error is a [*CallError], unless the query is invalid.
func (c *Caller) call(ctx context.Context, w *webhook, q *interpreter.Query) (interpreter.Answer, error) {
	failed := func(reason Reason, code int, err error) (interpreter.Answer, error) {
		return interpreter.Answer{}, &CallError{Webhook: w.id, Operation: q.Operation, Reason: reason, Code: code, Err: err}
	}
	request, err := q.Request(w.protocol, uuid.NewUUID())
	if err != nil {
		return interpreter.Answer{}, err
	}
	if w.err != nil {
		return failed(ReasonConfiguration, 0, w.err)
	}
	body, err := interpreter.EncodeRequest(request)
	if err != nil {
		return failed(ReasonRequest, 0, err)
	}
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	a := c.exchange(ctx, w, body)
	if a.err != nil {
		switch {
		case outer.Err() != nil:
			return failed(ReasonCanceled, 0, context.Cause(outer))
		case ctx.Err() != nil:
			return failed(ReasonTimeout, 0, fmt.Errorf("no answer in %v: %w", w.timeout, a.err))
		}
		if w.protocol == interpreter.ProtocolExplore && a.code == http.StatusNotImplemented {
			a.reason = ReasonNotImplemented // an answer of Explore has the code in the HTTP status
		}
		return failed(a.reason, a.code, a.err)
	}
	response, err := interpreter.DecodeResponse(request, a.body)
	if err == nil {
		var out interpreter.Answer
		if out, err = q.Answer(w.protocol, response); err == nil {
			return out, nil
		}
	}
	reason, code := answerReason(err)
	return failed(reason, code, err)
}

// attempt is the result of sending a request once.
type attempt struct {
	body   []byte
	code   int // of HTTP, 0 without an answer
	reason Reason
	err    error
	again  bool          // nothing was sent, or the server rejected the request unread
	after  time.Duration // from Retry-After
}

// exchange sends a request, and retries if the server has not handled it and ctx has time left.
func (c *Caller) exchange(ctx context.Context, w *webhook, body []byte) attempt {
	delay := c.options.RetryDelay
	for n := 0; ; n++ {
		a := c.attempt(ctx, w, body)
		if a.err == nil || !a.again || n >= c.options.Retries {
			return a
		}
		pause := max(delay, a.after)
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
			return a
		}
		c.metrics.retried(w)
		if wait.Sleep(ctx, clock.RealClock{}, pause) != nil {
			return a
		}
		delay *= 2
	}
}

func (c *Caller) attempt(ctx context.Context, w *webhook, body []byte) attempt {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{
		WroteHeaders:     func() { sent.Store(true) },
		WroteHeaderField: func(string, []string) { sent.Store(true) },
	}
	request, err := c.request(httptrace.WithClientTrace(ctx, trace), w, body)
	if err != nil {
		return attempt{reason: ReasonConfiguration, err: err}
	}
	response, err := w.client.Do(request)
	if err != nil {
		switch {
		case errors.Is(err, ErrNotAllowed):
			return attempt{reason: ReasonConfiguration, err: withoutURL(err)}
		case sent.Load():
			return attempt{reason: ReasonInterrupted, err: withoutURL(err)}
		}
		err = withoutURL(err)
		if errors.As(err, new(x509.UnknownAuthorityError)) {
			err = fmt.Errorf("%w: set clientConfig.caBundle, or Options.RootCAs", err)
		}
		return attempt{reason: ReasonUnreachable, err: err, again: true}
	}
	defer func() { _ = response.Body.Close() }() // the body was read as far as needed
	if code := response.StatusCode; code < 200 || code > 299 {
		// The error omits the body: the author of a configuration may not be able to reach the server.
		_, _ = io.CopyN(io.Discard, response.Body, 4<<10) // keeps the connection usable
		after, asked := retryAfter(response.Header)
		again := code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable && asked
		err := fmt.Errorf("HTTP %d %s from https://%s%s", code, http.StatusText(code), w.target.Host, w.target.EscapedPath())
		return attempt{code: code, reason: ReasonStatus, err: err, again: again, after: after}
	}
	limit := c.options.MaxBytes
	answer, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case ctx.Err() != nil: // a server may end its answer because the request has ended
		return attempt{reason: ReasonInterrupted, err: ctx.Err()}
	case err != nil:
		return attempt{reason: ReasonInterrupted, err: fmt.Errorf("read answer: %w", err)}
	case int64(len(answer)) > limit:
		return attempt{reason: Reason(interpreter.ProblemTooLarge), err: &interpreter.AnswerError{
			Problem: interpreter.ProblemTooLarge, Field: "the answer",
			Detail: fmt.Sprintf("is over the limit of %d bytes", limit),
		}}
	}
	return attempt{body: answer, code: response.StatusCode}
}

// retryAfter returns the delay in the Retry-After header, and whether there is a valid one.
func retryAfter(h http.Header) (time.Duration, bool) {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(date)), true
	}
	return 0, false
}

func (c *Caller) request(ctx context.Context, w *webhook, body []byte) (*http.Request, error) {
	target := *w.target
	// The server may stop when the caller has stopped waiting.
	if deadline, ok := ctx.Deadline(); ok {
		seconds := max(1, int((time.Until(deadline)+time.Second-1)/time.Second))
		target.RawQuery = "timeout=" + strconv.Itoa(seconds) + "s"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, */*")
	r.Header.Set("User-Agent", "spokewire-interpreter")
	if c.options.Credentials != nil {
		token, err := c.options.Credentials(w.server).token()
		if err != nil {
			return nil, err
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
	}
	return r, nil
}

func (c Credentials) token() (string, error) {
	if c.BearerTokenFile == "" {
		return c.BearerToken, nil
	}
	content, err := os.ReadFile(c.BearerTokenFile)
	if err != nil {
		return "", fmt.Errorf("read Credentials.BearerTokenFile: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" {
		return "", fmt.Errorf("read Credentials.BearerTokenFile: %s is empty", c.BearerTokenFile)
	}
	return token, nil
}

// withoutURL removes the method and the URL from an error: the error has the name of the webhook.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
