// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"context"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/cloudevents/join"
)

// renewal is a result of a Renewer.
type renewal struct {
	cert *x509.Certificate
	err  error
}

// renewing starts a renewer until the end of the test.
func renewing(t *testing.T, dir string, clock *clocktesting.FakeClock) <-chan renewal {
	t.Helper()
	out := make(chan renewal, 1000)
	renewer, err := join.NewRenewer(join.RenewerOptions{Dir: dir, Clock: clock, Renewed: func(c *x509.Certificate,
		err error) {
		out <- renewal{c, err}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := renewer.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return out
}

// step moves the clock after the renewer has begun to wait.
func step(t *testing.T, clock *clocktesting.FakeClock, d time.Duration) {
	t.Helper()
	eventually(t, "the renewer waits", clock.HasWaiters)
	clock.Step(d)
}

func next(t *testing.T, all <-chan renewal) renewal {
	t.Helper()
	select {
	case r := <-all:
		return r
	case <-time.After(patience):
		t.Fatal("no renewal")
		return renewal{}
	}
}

func TestRenewal(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	s := newSite(t, func(o *join.ServerOptions) { o.Clock, o.Lifetime = clock, 2*time.Hour })
	dir, cert := s.join("c1")
	all := renewing(t, dir, clock)
	life := cert.NotAfter.Sub(cert.NotBefore)
	for range 3 {
		for clock.Now().Before(cert.NotBefore.Add(life*2/3 - 2*time.Minute)) {
			step(t, clock, time.Minute)
		}
		select {
		case r := <-all:
			t.Fatalf("renewed before two thirds: %v", r)
		default:
		}
		var renewed *x509.Certificate
		for renewed == nil && clock.Now().Before(cert.NotAfter) {
			step(t, clock, time.Minute)
			eventually(t, "the renewer waits", func() bool { return clock.HasWaiters() || len(all) > 0 })
			if len(all) > 0 {
				renewed = next(t, all).cert
			}
		}
		if late := cert.NotBefore.Add(life * 78 / 100); renewed == nil || clock.Now().After(late) {
			t.Fatalf("renewed at %s, want by %s", clock.Now(), late)
		}
		if renewed.Subject.String() != cert.Subject.String() ||
			string(renewed.RawSubjectPublicKeyInfo) == string(cert.RawSubjectPublicKeyInfo) ||
			!renewed.NotAfter.After(cert.NotAfter) {
			t.Errorf("renewed %s until %s: want the same subject with another key", renewed.Subject, renewed.NotAfter)
		}
		cert = renewed
	}
	if err := s.Check(cert); err != nil {
		t.Error(err)
	}
}

func TestRenewalFailures(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	s := newSite(t, func(o *join.ServerOptions) { o.Clock, o.Lifetime = clock, time.Hour })
	dir, _ := s.join("c1")
	hubFile := filepath.Join(dir, "hub.json")
	right, err := os.ReadFile(hubFile)
	if err != nil {
		t.Fatal(err)
	}
	write := func(content string) {
		if err := os.WriteFile(hubFile, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"url":"https://127.0.0.1:1","cluster":"c1"}`)
	all := renewing(t, dir, clock)
	fails := func(want string) {
		t.Helper()
		for {
			r := next(t, all)
			if r.err != nil && strings.Contains(r.err.Error(), want) {
				return
			}
			step(t, clock, 5*time.Minute)
		}
	}
	for clock.Since(time.Now()) < 46*time.Minute {
		step(t, clock, time.Minute)
	}
	fails("connection refused")
	write(string(right))
	step(t, clock, 5*time.Minute)
	r := next(t, all)
	for ; r.err != nil; r = next(t, all) {
		step(t, clock, time.Second)
	}
	if err := s.Revoke(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		step(t, clock, time.Minute)
	}
	refused := new(join.RefusedError)
	if r := next(t, all); !errors.As(r.err, &refused) || refused.Reason != join.ReasonRevoked {
		t.Errorf("renewal of a revoked cluster: %v", r.err)
	}
	for range 60 {
		step(t, clock, time.Minute)
	}
	fails("the certificate expired at")
	if _, err := join.Join(t.Context(), join.Options{URL: s.url, Token: s.token(join.TokenOptions{Cluster: "c1"}),
		Dir: dir}); err == nil {
		t.Error("a join with the real clock accepts a certificate from the future")
	}
}

func TestRenewerNeedsJoin(t *testing.T) {
	if _, err := join.NewRenewer(join.RenewerOptions{Dir: t.TempDir()}); err == nil ||
		!strings.Contains(err.Error(), "join first") {
		t.Errorf("empty folder: %v", err)
	}
	s := newSite(t, nil)
	dir, _ := s.join("c1")
	if err := os.WriteFile(join.FilesIn(dir).Cert, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := join.NewRenewer(join.RenewerOptions{Dir: dir}); err == nil || !strings.Contains(err.Error(),
		"join again") {
		t.Errorf("damaged file: %v", err)
	}
}
