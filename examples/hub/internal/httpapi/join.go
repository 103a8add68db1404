// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/examples/internal/login"
)

// TokenRequest is the body of a request for a token.
type TokenRequest struct {
	// Cluster is the name of the cluster.
	Cluster string `json:"cluster"`
	// Lifetime is a duration, for example 1h.
	Lifetime string `json:"lifetime,omitempty"`
	// Uses is the number of agents that may join; by default 1.
	Uses int `json:"uses,omitempty"`
}

// Token is a token of an answer.
type Token struct {
	join.TokenInfo
	// Token and URL are only in the answer to a request for a token.
	Token string `json:"token,omitempty"`
	URL   string `json:"url,omitempty"`
}

// joining returns a handler that refuses requests if the hub issues no certificates.
func (a *api) joining(f handler) handler {
	return func(r *http.Request) (int, any, error) {
		if a.Join == nil {
			return 0, nil, failf(http.StatusConflict,
				"this hub issues no certificates: start it with --certs and --join-listen")
		}
		return f(r)
	}
}

func (a *api) tokens(r *http.Request) (int, any, error) {
	all, err := a.Join.Tokens(r.Context())
	return http.StatusOK, all, err
}

func (a *api) createToken(r *http.Request) (int, any, error) {
	const text = `the body must have a cluster, and may have a lifetime and uses: {"cluster": "c1", "lifetime": "1h"}`
	var body TokenRequest
	err := bodyInto(r, &body, failf(http.StatusBadRequest, text))
	if err != nil {
		return 0, nil, err
	}
	login.Describe(r.Context(), "create a token for "+body.Cluster)
	o := join.TokenOptions{Cluster: body.Cluster, Uses: body.Uses}
	if body.Lifetime != "" {
		if o.Lifetime, err = time.ParseDuration(body.Lifetime); err != nil || o.Lifetime <= 0 {
			return 0, nil, failf(http.StatusBadRequest, "lifetime: must be a duration, for example 1h")
		}
	}
	t, err := a.Join.CreateToken(r.Context(), o)
	if err != nil {
		return 0, nil, err
	}
	out := Token{Token: t.Reveal(), URL: a.JoinURL}
	all, err := a.Join.Tokens(r.Context())
	for _, info := range all {
		if info.ID == t.ID() {
			out.TokenInfo = info
		}
	}
	return http.StatusCreated, out, err
}

func (a *api) deleteToken(r *http.Request) (int, any, error) {
	return http.StatusOK, done{}, a.Join.DeleteToken(r.Context(), r.PathValue("id"))
}

func (a *api) revoke(r *http.Request) (int, any, error) {
	var out status.Revocation
	if _, known := a.Hub.Cluster(r.Context(), r.PathValue("name")); !known {
		out.Note = "there is no Cluster document and no agent with this name: check it"
	}
	return http.StatusOK, out, a.Join.Revoke(r.Context(), r.PathValue("name"))
}
