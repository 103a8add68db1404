// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/internal/bodies"
)

const (
	defaultTimeout       = 30 * time.Second // the longest timeout of a configuration
	defaultMaxConcurrent = 100
)

// HandlerOptions configures [NewHandler]. The zero value is useful.
type HandlerOptions struct {
	// Name is the value of the label handler in metrics and logs. Defaults to "default"; [Register]
	// uses the path.
	Name string
	// MaxBytes is the maximum size of a request body. Defaults to 8 MiB.
	//
	// All bodies together, also incomplete ones, use at most 128 MiB of memory, or twice MaxBytes if
	// that is more. A new buffer has 4 KiB and doubles when it is full. A reused buffer has up to 256
	// KiB. A body is answered with 429 if no memory is left. Bodies of more than 32 KiB use at most
	// three quarters of the memory, and such bodies of one address at most half.
	MaxBytes int64
	// MaxConcurrent is the limit of concurrent requests. A request counts when its body has arrived.
	// Further requests are answered with 429 and Retry-After. Defaults to 100.
	MaxConcurrent int
	// Timeout is the time limit of a request, from the end of its headers to the return of the
	// handler. A shorter one in the URL of the request, for example ?timeout=5s, replaces it. For
	// the body, a shorter ReadTimeout of the server applies. A late body is answered with 408, and
	// its connection is closed. A late handler is answered with 504, and counts for MaxConcurrent
	// until it returns. Only ReadTimeout ends an incomplete body if the [http.ResponseController]
	// cannot set read deadlines, for example inside an [http.TimeoutHandler]. Defaults to 30 s.
	Timeout time.Duration
	// MetricsRegisterer registers the metrics. Handlers with different names may share one. Nil
	// means no metrics.
	MetricsRegisterer prometheus.Registerer
}

func (o HandlerOptions) withDefaults() HandlerOptions {
	o.Name = strings.ToValidUTF8(cmp.Or(o.Name, "default"), "\uFFFD") // labels of metrics must be UTF-8
	if o.MaxBytes <= 0 {
		o.MaxBytes = MaxBytes
	}
	if o.MaxConcurrent <= 0 {
		o.MaxConcurrent = defaultMaxConcurrent
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	return o
}

// NewHandler returns an HTTP handler that answers requests of both protocols with h, for any mux and
// for controller-runtime's webhook server.
//
// The answer to an invalid request is a metav1.Status with the reason, and one of these HTTP
// statuses:
//
//	400  the body is not a request of either protocol
//	405  the method is not POST
//	408  the body did not arrive in time
//	413  the body is over the limit
//	415  the content is not application/json, or is compressed
//	429  too many requests are being answered, or their bodies use too much memory
//
// The answer to a request that fails has successful false in the Interpret protocol, and an HTTP
// status other than 2xx in Explore. Every answer has the UID of its request, if it could be read.
func NewHandler(h Handler, options HandlerOptions) http.Handler {
	options = options.withDefaults()
	return &endpoint{
		handler: h, options: options, metrics: newHandlerMetrics(options.MetricsRegisterer),
		places: newPlaces(options.MaxConcurrent), memory: newMemory(options.MaxBytes),
	}
}

// places limits concurrent requests.
type places struct {
	taken   chan struct{}
	overdue atomic.Int64 // places of handlers that run on after their timeout
}

func newPlaces(n int) *places { return &places{taken: make(chan struct{}, n)} }

// take reports whether there was a place.
func (p *places) take() bool {
	select {
	case p.taken <- struct{}{}:
		return true
	default:
		return false
	}
}

func (p *places) leave()     { <-p.taken }
func (p *places) full() bool { return len(p.taken) == cap(p.taken) }

func (p *places) none() error {
	problem := fmt.Sprintf("%d requests are in progress, which is the limit", cap(p.taken))
	if overdue := p.overdue.Load(); overdue > 0 {
		problem += fmt.Sprintf(", and %d of their handlers did not return at their timeout", overdue)
	}
	return &RequestError{Code: http.StatusTooManyRequests, Problem: problem + ": try again"}
}

type endpoint struct {
	handler Handler
	options HandlerOptions
	metrics *handlerMetrics
	places  *places // a server's handlers share them
	memory  *memory
}

// ServeHTTP implements [http.Handler].
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	done := e.metrics.begin(e.options.Name)
	operation, code := Operation(""), http.StatusInternalServerError
	defer func() { done(operation, code) }()
	operation, code = e.serve(w, r)
}

// serve returns the operation, or "" without a valid one, and the code of the answer.
func (e *endpoint) serve(w http.ResponseWriter, r *http.Request) (Operation, int) {
	ctx, cancel := context.WithTimeout(r.Context(), e.timeout(r.URL))
	defer cancel()
	// net/http resets the deadline for the next request on the connection.
	_ = http.NewResponseController(w).SetReadDeadline(readUntil(ctx))
	if e.places.full() {
		return "", e.refuse(w, r, e.places.none()) // before the body is read
	}
	held := make(held, 0, 3)
	defer held.release()
	body := e.memory.bodies.Borrow(r.RemoteAddr)
	held.add(body.Release)
	if err := e.read(body, w, r); err != nil {
		return "", e.refuse(w, r, err)
	}
	end, err := e.memory.turn(ctx, r.RemoteAddr, body.Data)
	if err != nil {
		return "", e.refuse(w, r, &RequestError{
			Code: http.StatusTooManyRequests, Problem: "other large requests are being answered: try again",
		})
	}
	held.add(end)
	if !e.places.take() {
		return "", e.refuse(w, r, e.places.none())
	}
	held.add(e.places.leave)
	request, err := decodeRequest(body.Data)
	if err != nil {
		return "", e.refuse(w, r, err)
	}
	if !request.Operation.Known() {
		name := strings.TrimPrefix(string(request.Operation), "Explore:")
		problem := &RequestError{Code: http.StatusBadRequest, Field: "request.operation",
			Problem: fmt.Sprintf("%q is not an operation of the %s protocol", name, request.Protocol)}
		return "", e.write(w, r, request, fail(problem))
	}
	response := e.answer(ctx, request, &held)
	if err := response.check(request.Protocol, request.Operation); err != nil {
		klog.FromContext(ctx).Error(nil, "Rejected invalid answer of handler", "handler", e.options.Name,
			"operation", request.Operation, "uid", request.UID, "field", err.Field, "problem", err.Problem)
		response = Errored(http.StatusInternalServerError, fmt.Errorf("invalid answer of the handler: %w", err))
	}
	return request.Operation, e.write(w, r, request, response)
}

// held has the functions that release the resources of a request. They are called in reverse order.
type held []func()

func (h *held) add(f func()) { *h = append(*h, f) }

func (h *held) release() {
	for _, f := range slices.Backward(*h) {
		f()
	}
	*h = nil
}

// answer calls the handler, and returns its response, or a failure if ctx ends first. Then the resources
// of the request are released when the handler returns, which still uses the body.
func (e *endpoint) answer(ctx context.Context, request *Request, h *held) Response {
	answered, all := make(chan Response), *h
	go func() {
		response := guard(ctx, e.handler, *request)
		select {
		case answered <- response:
		case <-ctx.Done():
			e.places.overdue.Add(-1)
			all.release()
		}
	}()
	select {
	case response := <-answered:
		return response
	case <-ctx.Done():
	}
	e.places.overdue.Add(1)
	*h = nil // the handler's goroutine releases them
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		klog.FromContext(ctx).Error(nil, "Timed out waiting for handler", "handler", e.options.Name,
			"operation", request.Operation, "uid", request.UID)
	}
	return Errored(http.StatusGatewayTimeout, errors.New("the handler did not answer in time"))
}

// guard calls a handler, and turns a panic into a failed response. The value of a panic may have parts
// of the object, so only its type is logged, unless it is a runtime error.
func guard(ctx context.Context, h Handler, r Request) (response Response) {
	defer func() {
		problem := recover()
		if problem == nil {
			return
		}
		what := fmt.Sprintf("%T", problem)
		if own, ok := problem.(runtime.Error); ok {
			what = own.Error()
		}
		klog.FromContext(ctx).Error(nil, "Recovered from panic of handler", "operation", r.Operation,
			"kind", r.Kind.Kind, "uid", r.UID, "panic", what, "stack", string(debug.Stack()))
		response = Errored(http.StatusInternalServerError,
			errors.New("the handler panicked: see the log of the webhook"))
	}()
	response = h.Handle(ctx, r)
	if status := response.RawStatus; status != nil && status.Raw == nil && status.Object != nil {
		raw, err := encodeStatus(status.Object)
		if err != nil {
			return fail(err)
		}
		response.RawStatus = raw
	}
	return response
}

// timeout returns the shorter one of the timeouts in the query of the request and in the options.
func (e *endpoint) timeout(u *url.URL) time.Duration {
	if u.RawQuery != "" { // u.Query allocates
		if asked, err := time.ParseDuration(u.Query().Get("timeout")); err == nil && asked > 0 {
			return min(asked, e.options.Timeout)
		}
	}
	return e.options.Timeout
}

// read checks the HTTP request and reads its body.
func (e *endpoint) read(b *bodies.Buffer, w http.ResponseWriter, r *http.Request) error {
	bad := func(code int, problem string, args ...any) error {
		return &RequestError{Code: code, Problem: fmt.Sprintf(problem, args...)}
	}
	tooLarge := func() error {
		return bad(http.StatusRequestEntityTooLarge, "the body is over the limit of %d bytes", e.options.MaxBytes)
	}
	contentType, coding := r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding")
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return bad(http.StatusMethodNotAllowed, "the method is %s: expected POST", r.Method)
	case !isJSON(contentType):
		return bad(http.StatusUnsupportedMediaType, "the content type is %q: expected application/json", contentType)
	case coding != "" && coding != "identity":
		return bad(http.StatusUnsupportedMediaType,
			"the content encoding is %q: the body must not be compressed", coding)
	case r.ContentLength > e.options.MaxBytes:
		w.Header().Set("Connection", "close") // the body will not be read
		return tooLarge()
	}
	err := b.Fill(http.MaxBytesReader(w, r.Body, e.options.MaxBytes), r.ContentLength)
	var limit *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &limit):
		return tooLarge()
	case errors.Is(err, bodies.ErrNoMemory):
		return bad(http.StatusTooManyRequests,
			"the bodies of requests use %d bytes, which is the limit: try again", e.memory.bodies.Limit())
	case errors.Is(err, os.ErrDeadlineExceeded):
		return bad(http.StatusRequestTimeout, "the body has not arrived in time")
	}
	return &RequestError{Code: http.StatusBadRequest, Problem: "read body", Err: err}
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

// write sends a response and returns its code.
func (e *endpoint) write(w http.ResponseWriter, r *http.Request, request *Request, response Response) int {
	response.UID = request.UID
	code := http.StatusOK
	if !response.Successful {
		code = int(response.Status.Code)
		if code < 400 || code > 599 {
			code = http.StatusInternalServerError
		}
		klog.FromContext(r.Context()).V(2).Info("Answered request with an error", "handler", e.options.Name,
			"operation", request.Operation, "uid", request.UID, "code", code)
		if request.Protocol == ProtocolExplore {
			e.status(w, code, response.Status.Message, request.UID)
			return code
		}
	}
	body, err := encodeResponse(request.Protocol, &response)
	if err != nil {
		e.status(w, http.StatusInternalServerError, "encode answer: "+err.Error(), request.UID)
		return http.StatusInternalServerError
	}
	send(w, http.StatusOK, body)
	return code
}

// refuse answers an invalid or rejected request, and returns the code.
func (e *endpoint) refuse(w http.ResponseWriter, r *http.Request, err error) int {
	request := &RequestError{Code: http.StatusBadRequest}
	errors.As(err, &request)
	if request.Code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	klog.FromContext(r.Context()).V(2).Info("Rejected request",
		"handler", e.options.Name, "code", request.Code, "uid", request.UID)
	e.status(w, request.Code, err.Error(), request.UID)
	return request.Code
}

// status answers with a metav1.Status, which Kubernetes clients understand.
func (e *endpoint) status(w http.ResponseWriter, code int, message string, uid types.UID) {
	s := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Message: message,
		Reason: metav1.StatusReason(strings.ReplaceAll(http.StatusText(code), " ", "")),
	}
	if uid != "" {
		s.Details = &metav1.StatusDetails{UID: uid}
	}
	body, err := json.Marshal(s)
	if err != nil {
		http.Error(w, message, code)
		return
	}
	send(w, code, body)
}

func send(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(body) // an error means that the caller has disconnected
}
