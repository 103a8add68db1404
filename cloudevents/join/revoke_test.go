// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/cloudevents/join"
)

func TestRevokeRefusesAtOnce(t *testing.T) {
	s := newSite(t, nil)
	dir, cert := s.join("c1")
	_, other := s.join("c2")
	pending := s.token(join.TokenOptions{Cluster: "c1", Uses: 5})
	s.changes.fail(errors.New("the broker is away"))
	if err := s.Revoke(t.Context(), "c1"); !errors.Is(err, join.ErrNotApplied) {
		t.Errorf("Revoke, with the broker away: %v", err)
	}
	if err := s.Check(cert); !errors.Is(err, join.ErrRevoked) {
		t.Errorf("Check: %v", err)
	}
	if err := s.Check(other); err != nil {
		t.Errorf("another cluster: %v", err)
	}
	if _, err := join.Join(t.Context(), join.Options{URL: s.url, Token: pending, Dir: t.TempDir()}); err == nil {
		t.Error("joined with a token from before the revocation")
	}
	s.changes.fail(nil)
	eventually(t, "the broker refuses the cluster", func() bool {
		return s.changes.text() == "admit CN=c1,OU=join-1; admit CN=c2,OU=join-1; refuse CN=c1; refuse CN=c1,OU=join-1"
	})
	if s.changes.ends == 0 {
		t.Error("Revoked was not called")
	}

	// The next join has another subject: the old certificate stays revoked.
	again, err := join.Join(t.Context(), join.Options{URL: s.url, Token: s.token(join.TokenOptions{Cluster: "c1"}),
		Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if again.Subject.String() != "CN=c1,OU=join-2" || s.Check(again) != nil || !errors.Is(s.Check(cert),
		join.ErrRevoked) {
		t.Errorf("%s: %v; the old one: %v", again.Subject, s.Check(again), s.Check(cert))
	}
}

// TestRevokeOtherCertificates checks that certificates of other origins are refused, too.
func TestRevokeOtherCertificates(t *testing.T) {
	s := newSite(t, func(o *join.ServerOptions) { o.Reserved = []string{"hub"} })
	client := func(name string) *x509.Certificate {
		cert, key, err := s.ca.Client(name)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf
	}
	plain, ocm, other := client("c1"), client("system:open-cluster-management:c1:agent"), client("c2")
	for _, cert := range []*x509.Certificate{plain, ocm, other} {
		if err := s.Check(cert); err != nil {
			t.Errorf("%s before: %v", cert.Subject, err)
		}
	}
	if err := s.Revoke(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	for _, cert := range []*x509.Certificate{plain, ocm} {
		if err := s.Check(cert); !errors.Is(err, join.ErrRevoked) {
			t.Errorf("%s: %v", cert.Subject, err)
		}
	}
	if err := s.Check(other); err != nil {
		t.Error(err)
	}
	if err := s.Check(nil); err == nil {
		t.Error("no certificate is accepted")
	}
	for _, name := range []string{"hub", "", "A"} {
		if err := s.Revoke(t.Context(), name); !errors.Is(err, join.ErrInvalid) {
			t.Errorf("revoke %q: %v", name, err)
		}
	}
}

// TestServersShareStore checks tokens and revocations of two servers, and after a restart.
func TestServersShareStore(t *testing.T) {
	s := newSite(t, nil)
	second, url := s.start()
	token, err := second.CreateToken(t.Context(), join.TokenOptions{Cluster: "c1"})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := join.Join(t.Context(), join.Options{URL: s.url, Token: token, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = join.Join(t.Context(), join.Options{URL: url, Token: token, Dir: t.TempDir()}); err == nil {
		t.Error("the token is used a second time")
	}
	if err := s.Revoke(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other server refuses the cluster", func() bool {
		return errors.Is(second.Check(cert),
			join.ErrRevoked)
	})
	third, _ := s.start()
	if err := third.Check(cert); !errors.Is(err, join.ErrRevoked) {
		t.Errorf("after a restart: %v", err)
	}
}

func TestCheckBeforeStart(t *testing.T) {
	s := newSite(t, nil)
	_, cert := s.join("c1")
	idle, err := join.NewServer(s.options)
	if err != nil {
		t.Fatal(err)
	}
	if err := idle.Check(cert); !errors.Is(err, join.ErrNotReady) {
		t.Errorf("Check: %v", err)
	}
}

// TestJoinsAndRevocations checks with random operations that exactly the certificates from after the
// last revocation of their cluster are accepted, and are those that the broker admits.
func TestJoinsAndRevocations(t *testing.T) {
	s := newSite(t, nil)
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		accepted := map[string]bool{}
		certs := map[string][]*x509.Certificate{}
		for range rapid.IntRange(1, 4).Draw(r, "operations") {
			cluster := fmt.Sprintf("r%d-%s", run, rapid.SampledFrom([]string{"a", "b"}).Draw(r, "cluster"))
			if rapid.Bool().Draw(r, "join") {
				_, cert := s.join(cluster)
				certs[cluster] = append(certs[cluster], cert)
				accepted[string(cert.Raw)] = true
				continue
			}
			if err := s.Revoke(t.Context(), cluster); err != nil {
				r.Fatal(err)
			}
			for _, cert := range certs[cluster] {
				delete(accepted, string(cert.Raw))
			}
		}
		for _, all := range certs {
			for _, cert := range all {
				if err := s.Check(cert); (err == nil) != accepted[string(cert.Raw)] {
					r.Fatalf("%s: %v", cert.Subject, err)
				}
			}
		}
	})
}

// TestRevokeDuringJoins checks that no certificate from a token from before a revocation is accepted
// after it.
func TestRevokeDuringJoins(t *testing.T) {
	s := newSite(t, nil)
	for i := range 10 {
		cluster := fmt.Sprintf("c%d", i)
		token := s.token(join.TokenOptions{Cluster: cluster, Uses: 8})
		var all sync.WaitGroup
		certs := make(chan *x509.Certificate, 8)
		for range 8 {
			dir := t.TempDir()
			all.Go(func() {
				cert, err := join.Join(context.Background(), join.Options{URL: s.url, Token: token, Dir: dir})
				if err == nil {
					certs <- cert
				} else if !errors.As(err, new(*join.RefusedError)) {
					t.Error(err)
				}
			})
		}
		all.Go(func() {
			if err := s.Revoke(context.Background(), cluster); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		close(certs)
		for cert := range certs {
			if err := s.Check(cert); !errors.Is(err, join.ErrRevoked) {
				t.Errorf("%s: %v", cert.Subject, err)
			}
		}
	}
}
