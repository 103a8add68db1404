// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/hub"
	"github.com/spokewire/sdk-go/examples/hub/internal/page"
	"github.com/spokewire/sdk-go/examples/hub/internal/rollout"
	"github.com/spokewire/sdk-go/internal/bodies"
	"github.com/spokewire/sdk-go/internal/httpserve"
	"github.com/spokewire/sdk-go/rsync"
)

const (
	// maxWait limits the time that a request waits for an application to settle.
	maxWait = 10 * time.Minute
	// maxWaits limits the requests that wait.
	maxWaits = 100
)

// Options configures the API.
type Options struct {
	Hub      *hub.Hub
	Rollouts *rollout.Manager
	// ReadOnly is set if documents come from a folder.
	ReadOnly bool
}

type api struct {
	Options
	waits chan struct{}
}

// handler returns the status and the body of an answer.
type handler func(*http.Request) (int, any, error)

// New returns the handler of the API.
func New(options Options) http.Handler {
	a := &api{options, make(chan struct{}, maxWaits)}
	mux := http.NewServeMux()
	handle := func(pattern string, f handler) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, document.MaxBytes)
			code, body, err := f(r)
			if err != nil {
				code, body = explain(err)
				var own *failure
				if errors.As(err, &own) && own.allow != "" {
					w.Header().Set("Allow", own.allow)
				}
			}
			answer(w, code, body)
		})
	}
	handle("GET /api/v1/{kind}", a.list)
	handle("GET /api/v1/{kind}/{name}", a.get)
	if !a.ReadOnly {
		handle("PUT /api/v1/{kind}/{name}", a.put)
		handle("DELETE /api/v1/{kind}/{name}", a.remove)
		handle("POST /api/v1/complete",
			accepted(func(ctx context.Context, _ string) error { return a.Hub.Complete(ctx) }))
	}
	handle("GET /api/v1/status", a.status)
	handle("GET /api/v1/applications/{name}/status", a.applicationStatus)
	handle("POST /api/v1/applications/{name}/rollback", a.rollback)
	handle("DELETE /api/v1/applications/{name}/rollback", accepted(a.Hub.Resume))
	handle("POST /api/v1/applications/{name}/approve", a.approve)
	handle("POST /api/v1/applications/{name}/pause", a.control((*rsync.Engine).Pause))
	handle("POST /api/v1/applications/{name}/abort", a.control((*rsync.Engine).Abort))
	handle("POST /api/v1/applications/{name}/resume", accepted(a.Rollouts.Resume))
	handle("POST /api/v1/clusters/{name}/forget", accepted(a.Hub.Forget))
	handle("/api/", func(r *http.Request) (int, any, error) { return 0, nil, a.none(mux, r) })
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		Refuse(w, http.StatusForbidden, "a page of another origin must not change anything")
	}))
	return protection.Handler(mux)
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
	if _, err := kindNamed(first); err != nil && first != "status" && first != "complete" || len(allow) == 0 {
		return failf(http.StatusNotFound, "there is no %s %s", r.Method, r.URL.Path)
	}
	out := failf(http.StatusMethodNotAllowed, "%s does not support %s", r.URL.Path, r.Method)
	out.allow = strings.Join(allow, ", ")
	if a.ReadOnly {
		out.text += ": documents come from a folder: change them there"
	}
	return out
}

// failure is an error with an HTTP status.
type failure struct {
	code  int
	text  string
	allow string // the allowed methods, for the status 405
}

func (f *failure) Error() string { return f.text }

func failf(code int, format string, args ...any) *failure {
	return &failure{code: code, text: fmt.Sprintf(format, args...)}
}

// problem is the body of an error.
type problem struct {
	Error string `json:"error"`
	Field string `json:"field,omitempty"`
}

// explain returns the status and the body for an error.
func explain(err error) (int, problem) {
	var wrong *document.Error
	var own *failure
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &own):
		return own.code, problem{Error: own.text}
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge,
			problem{Error: fmt.Sprintf("the body has more than %d bytes", large.Limit)}
	case errors.As(err, &wrong):
		return http.StatusUnprocessableEntity, problem{Error: wrong.Error(), Field: wrong.Field}
	case errors.Is(err, rsync.ErrInvalidInput):
		return http.StatusBadRequest, problem{Error: err.Error()}
	case errors.Is(err, hub.ErrNotFound), errors.Is(err, rsync.ErrNotFound):
		return http.StatusNotFound, problem{Error: err.Error()}
	case errors.Is(err, hub.ErrNoRevision), errors.Is(err, hub.ErrPresent), errors.Is(err, hub.ErrNoDocument),
		errors.Is(err, rsync.ErrInvalidState):
		return http.StatusConflict, problem{Error: err.Error()}
	}
	return http.StatusInternalServerError, problem{Error: err.Error()}
}

// Refuse writes an error response of the API.
func Refuse(w http.ResponseWriter, code int, text string) { answer(w, code, problem{Error: text}) }

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	switch body := body.(type) { // errors mean that the client has disconnected
	case nil:
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

// kindOf returns the kind of a path.
func kindOf(r *http.Request) (document.Kind, error) { return kindNamed(r.PathValue("kind")) }

func kindNamed(name string) (document.Kind, error) {
	for _, kind := range document.Kinds() {
		if strings.ToLower(string(kind))+"s" == name {
			return kind, nil
		}
	}
	return "", failf(http.StatusNotFound, "there is no kind %q", name)
}

func (a *api) list(r *http.Request) (int, any, error) {
	kind, err := kindOf(r)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, a.Hub.Documents().Documents(kind), nil
}

func (a *api) get(r *http.Request) (int, any, error) {
	kind, err := kindOf(r)
	if err != nil {
		return 0, nil, err
	}
	d := a.Hub.Documents().Document(kind, r.PathValue("name"))
	if d == nil {
		return 0, nil, failf(http.StatusNotFound, "there is no %s %q", kind, r.PathValue("name"))
	}
	return http.StatusOK, d, nil
}

func (a *api) put(r *http.Request) (int, any, error) {
	kind, err := kindOf(r)
	if err != nil {
		return 0, nil, err
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, nil, bodyError(err)
	}
	d, err := document.DecodeOne(data)
	if err == nil {
		err = d.WithName(kind, r.PathValue("name"))
	}
	var wrong *document.Error
	if errors.As(err, &wrong) {
		return http.StatusBadRequest, problem{Error: wrong.Error(), Field: wrong.Field}, nil
	}
	if err != nil {
		return 0, nil, err
	}
	created, err := a.Hub.Put(r.Context(), d)
	if err != nil {
		return 0, nil, err
	}
	if created {
		return http.StatusCreated, d, nil
	}
	return http.StatusOK, d, nil
}

func (a *api) remove(r *http.Request) (int, any, error) {
	kind, err := kindOf(r)
	if err != nil {
		return 0, nil, err
	}
	err = a.Hub.Delete(r.Context(), document.Key{Kind: kind, Name: r.PathValue("name")})
	return http.StatusOK, struct{}{}, err
}

// bodyError returns the error for a body that cannot be read.
func bodyError(err error) error {
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return err
	case errors.Is(err, bodies.ErrNoMemory):
		return failf(http.StatusServiceUnavailable, "%v: try again", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return failf(http.StatusRequestTimeout, "the body takes too long to arrive")
	}
	return failf(http.StatusBadRequest, "the body cannot be read: %v", err)
}

func (a *api) rollback(r *http.Request) (int, any, error) {
	var body struct {
		Revision int `json:"revision"`
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, nil, bodyError(err)
	}
	if len(data) > 0 {
		if strict, err := kjson.UnmarshalStrict(data, &body); err != nil || len(strict) > 0 || body.Revision < 1 {
			return http.StatusBadRequest, problem{
				Error: "the body must be empty, or an object with the number of a revision", Field: "revision",
			}, nil
		}
	}
	out, err := a.Hub.Rollback(r.Context(), r.PathValue("name"), body.Revision)
	return http.StatusAccepted, out, err
}

func (a *api) approve(r *http.Request) (int, any, error) {
	var body rsync.Approval
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, nil, bodyError(err)
	}
	if strict, err := kjson.UnmarshalStrict(data, &body); err != nil || len(strict) > 0 {
		const text = `the body must have a group and a gate, Before or After: {"group": "canary", "gate": "After"}`
		return http.StatusBadRequest, problem{Error: text, Field: "group"}, nil
	}
	return a.control(func(e *rsync.Engine, ctx context.Context, ref rsync.EventRef) error {
		return e.Approve(ctx, ref, body)
	})(r)
}

// control calls a method of the engine for the rollout of the application.
func (a *api) control(method func(*rsync.Engine, context.Context, rsync.EventRef) error) handler {
	return accepted(func(ctx context.Context, name string) error { return a.Rollouts.Control(ctx, name, method) })
}

// accepted starts a change of the application or cluster in the path.
func accepted(change func(ctx context.Context, name string) error) handler {
	return func(r *http.Request) (int, any, error) {
		return http.StatusAccepted, struct{}{}, change(r.Context(), r.PathValue("name"))
	}
}

// applicationStatus is the status of an application.
type applicationStatus struct {
	Name     string          `json:"name"`
	Revision string          `json:"revision,omitempty"`
	Status   string          `json:"status"`
	Reason   string          `json:"reason,omitempty"`
	Rollout  *page.Rollout   `json:"rollout,omitempty"`
	Clusters []clusterStatus `json:"clusters"`
	// Revisions are the revisions that it can be rolled back to.
	Revisions []revision `json:"revisions,omitempty"`
}

// revision is a revision of an application. It has no hash of its source: the source may contain
// weak secrets, which the hash would allow to guess.
type revision struct {
	Number   int       `json:"number"`
	Cause    string    `json:"cause"`
	Created  time.Time `json:"created"`
	Clusters int       `json:"clusters"`
}

type clusterStatus struct {
	Name     string `json:"name"`
	Revision string `json:"revision,omitempty"`
	Health   string `json:"health"`
	Reason   string `json:"reason,omitempty"`
}

// clusterOf is the status of a cluster.
type clusterOf struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	// LastReport is when the last message of its agent arrived since the hub started, to the minute.
	LastReport *time.Time `json:"heard,omitempty"`
}

// unclaimedWork is a work with objects that no application has.
type unclaimedWork struct {
	Cluster     string   `json:"cluster"`
	Work        string   `json:"work"`
	Application string   `json:"application,omitempty"`
	Objects     []string `json:"objects"`
}

func statusOf(p page.Application) applicationStatus {
	out := applicationStatus{
		Name: p.Name, Revision: p.Revision, Status: p.Status.Word, Reason: p.Status.Reason, Rollout: p.Rollout,
		Clusters: []clusterStatus{},
	}
	for _, c := range p.Placements {
		out.Clusters = append(out.Clusters, clusterStatus{c.Cluster, c.Revision, c.Status.Word, c.Status.Reason})
	}
	return out
}

func (a *api) status(*http.Request) (int, any, error) {
	state := a.Hub.State()
	applications := []applicationStatus{}
	for _, p := range state.Applications {
		applications = append(applications, statusOf(p))
	}
	slices.SortFunc(applications, func(a, b applicationStatus) int { return cmp.Compare(a.Name, b.Name) })
	clusters := []clusterOf{}
	for _, c := range state.Clusters {
		of := clusterOf{Name: c.Name, Status: c.Status.Word, Reason: c.Status.Reason}
		if !c.LastReport.IsZero() {
			of.LastReport = new(c.LastReport.UTC())
		}
		clusters = append(clusters, of)
	}
	slices.SortFunc(clusters, func(a, b clusterOf) int { return cmp.Compare(a.Name, b.Name) })
	unclaimed := []unclaimedWork{}
	for _, u := range state.Unclaimed {
		unclaimed = append(unclaimed, unclaimedWork(u))
	}
	return http.StatusOK, map[string]any{
		"applications": applications, "clusters": clusters, "refused": state.Input.Error, "unclaimed": unclaimed,
	}, nil
}

func (a *api) applicationStatus(r *http.Request) (int, any, error) {
	name := r.PathValue("name")
	if wait := r.URL.Query().Get("wait"); wait != "" {
		limit, err := time.ParseDuration(wait)
		if err != nil || limit <= 0 || limit > maxWait {
			return 0, nil, failf(http.StatusBadRequest, "wait: must be a duration of up to %s, for example 30s", maxWait)
		}
		select {
		case a.waits <- struct{}{}:
			defer func() { <-a.waits }()
		default:
			return 0, nil,
				failf(http.StatusServiceUnavailable, "%d requests wait already: retry later, or without wait", maxWaits)
		}
		httpserve.EndTurn(r.Context())
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		_ = a.Hub.Settled(ctx, name) // the status is returned in any case
	}
	p, ok := a.Hub.Application(name)
	if !ok {
		return 0, nil, failf(http.StatusNotFound, "there is no application %q", name)
	}
	out := statusOf(p)
	revisions, _, err := a.Rollouts.Revisions(r.Context(), name)
	for _, r := range revisions {
		out.Revisions = append(out.Revisions, revision{r.Number, r.Cause, r.Created, r.Clusters})
	}
	return http.StatusOK, out, err
}
