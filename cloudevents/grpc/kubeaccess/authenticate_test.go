// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubeaccess_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/grpc/kubeaccess"
)

func valid(user string, audiences ...string) authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{
		Authenticated: true, User: authenticationv1.UserInfo{Username: user, Groups: []string{"g"}}, Audiences: audiences,
	}
}

func TestTokens(t *testing.T) {
	tokens := map[string]authenticationv1.TokenReviewStatus{
		secret: valid("agent", "hub", "other"), "anonymous": valid("", "hub"), "unaware": valid("agent"),
		"else": valid("agent", "other"),
	}
	for _, row := range []struct {
		reason, token string
		audiences     []string
		want          string // the error
		asked         []string
	}{
		{"valid", secret, nil, "", []string{"token"}},
		{"unknown", "unknown", nil, "does not know the token", []string{"token"}},
		{"no user", "anonymous", nil, "no user", []string{"token"}},
		{"empty", "", nil, "empty", nil},
		{"long", strings.Repeat("x", 65<<10), nil, "bytes", nil},
		{"one of the audiences", secret, []string{"us", "hub"}, "", []string{"token us hub"}},
		{"another audience", "else", []string{"hub"}, "Options.Audiences", []string{"token hub"}},
		{"an authenticator without audiences", "unaware", []string{"hub"}, "Options.Audiences", []string{"token hub"}},
	} {
		t.Run(row.reason, func(t *testing.T) {
			a := &api{tokens: tokens}
			r := newReviews(t, a, kubeaccess.Options{Audiences: row.audiences})
			for range 2 { // the second one without a request
				id, err := r.AuthenticateToken(t.Context(), row.token)
				if row.want != "" {
					if err == nil || !strings.Contains(err.Error(), row.want) || status.Code(err) == codes.Unavailable {
						t.Errorf("got %v, want an error with %q", err, row.want)
					} else if row.token != "" && strings.Contains(err.Error(), row.token) {
						t.Errorf("the error has the token: %v", err)
					}
					continue
				}
				if diff := cmp.Diff(grpc.Identity{User: "agent", Groups: []string{"g"}}, id); err != nil || diff != "" {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			}
			if diff := cmp.Diff(row.asked, a.questions()); diff != "" {
				t.Errorf("asked other questions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRevokedTokenEnds checks that a token is valid for CacheTTL after its last review.
func TestRevokedTokenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{tokens: map[string]authenticationv1.TokenReviewStatus{secret: valid("agent")}}
		r := newReviews(t, a, kubeaccess.Options{})
		try := func(want bool) {
			t.Helper()
			if _, err := r.AuthenticateToken(t.Context(), secret); (err == nil) != want {
				t.Errorf("got %v, want valid %v", err, want)
			}
		}
		try(true)
		a.set(func() { delete(a.tokens, secret) })
		time.Sleep(10*time.Second - 1)
		try(true)
		time.Sleep(time.Nanosecond)
		try(false)
	})
}

// TestTokensAreSecret checks answers that quote a part of the token, and the log at the level of
// bodies.
func TestTokensAreSecret(t *testing.T) {
	const most = len(secret) - 2
	quote := "denied token " + secret[:most] + "…"
	for name, a := range map[string]*api{
		"an admission webhook": {fail: func() (int, metav1.Status) {
			return 422, metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReason(quote), Message: quote}
		}},
		"another object": {fail: func() (int, metav1.Status) { return 200, metav1.Status{Status: quote, Message: quote} }},
		"an authenticator": {tokens: map[string]authenticationv1.TokenReviewStatus{
			secret: {Error: quote},
		}},
	} {
		r := newReviews(t, a, kubeaccess.Options{})
		var log strings.Builder
		ctx := klog.NewContext(t.Context(),
			textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log), textlogger.Verbosity(10))))
		_, err := r.AuthenticateToken(ctx, secret)
		if err == nil {
			t.Errorf("%s: the token was accepted", name)
			continue
		}
		for _, text := range []string{err.Error(), log.String()} {
			if strings.Contains(text, secret[:most]) {
				t.Errorf("%s: a part of the token is in: %s", name, text)
			}
		}
	}
}

// TestTokenHidesNoCause checks that the cause of an outage is logged for each token.
func TestTokenHidesNoCause(t *testing.T) {
	for want, a := range map[string]*api{
		"connection refused": {err: errors.New("connection refused")},
		"HTTP 503 Service Unavailable": {fail: func() (int, metav1.Status) {
			return 503, metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonServiceUnavailable}
		}},
	} {
		r := newReviews(t, a, kubeaccess.Options{})
		var log strings.Builder
		ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log))))
		if _, err := r.AuthenticateToken(ctx, "e"); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v, want Unavailable", want, err)
		}
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, &log)
		}
	}
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]kubeaccess.Options{
		"invalid CacheTTL: -1s":     {CacheTTL: -time.Second},
		"invalid CacheTTL: 1h0m0s":  {CacheTTL: time.Hour},
		"invalid Timeout: -1s":      {Timeout: -time.Second},
		"invalid Audiences: one of": {Audiences: []string{"hub", ""}},
	} {
		if _, err := kubeaccess.New((&api{}).config(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want an error with %q", o, err, want)
		}
	}
	if _, err := kubeaccess.New(nil, kubeaccess.Options{}); err == nil || !strings.Contains(err.Error(), "config is nil") {
		t.Errorf("without a configuration: %v", err)
	}
}
