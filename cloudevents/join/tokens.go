// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"cmp"
	"context"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"
)

const (
	// mostFailures is the number of wrong secrets after which a token is deleted.
	mostFailures = 10
	// keptExpired is the time for which an expired token has an error of its own.
	keptExpired = 24 * time.Hour
)

// TokenOptions configures a token. Cluster is required.
type TokenOptions struct {
	// Cluster is the cluster that may join: a label of DNS.
	Cluster string
	// Lifetime is the time for which the token is valid. Defaults to 1 h, and is at most 30 days.
	Lifetime time.Duration
	// Uses is the number of agents that may join with the token. Defaults to 1, and is at most 1,000.
	Uses int
}

// TokenInfo describes a token without its secret.
type TokenInfo struct {
	ID      string    `json:"id"`
	Cluster string    `json:"cluster"`
	Expires time.Time `json:"expires"`
	// Uses is the number of agents that may still join.
	Uses int `json:"uses"`
}

// CreateToken makes a token. It returns an ErrInvalid for invalid options. The store does not have
// the secret, so the token cannot be read later.
func (s *Server) CreateToken(ctx context.Context, o TokenOptions) (Token, error) {
	if err := s.checkName(o.Cluster); err != nil {
		return Token{}, err
	}
	life, uses := cmp.Or(o.Lifetime, defaultTokenLifetime), cmp.Or(o.Uses, 1)
	switch {
	case life < time.Second || life > mostTokenLifetime:
		return Token{}, &invalidError{fmt.Sprintf("invalid Lifetime: %s: must be from 1s to %s", life,
			mostTokenLifetime)}
	case uses < 1 || uses > mostUses:
		return Token{}, &invalidError{fmt.Sprintf("invalid Uses: %d: must be from 1 to %d", uses, mostUses)}
	}
	if err := s.makeRoom(ctx); err != nil {
		return Token{}, err
	}
	authority, err := LoadAuthority(s.options.CACertFile, s.options.CAKeyFile)
	if err != nil {
		return Token{}, err
	}
	t := newToken(authority.cert)
	err = put(ctx, s.options.Store, Record{Key: tokenPrefix + t.id}, grant{
		Cluster: o.Cluster, Secret: digest(t.secret), Uses: uses, Expires: s.options.Clock.Now().Add(life).UTC(),
	})
	if err != nil {
		return Token{}, err
	}
	klog.FromContext(ctx).Info("Created a token", "token", t.id, "cluster", o.Cluster, "lifetime", life, "uses", uses)
	return t, nil
}

// makeRoom deletes a token that is used or expired if there are as many tokens as possible.
func (s *Server) makeRoom(ctx context.Context) error {
	all, err := s.Tokens(ctx)
	if err != nil || len(all) < mostTokens {
		return err
	}
	for _, t := range all {
		if t.Uses > 0 && s.options.Clock.Now().Before(t.Expires) {
			continue
		}
		if err := s.DeleteToken(ctx, t.ID); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		return nil
	}
	return &invalidError{fmt.Sprintf("there are %d valid tokens: delete some", mostTokens)}
}

// Tokens returns all tokens, also those that expired less than a day ago, in the order of their ends.
func (s *Server) Tokens(ctx context.Context) ([]TokenInfo, error) {
	all, err := s.options.Store.List(ctx)
	if err != nil {
		return nil, err
	}
	out := []TokenInfo{}
	for _, r := range all {
		if id, ok := nameIn(tokenPrefix, r.Key); ok {
			g, err := decode[grant](r)
			if err != nil {
				return nil, err
			}
			out = append(out, TokenInfo{ID: id, Cluster: g.Cluster, Expires: g.Expires, Uses: g.Uses})
		}
	}
	slices.SortFunc(out, func(a, b TokenInfo) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// DeleteToken deletes a token. It returns ErrNotFound if the token does not exist.
func (s *Server) DeleteToken(ctx context.Context, id string) error {
	for {
		r, err := s.options.Store.Get(ctx, tokenPrefix+id)
		if err != nil {
			return err
		}
		if r.Version == 0 {
			return ErrNotFound
		}
		err = s.options.Store.Put(ctx, Record{Key: r.Key, Version: r.Version})
		if errors.Is(err, ErrConflict) && ctx.Err() == nil {
			continue
		}
		return err
	}
}

// redeem checks a token and its request, and counts the use. It returns the cluster, the number of
// its incarnation and the request.
func (s *Server) redeem(ctx context.Context, t Token, csrPEM []byte) (*issue, error) {
	for {
		old, g, err := get[grant](ctx, s.options.Store, tokenPrefix+t.id)
		if err != nil {
			return nil, err
		}
		if err := s.verify(ctx, t, old, g); err != nil {
			return nil, err
		}
		csr, err := parseRequest(csrPEM, g.Cluster)
		if err != nil {
			return nil, refusef(ReasonInvalid, "%v", err)
		}
		// The order matters: Revoke deletes tokens, and then revokes. A revocation after this read
		// refuses the certificate, and before it the token has been deleted.
		_, m, err := get[membership](ctx, s.options.Store, clusterPrefix+g.Cluster)
		if err != nil {
			return nil, err
		}
		out := &issue{cluster: g.Cluster, csr: csr, number: m.joined().Last}
		key := digest(string(csr.RawSubjectPublicKeyInfo))
		if slices.Contains(g.Keys, key) { // the answer was lost
			return out, nil
		}
		if g.Uses <= 0 {
			return nil, refusef(ReasonTokenUsed, "the token was already used: create another one")
		}
		g.Uses, g.Keys = g.Uses-1, append(g.Keys, key)
		if len(g.Keys) > mostKeys {
			g.Keys = g.Keys[1:]
		}
		if err = put(ctx, s.options.Store, old, g); !errors.Is(err, ErrConflict) {
			return out, err
		}
	}
}

// mostKeys is the number of keys of a token that may repeat a request.
const mostKeys = 16

// verify checks the secret of a token and the time.
func (s *Server) verify(ctx context.Context, t Token, r Record, g grant) error {
	unknown := refusef(ReasonTokenUnknown,
		"the token is unknown: it was deleted, or has a mistake: create another one")
	if r.Version == 0 {
		return unknown
	}
	if subtle.ConstantTimeCompare([]byte(digest(t.secret)), []byte(g.Secret)) != 1 {
		s.mu.Lock()
		s.failures[t.id]++
		last := s.failures[t.id] >= mostFailures
		if last {
			delete(s.failures, t.id)
		}
		s.mu.Unlock()
		if last {
			klog.FromContext(ctx).Info("Deleted a token after wrong secrets", "token", t.id, "cluster", g.Cluster)
			if err := s.DeleteToken(ctx, t.id); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
		return unknown
	}
	if !s.options.Clock.Now().Before(g.Expires) {
		return refusef(ReasonTokenExpired, "the token expired at %s: create another one",
			g.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}

// issue is a checked request for a certificate.
type issue struct {
	cluster string
	number  int64 // of the incarnation
	csr     *x509.CertificateRequest
}
