// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// RoundTrip implements [http.RoundTripper]. It returns when the handler has flushed the header, has
// filled the buffer of the body, or has returned. In the last case the response has a
// Content-Length. Bodies are never compressed: this transport does not request it.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	upload := &upload{body: r.Body}
	if err := valid(r); err != nil {
		_ = upload.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(caller{r.Context()})
	w := &response{
		header: http.Header{}, committed: make(chan struct{}), head: r.Method == http.MethodHead,
		response: &http.Response{
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Request: r,
		},
	}
	w.pipe.changed.L = &w.pipe.mu
	w.response.Body = &body{&w.pipe, cancel}
	stop := context.AfterFunc(r.Context(), func() {
		w.pipe.closeRead(r.Context().Err())
		_ = upload.Close() // a handler may wait in Read
	})
	in := received(r, ctx, upload)
	go func() {
		defer cancel()
		defer stop()
		defer func() { _ = upload.Close() }()
		defer w.end()
		t.handler.ServeHTTP(w, in)
	}()
	trace := httptrace.ContextClientTrace(r.Context())
	if trace != nil && trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{})
	}
	select {
	case <-w.committed:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if trace != nil && trace.GotFirstResponseByte != nil {
		trace.GotFirstResponseByte()
	}
	if w.aborted != nil {
		cancel()
		return nil, w.aborted
	}
	return w.response, nil
}

// caller is the context of a request without the values of packages of k8s.io/apiserver. The caller
// may be a handler of another API server: its namespace, user, audit event and warnings are not
// those of this request.
type caller struct{ context.Context }

// Value implements [context.Context].
func (c caller) Value(key any) any {
	if t := reflect.TypeOf(key); t != nil && strings.HasPrefix(t.PkgPath(), "k8s.io/apiserver/") {
		return nil
	}
	return c.Context.Value(key)
}

// CancelRequest does nothing: the context of a request ends it. Without this method, client-go logs a
// warning when a request has timed out.
func (transport) CancelRequest(*http.Request) {}

// valid returns the error of [http.Transport] for an incomplete request.
func valid(r *http.Request) error {
	switch {
	case r.URL == nil:
		return errors.New("http: nil Request.URL")
	case r.Header == nil:
		return errors.New("http: nil Request.Header")
	}
	return nil
}

// received returns a request in the form in which a server receives it.
func received(r *http.Request, ctx context.Context, body io.ReadCloser) *http.Request { //nolint:revive // ctx is a part
	in := r.WithContext(ctx)
	in.Method = cmp.Or(r.Method, http.MethodGet)
	in.Header = r.Header.Clone()
	if _, ok := in.Header["User-Agent"]; !ok {
		in.Header.Set("User-Agent", "Go-http-client/1.1") // as net/http
	}
	in.Body = body
	in.Host = cmp.Or(r.Host, r.URL.Host)
	in.RequestURI = r.URL.RequestURI()
	in.RemoteAddr = "127.0.0.1:0"
	url := *r.URL
	url.Scheme, url.Host, url.User, url.Fragment, url.RawFragment = "", "", nil, "", ""
	in.URL = &url
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/1.1", 1, 1
	return in
}

// upload is the body of a request. It is closed once.
type upload struct {
	body io.ReadCloser // may be nil
	once sync.Once
	err  error
}

func (u *upload) Read(p []byte) (int, error) {
	if u.body == nil {
		return 0, io.EOF
	}
	return u.body.Read(p)
}

func (u *upload) Close() error {
	u.once.Do(func() {
		if u.body != nil {
			u.err = u.body.Close()
		}
	})
	return u.err
}

// body is the body of a response. Close ends the request.
type body struct {
	pipe   *pipe
	cancel context.CancelFunc
}

func (b *body) Read(p []byte) (int, error) { return b.pipe.read(p) }

func (b *body) Close() error {
	b.pipe.closeRead(http.ErrBodyReadAfterClose)
	b.cancel()
	return nil
}

// response is the writer of one response. Like the writer of a server, it is for one goroutine.
type response struct {
	header    http.Header
	head      bool // no body, as HEAD requires
	written   int  // bytes of the body
	pipe      pipe
	committed chan struct{} // closed when response or aborted is complete
	response  *http.Response
	aborted   error
}

// Header implements [http.ResponseWriter].
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter]. Informational responses are ignored.
func (w *response) WriteHeader(code int) {
	if w.response.StatusCode != 0 || code < http.StatusOK {
		return
	}
	w.response.StatusCode = code
	w.response.Status = fmt.Sprintf("%d %s", code, http.StatusText(code))
	w.response.Header = w.header.Clone()
	w.response.Header.Del("Transfer-Encoding") // watches set it
}

// Write implements [http.ResponseWriter]. It blocks while the buffer of the body is full.
func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !w.mayHaveBody() {
		return 0, http.ErrBodyNotAllowed
	}
	if w.written += len(p); w.written > bufferBytes {
		w.Flush()
	}
	if w.head {
		return len(p), nil
	}
	return w.pipe.write(p)
}

func (w *response) mayHaveBody() bool {
	return w.response.StatusCode != http.StatusNoContent && w.response.StatusCode != http.StatusNotModified
}

// Flush implements [http.Flusher]. It lets RoundTrip return.
func (w *response) Flush() {
	w.WriteHeader(http.StatusOK)
	if !w.isCommitted() {
		close(w.committed)
	}
}

func (w *response) isCommitted() bool {
	select {
	case <-w.committed:
		return true
	default:
		return false
	}
}

// end ends the response, like a server also after a panic of the handler. If the client has not
// received the header yet, it receives an InternalError.
func (w *response) end() {
	p := recover()
	if p == nil {
		w.complete()
		w.pipe.closeWrite(io.EOF)
		return
	}
	if p != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
		klog.Background().Error(nil, "Recovered from a panic in a request", "panicType", fmt.Sprintf("%T", p),
			"stack", string(debug.Stack()))
	}
	switch {
	case w.isCommitted():
	case p == http.ErrAbortHandler: //nolint:errorlint // as above
		w.aborted = io.ErrUnexpectedEOF
		close(w.committed)
	default:
		w.fail()
		return
	}
	if w.head {
		w.pipe.closeWrite(io.EOF)
		return
	}
	w.pipe.closeWrite(io.ErrUnexpectedEOF)
}

// fail replaces a response that is not committed by an InternalError.
func (w *response) fail() {
	status := apierrors.NewInternalError(errors.New("this request caused a panic: see the log")).Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	data, err := json.Marshal(status)
	if err != nil {
		data = nil // a Status always encodes
	}
	w.pipe.reset()
	w.response.StatusCode, w.written = 0, 0
	clear(w.header)
	w.header.Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = w.Write(data) // it fails only if the client has gone
	w.complete()
	w.pipe.closeWrite(io.EOF)
}

// complete commits a response of known length. As in net/http, the length of the answer to a HEAD
// may be unknown.
func (w *response) complete() {
	w.WriteHeader(http.StatusOK)
	if w.isCommitted() {
		return
	}
	h := w.response.Header
	if h.Get("Content-Length") == "" && w.mayHaveBody() && (!w.head || w.written > 0) {
		h.Set("Content-Length", strconv.Itoa(w.written))
	}
	if n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64); err == nil {
		w.response.ContentLength = n
	} else if !w.head {
		w.response.ContentLength = 0
	}
	w.Flush()
}
