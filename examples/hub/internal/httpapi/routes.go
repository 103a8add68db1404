// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"

	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/rsync"
)

// Route is a request of the API. The handler of [New] and the OpenAPI document have the same routes.
type Route struct {
	// Pattern is the method and the path, as in [http.ServeMux]. Summary is the effect.
	Pattern, Summary string
	// Query describes the parameters of the query.
	Query map[string]string
	// Body and Answer have the types of the bodies of the request and the response. Body is nil for a
	// request without a body, and a pointer if the body is optional. A [document.Document] is a document
	// of a user, not this type.
	Body, Answer any
	// Codes are the statuses without an error.
	Codes []int
	// changesDocuments is whether the route does not exist while documents come from a folder.
	changesDocuments bool
	handler          handler
}

// Routes returns all requests.
func Routes() []Route { return (&api{}).routes() }

// done is the answer to a request without a result.
type done = struct{}

func (a *api) routes() []Route {
	ok, changed := []int{http.StatusOK}, []int{http.StatusAccepted}
	complete := func(ctx context.Context, _ string) error { return a.Hub.Complete(ctx) }
	apply := func(ctx context.Context, d ...*document.Document) (any, error) { return a.Hub.Apply(ctx, d...) }
	plan := func(ctx context.Context, d ...*document.Document) (any, error) { return a.Hub.Plan(ctx, d...) }
	documents := []Route{
		{"GET /api/v1/{kind}", "list the documents of a kind", nil, nil, []document.Document{}, ok, false, ofKind(a.list)},
		{"GET /api/v1/{kind}/{name}", "return a document", nil, nil, document.Document{}, ok, false, ofKind(a.get)},
		{"PUT /api/v1/{kind}/{name}", "create or replace a document, in YAML or JSON", nil,
			document.Document{}, document.Document{}, []int{http.StatusOK, http.StatusCreated}, true, ofKind(a.put)},
		{"DELETE /api/v1/{kind}/{name}", "delete a document", nil, nil, done{}, ok, true, ofKind(a.remove)},
		{"POST /api/v1/complete", "declare that the documents of all applications exist", nil, nil, done{}, changed, false,
			accepted(complete)},
		{"POST /api/v1/apply", "create or replace documents atomically, in YAML or JSON", nil,
			[]document.Document{}, []status.DocumentChange{}, ok, true, a.documents(apply)},
		{"POST /api/v1/diff", "return what apply would change, and change nothing", nil, []document.Document{},
			status.Plan{}, ok, false, a.documents(plan)},
	}
	states := []Route{
		{"GET /api/v1/status", "the links of the hub, and all applications and clusters", nil, nil, status.Hub{}, ok, false,
			func(r *http.Request) (int, any, error) { return http.StatusOK, a.Hub.State(r.Context()), nil }},
		{"GET /api/v1/history", "the revisions of all applications, and actions, the newest first", nil, nil,
			[]status.Revision{}, ok, false, a.history},
		{"GET /api/v1/clusters/{name}/status", "a cluster with its applications, works and objects", nil, nil,
			status.Cluster{}, ok, false, a.clusterStatus},
		{"GET /api/v1/applications/{name}/status", "an application with its clusters and revisions",
			map[string]string{"wait": "wait until it is in sync, at most for this duration, for example 30s"}, nil,
			status.Application{}, ok, false, a.applicationStatus},
		{"GET /api/v1/applications/{name}/diff", "the fields in which two revisions differ",
			map[string]string{"from": "the number of a revision", "to": "the number of a revision"}, nil,
			[]status.Change{}, ok, false, a.diff},
		{"POST /api/v1/backup", "return a backup of the store, for hub restore: it has Secrets", nil, nil, []byte{}, ok,
			false, a.backup},
	}
	return append(append(append(documents, states...), a.changes(changed)...), a.joins(ok)...)
}

// changes are the requests that start a change of an application or a cluster.
func (a *api) changes(changed []int) []Route {
	const app = "/api/v1/applications/{name}/"
	control := func(verb status.Verb) handler {
		return func(r *http.Request) (int, any, error) {
			_, err := a.control(r, status.Control{Verb: verb})
			return http.StatusAccepted, done{}, err
		}
	}
	return []Route{
		{"POST " + app + "rollback", "roll back to the previous revision, or to the one in the body; hold it", nil,
			&RollbackRequest{}, status.RolledBack{}, changed, false, a.rollback},
		{"DELETE " + app + "rollback", "end the hold: the document is rolled out again", nil, nil, done{}, changed, false,
			control(status.Release)},
		{"POST " + app + "approve", "open a gate of its rollout", nil, rsync.Approval{}, done{}, changed, false, a.approve},
		{"POST " + app + "pause", "start no further cluster of its rollout", nil, nil, done{}, changed, false,
			control(status.Pause)},
		{"POST " + app + "resume", "end a pause, or start a failed or aborted rollout again", nil, nil, done{}, changed,
			false, control(status.Resume)},
		{"POST " + app + "abort", "end its rollout; with rollbackOnFailure it is rolled back", nil, nil, done{}, changed,
			false, control(status.Abort)},
		{"POST /api/v1/clusters/{name}/forget", "stop waiting for a removed cluster that will not return", nil, nil, done{},
			changed, false, accepted(a.Hub.Forget)},
	}
}

// joins are the requests for the certificates of agents.
func (a *api) joins(ok []int) []Route {
	return []Route{
		{"GET /api/v1/tokens", "list the tokens, without their secrets", nil, nil, []join.TokenInfo{}, ok, false,
			a.joining(a.tokens)},
		{"POST /api/v1/tokens", "create a token that lets an agent join", nil, TokenRequest{}, Token{},
			[]int{http.StatusCreated}, false, a.joining(a.createToken)},
		{"DELETE /api/v1/tokens/{id}", "delete a token", nil, nil, done{}, ok, false, a.joining(a.deleteToken)},
		{"POST /api/v1/clusters/{name}/revoke", "refuse the certificates of a cluster, and end its connections", nil, nil,
			status.Revocation{}, ok, false, a.joining(a.revoke)},
	}
}
