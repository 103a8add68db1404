// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubeaccess

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
)

const (
	maxToken      = 64 << 10
	reviewOfToken = "tokenreviews"
)

// tokenHash is the SHA-256 of a token. The cache has no tokens.
type tokenHash [sha256.Size]byte

// tokenAnswer is the identity of a token, or the reason why it is not valid.
type tokenAnswer struct {
	identity grpc.Identity
	invalid  string
}

func sizeOfToken(_ tokenHash, a tokenAnswer) int {
	size := overhead + len(a.identity.User) + len(a.invalid)
	for _, group := range a.identity.Groups {
		size += 16 + len(group)
	}
	return size
}

// AuthenticateToken implements [grpc.TokenAuthenticator]. The error has the status code Unavailable if
// the API server did not decide.
func (r *Reviews) AuthenticateToken(ctx context.Context, token string) (grpc.Identity, error) {
	switch {
	case token == "":
		return grpc.Identity{}, errors.New("the token is empty")
	case len(token) > maxToken:
		return grpc.Identity{}, fmt.Errorf("the token has more than %d bytes", maxToken)
	}
	limited, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	answer, err := r.tokens.Ask(limited, sha256.Sum256([]byte(token)), func(ctx context.Context) (tokenAnswer, error) {
		return r.reviewToken(ctx, token)
	})
	switch {
	case err != nil:
		return grpc.Identity{}, r.failure(ctx, err, reviewOfToken)
	case answer.invalid != "":
		return grpc.Identity{}, errors.New(answer.invalid)
	}
	return grpc.Identity{User: answer.identity.User, Groups: slices.Clone(answer.identity.Groups)}, nil
}

func (r *Reviews) reviewToken(ctx context.Context, token string) (tokenAnswer, error) {
	review := &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: r.options.Audiences},
	}
	var answer authenticationv1.TokenReview
	if err := create(ctx, r.authentication, reviewOfToken, review, &answer); err != nil {
		return tokenAnswer{}, err
	}
	s := answer.Status
	ours := func(audience string) bool { return slices.Contains(r.options.Audiences, audience) }
	switch {
	case !s.Authenticated: // its error may quote the token
		return tokenAnswer{invalid: "the API server does not know the token"}, nil
	case len(r.options.Audiences) > 0 && !slices.ContainsFunc(s.Audiences, ours):
		return tokenAnswer{invalid: "the token is for other audiences than Options.Audiences"}, nil
	case s.User.Username == "":
		return tokenAnswer{invalid: "the token has no user"}, nil
	}
	return tokenAnswer{identity: grpc.Identity{User: s.User.Username, Groups: s.User.Groups}}, nil
}
