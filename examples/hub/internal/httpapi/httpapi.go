// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	kjson "sigs.k8s.io/json"

	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/hub"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/examples/hub/schema"
	"github.com/spokewire/sdk-go/examples/internal/election"
	"github.com/spokewire/sdk-go/examples/internal/login"
	"github.com/spokewire/sdk-go/internal/bodies"
	"github.com/spokewire/sdk-go/internal/httpserve"
	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Options configures the API.
type Options struct {
	Hub *hub.Hub
	// Join issues certificates to agents, at JoinURL, unless it is nil.
	Join    *join.Server
	JoinURL string
	// Backup returns a copy of the store.
	Backup func(context.Context) ([]byte, error)
	// ReadOnly is set if documents come from a folder.
	ReadOnly bool
	// Changes wakes requests with ?watch, unless it is nil.
	Changes *wait.Changes
}

type api struct {
	Options
	waits   chan struct{}
	backups sync.Mutex // locked until an answer with a backup ends, because all of it is in memory
}

// handler returns the status and the body of an answer.
type handler func(*http.Request) (int, any, error)

// New returns the handler of the API.
func New(options Options) http.Handler {
	a := &api{Options: options, waits: make(chan struct{}, maxWaits)}
	mux := http.NewServeMux()
	handle := func(pattern string, f handler) { mux.HandleFunc(pattern, a.serve(f)) }
	for _, route := range a.routes() {
		if !route.changesDocuments || !a.ReadOnly {
			handle(route.Pattern, route.handler)
		}
	}
	mux.HandleFunc("GET /api/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, json.RawMessage(schema.OpenAPI))
	})
	handle("/api/", func(r *http.Request) (int, any, error) { return 0, nil, a.none(mux, r) })
	return mux
}

// serve returns a handler that writes the answers of f.
func (a *api) serve(f handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, document.MaxBytes)
		answerOf := f
		if r.Method == http.MethodGet && r.URL.Query().Has("watch") {
			answerOf = func(r *http.Request) (int, any, error) { return a.watch(w, r, f) }
		}
		code, body, err := answerOf(r)
		if err != nil {
			refused := explain(err)
			login.Explain(r.Context(), refused.Text)
			if refused.allow != "" {
				w.Header().Set("Allow", refused.allow)
			}
			code, body = refused.code, refused.Failure
		}
		answer(w, code, body)
	}
}

// none returns the error for a request without a handler: the path or the method is unknown.
func (a *api) none(mux *http.ServeMux, r *http.Request) error {
	_, own := mux.Handler(r)
	var allow []string
	for _, method := range []string{
		http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodPost,
	} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != own {
			allow = append(allow, method)
		}
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/")
	_, unknown := kindNamed(first)
	if len(allow) == 0 || unknown != nil && !slices.ContainsFunc(a.routes(), func(r Route) bool {
		return strings.Contains(r.Pattern+"/", " /api/v1/"+first+"/")
	}) {
		return failf(http.StatusNotFound, "there is no %s %s", r.Method, r.URL.Path)
	}
	out := failf(http.StatusMethodNotAllowed, "%s does not support %s", r.URL.Path, r.Method)
	out.allow = strings.Join(allow, ", ")
	if a.ReadOnly {
		out.Text += ": documents come from a folder: change them there"
	}
	return out
}

// Failure is the body of a response with an error.
type Failure struct {
	Text string `json:"error"`
	// Field is the field of the document or the body that is wrong.
	Field string `json:"field,omitempty"`
}

// failure is an error with an HTTP status.
type failure struct {
	Failure
	code  int
	allow string // the allowed methods, for the status 405
}

func (f *failure) Error() string { return f.Text }

func failf(code int, format string, args ...any) *failure {
	return &failure{code: code, Failure: Failure{Text: fmt.Sprintf(format, args...)}}
}

// failed returns the failure for an error. For an error of a document it has the field.
func failed(code int, err error) *failure {
	var wrong *document.Error
	if errors.As(err, &wrong) {
		return &failure{code: code, Failure: Failure{wrong.Error(), wrong.Field}}
	}
	return &failure{code: code, Failure: Failure{Text: err.Error()}}
}

// explain returns the failure for any error.
func explain(err error) *failure {
	var own *failure
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &large):
		return failf(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", large.Limit)
	case errors.Is(err, store.ErrTooLarge):
		return failf(http.StatusRequestEntityTooLarge, "%v: send fewer or smaller documents", err)
	case errors.As(err, new(*document.Error)):
		return failed(http.StatusUnprocessableEntity, err)
	case errors.Is(err, rsync.ErrInvalidInput), errors.Is(err, join.ErrInvalid):
		return failed(http.StatusBadRequest, err)
	case errors.Is(err, hub.ErrNotFound), errors.Is(err, rsync.ErrNotFound), errors.Is(err, join.ErrNotFound):
		return failed(http.StatusNotFound, err)
	case errors.Is(err, hub.ErrNoRevision), errors.Is(err, hub.ErrPresent), errors.Is(err, hub.ErrNoDocument),
		errors.Is(err, rsync.ErrInvalidState):
		return failed(http.StatusConflict, err)
	case errors.Is(err, election.ErrDeposed), errors.Is(err, join.ErrNotApplied):
		return failed(http.StatusServiceUnavailable, err)
	}
	return failed(http.StatusInternalServerError, err)
}

// Refuse writes an error response of the API.
func Refuse(w http.ResponseWriter, code int, text string) { answer(w, code, Failure{Text: text}) }

func answer(w http.ResponseWriter, code int, body any) {
	contentType := "application/json"
	if _, isFile := body.([]byte); isFile {
		contentType = "application/gzip"
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	write(w, body)
}

// write writes a body. Errors mean that the client has disconnected.
func write(w io.Writer, body any) {
	switch body := body.(type) {
	case nil:
	case []byte:
		_, _ = w.Write(body)
	case *document.Document:
		_, _ = w.Write(body.JSON)
	case []*document.Document:
		writeList(w, body)
	default:
		_ = json.NewEncoder(w).Encode(body)
	}
}

// writeList writes documents without a copy, so a slow client uses no memory.
func writeList(w io.Writer, documents []*document.Document) {
	before := "["
	for _, d := range documents {
		if _, err := io.WriteString(w, before); err != nil {
			return
		}
		if _, err := w.Write(d.JSON); err != nil {
			return
		}
		before = ","
	}
	if len(documents) == 0 {
		_, _ = io.WriteString(w, before)
	}
	_, _ = io.WriteString(w, "]\n")
}

// ofKind returns a handler of requests for documents of the kind in their path.
func ofKind(f func(document.Kind, *http.Request) (int, any, error)) handler {
	return func(r *http.Request) (int, any, error) {
		kind, err := kindNamed(r.PathValue("kind"))
		if err != nil {
			return 0, nil, err
		}
		return f(kind, r)
	}
}

func kindNamed(name string) (document.Kind, error) {
	for _, kind := range document.Kinds() {
		if strings.ToLower(string(kind))+"s" == name {
			return kind, nil
		}
	}
	return "", failf(http.StatusNotFound, "there is no kind %q", name)
}

func (a *api) list(kind document.Kind, _ *http.Request) (int, any, error) {
	return http.StatusOK, a.Hub.Documents().Documents(kind), nil
}

func (a *api) get(kind document.Kind, r *http.Request) (int, any, error) {
	d := a.Hub.Documents().Document(kind, r.PathValue("name"))
	if d == nil {
		return 0, nil, failf(http.StatusNotFound, "there is no %s %q", kind, r.PathValue("name"))
	}
	return http.StatusOK, d, nil
}

func (a *api) put(kind document.Kind, r *http.Request) (int, any, error) {
	data, err := bodyOf(r)
	if err != nil {
		return 0, nil, err
	}
	d, err := document.DecodeOne(data)
	if err == nil {
		err = d.WithName(kind, r.PathValue("name"))
	}
	if err != nil {
		return 0, nil, failed(http.StatusBadRequest, err)
	}
	changes, err := a.Hub.Apply(r.Context(), d)
	if err == nil && changes[0].Action == status.Created {
		return http.StatusCreated, d, nil
	}
	return http.StatusOK, d, err
}

// documents returns a handler of requests with any number of documents.
func (a *api) documents(do func(context.Context, ...*document.Document) (any, error)) handler {
	return func(r *http.Request) (int, any, error) {
		data, err := bodyOf(r)
		if err != nil {
			return 0, nil, err
		}
		all, err := document.Decode(data, "the body")
		if err != nil {
			return 0, nil, failed(http.StatusBadRequest, err)
		}
		for _, d := range all {
			d.Where = fmt.Sprintf("%s %s", d.Kind, d.Name)
		}
		out, err := do(r.Context(), all...)
		return http.StatusOK, out, err
	}
}

func (a *api) remove(kind document.Kind, r *http.Request) (int, any, error) {
	return http.StatusOK, done{}, a.Hub.Delete(r.Context(), document.Key{Kind: kind, Name: r.PathValue("name")})
}

// bodyOf reads a body.
func bodyOf(r *http.Request) ([]byte, error) {
	data, err := io.ReadAll(r.Body)
	switch {
	case err == nil, errors.As(err, new(*http.MaxBytesError)):
		return data, err
	case errors.Is(err, bodies.ErrNoMemory):
		return nil, failf(http.StatusServiceUnavailable, "%v: try again", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, failf(http.StatusRequestTimeout, "the body takes too long to arrive")
	}
	return nil, failf(http.StatusBadRequest, "the body cannot be read: %v", err)
}

// bodyInto decodes a body in JSON. It returns wrong for an invalid body.
func bodyInto(r *http.Request, into any, wrong *failure) error {
	data, err := bodyOf(r)
	if err != nil {
		return err
	}
	if strict, err := kjson.UnmarshalStrict(data, into); err != nil || len(strict) > 0 {
		return wrong
	}
	return nil
}

// RollbackRequest is the optional body of a request for a rollback.
type RollbackRequest struct {
	// Revision is the number of the revision.
	Revision int `json:"revision"`
}

func (a *api) rollback(r *http.Request) (int, any, error) {
	var body RollbackRequest
	data, err := bodyOf(r)
	if err != nil {
		return 0, nil, err
	}
	if len(data) > 0 {
		if strict, err := kjson.UnmarshalStrict(data, &body); err != nil || len(strict) > 0 || body.Revision < 1 {
			const text = "the body must be empty, or an object with the number of a revision"
			return 0, nil, &failure{code: http.StatusBadRequest, Failure: Failure{text, "revision"}}
		}
	}
	out, err := a.control(r, status.Control{Verb: status.Rollback, Revision: body.Revision})
	return http.StatusAccepted, out, err
}

func (a *api) approve(r *http.Request) (int, any, error) {
	const text = `the body must have a group and a gate, Before or After: {"group": "canary", "gate": "After"}`
	var body rsync.Approval
	err := bodyInto(r, &body, &failure{code: http.StatusBadRequest, Failure: Failure{text, "group"}})
	if err != nil {
		return 0, nil, err
	}
	_, err = a.control(r, status.Control{Verb: status.Approve, Approval: body})
	return http.StatusAccepted, done{}, err
}

// control makes a change of the application in the path.
func (a *api) control(r *http.Request, c status.Control) (status.RolledBack, error) {
	login.Describe(r.Context(), c.String())
	return a.Hub.Control(r.Context(), r.PathValue("name"), c)
}

// accepted starts a change of the application or cluster in the path.
func accepted(change func(ctx context.Context, name string) error) handler {
	return func(r *http.Request) (int, any, error) {
		return http.StatusAccepted, done{}, change(r.Context(), r.PathValue("name"))
	}
}

func (a *api) diff(r *http.Request) (int, any, error) {
	var numbers [2]int
	for i, name := range []string{"from", "to"} {
		var err error
		if numbers[i], err = strconv.Atoi(r.URL.Query().Get(name)); err != nil {
			return 0, nil, failf(http.StatusBadRequest, "%s: must be the number of a revision, for example ?from=1&to=2", name)
		}
	}
	changes, err := a.Hub.Diff(r.Context(), r.PathValue("name"), numbers[0], numbers[1])
	return http.StatusOK, changes, err
}

// backup is no GET, because a backup has Secrets.
func (a *api) backup(r *http.Request) (int, any, error) {
	if !a.backups.TryLock() {
		return 0, nil, failf(http.StatusServiceUnavailable, "another client reads a backup: try again after it")
	}
	context.AfterFunc(r.Context(), a.backups.Unlock)
	httpserve.EndTurn(r.Context())
	file, err := a.Backup(r.Context())
	return http.StatusOK, file, err
}

func (a *api) history(r *http.Request) (int, any, error) {
	revisions, err := a.Hub.History(r.Context())
	return http.StatusOK, revisions, err
}

func (a *api) clusterStatus(r *http.Request) (int, any, error) {
	c, ok := a.Hub.Cluster(r.Context(), r.PathValue("name"))
	if !ok {
		return 0, nil, failf(http.StatusNotFound, "there is no cluster %q", r.PathValue("name"))
	}
	return http.StatusOK, c, nil
}

func (a *api) applicationStatus(r *http.Request) (int, any, error) {
	name := r.PathValue("name")
	if wait := r.URL.Query().Get("wait"); wait != "" {
		ctx, end, err := a.begin(r, "wait", wait)
		if err != nil {
			return 0, nil, err
		}
		defer end()
		_ = a.Hub.Settled(ctx, name) // the status is returned in any case
	}
	out, ok := a.Hub.Application(r.Context(), name)
	if !ok {
		return 0, nil, failf(http.StatusNotFound, "there is no application %q", name)
	}
	return http.StatusOK, out, nil
}
