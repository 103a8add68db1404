// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/cloudevents/join"
)

func TestJoinWritesFiles(t *testing.T) {
	s := newSite(t, nil)
	dir := filepath.Join(t.TempDir(), "new", "folder")
	token := s.token(join.TokenOptions{Cluster: "c1"})
	cert, err := join.Join(t.Context(), join.Options{URL: s.url, Token: token, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if cert.Subject.String() != "CN=c1,OU=join-1" || len(cert.DNSNames)+len(cert.URIs)+len(cert.IPAddresses) > 0 ||
		cert.IsCA ||
		len(cert.ExtKeyUsage) != 1 || cert.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth {
		t.Errorf("certificate: %+v", cert)
	}
	modes := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		modes[e.Name()] = info.Mode().String()
	}
	want := map[string]string{"ca.crt": "-rw-r--r--", "client.pem": "-rw-------", "hub.json": "-rw-r--r--"}
	if fmt.Sprint(modes) != fmt.Sprint(want) {
		t.Errorf("files %v, want %v: the key of the request must be gone", modes, want)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info.Mode(), err)
	}
	files := join.FilesIn(dir)
	if _, err := tls.LoadX509KeyPair(files.Cert, files.Key); err != nil {
		t.Error(err)
	}
	if cluster, err := join.ClusterIn(dir); err != nil || cluster != "c1" {
		t.Errorf("cluster %q, %v", cluster, err)
	}
	if err := s.Check(cert); err != nil {
		t.Error(err)
	}
	if s.changes.text() != "admit CN=c1,OU=join-1" {
		t.Errorf("changes of the broker: %s", s.changes.text())
	}
}

func TestRefusedJoins(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s := newSite(t, func(o *join.ServerOptions) { o.Clock = clock })
	other := newSite(t, nil)
	expired := s.token(join.TokenOptions{Cluster: "c1", Lifetime: time.Second})
	used := s.token(join.TokenOptions{Cluster: "c1", Lifetime: 2 * time.Hour})
	if _, err := join.Join(t.Context(), join.Options{URL: s.url, Token: used, Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	deleted := s.token(join.TokenOptions{Cluster: "c1"})
	if err := s.DeleteToken(t.Context(), deleted.ID()); err != nil {
		t.Fatal(err)
	}
	good := s.token(join.TokenOptions{Cluster: "c1"})
	parts := strings.Split(good.Reveal(), ".")
	wrong, err := join.ParseToken(parts[0] + "." + strings.Repeat("a", 26) + "." + parts[2])
	if err != nil {
		t.Fatal(err)
	}
	clock.SetTime(clock.Now().Add(10 * time.Second))
	tests := []struct {
		name   string
		o      join.Options
		reason join.Reason
		text   string
	}{
		{"expired", join.Options{URL: s.url, Token: expired}, join.ReasonTokenExpired, "the token expired at"},
		{"used", join.Options{URL: s.url, Token: used}, join.ReasonTokenUsed, "was already used: create another one"},
		{"deleted", join.Options{URL: s.url, Token: deleted}, join.ReasonTokenUnknown, "the token is unknown"},
		{"wrong secret", join.Options{URL: s.url, Token: wrong}, join.ReasonTokenUnknown, "the token is unknown"},
		{"other cluster", join.Options{URL: s.url, Token: good, Cluster: "c2"}, join.ReasonInvalid,
			`the request is for cluster "c2", but the agent may join only as "c1"`},
		{"other hub", join.Options{URL: other.url, Token: good}, "", "is not that of the token"},
		{"no hub", join.Options{URL: "https://127.0.0.1:1", Token: good}, "", "connection refused"},
		{"HTTP", join.Options{URL: "http://127.0.0.1:1", Token: good}, "", "must be https://HOST:PORT"},
		{"path", join.Options{URL: s.url + "/x", Token: good}, "", "must be https://HOST:PORT"},
		{"name", join.Options{URL: strings.Replace(s.url, "127.0.0.1", "127.0.0.2", 1), Token: good}, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.o.Dir = t.TempDir()
			_, err := join.Join(t.Context(), test.o)
			refused := new(join.RefusedError)
			if err == nil || !strings.Contains(err.Error(), test.text) ||
				errors.As(err, &refused) != (test.reason != "") || refused.Reason != test.reason {
				t.Errorf("error %v, want %q with %q", err, test.reason, test.text)
			}
			if strings.Contains(fmt.Sprint(err), strings.Split(test.o.Token.Reveal(), ".")[1]) {
				t.Errorf("the error has the secret: %v", err)
			}
			if _, err := os.Stat(join.FilesIn(test.o.Dir).Cert); err == nil {
				t.Error("a certificate was written")
			}
		})
	}
	if _, err := join.Join(t.Context(), join.Options{URL: s.url, Token: good, Dir: t.TempDir()}); err != nil {
		t.Errorf("the token after these errors: %v", err)
	}
}

// TestSecretStaysWithHub checks that a server with another CA receives no token.
func TestSecretStaysWithHub(t *testing.T) {
	s := newSite(t, nil)
	token := s.token(join.TokenOptions{Cluster: "c1"})
	ca, err := os.ReadFile(s.options.CACertFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, shown := range map[string][]byte{"its own CA": nil, "the CA of the hub": ca} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var seen []string
			fake := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, fmt.Sprint(r.URL, r.Header, string(body)))
				_, _ = w.Write(shown)
			}))
			defer fake.Close()
			if _, err := join.Join(t.Context(), join.Options{URL: fake.URL, Token: token,
				Dir: t.TempDir()}); err == nil {
				t.Error("joined a server with another CA")
			}
			mu.Lock()
			defer mu.Unlock()
			if len(seen) != 1 || strings.Contains(seen[0], "Authorization") || strings.Contains(seen[0], token.ID()) {
				t.Errorf("requests: %q", seen)
			}
		})
	}
}

func TestLostAnswerRepeatsWithSameKey(t *testing.T) {
	s := newSite(t, nil)
	s.changes.fail(errors.New("the broker is away"))
	token, dir := s.token(join.TokenOptions{Cluster: "c1"}), t.TempDir()
	_, err := join.Join(t.Context(), join.Options{URL: s.url, Token: token, Dir: dir})
	if err == nil || errors.As(err, new(*join.RefusedError)) || !strings.Contains(err.Error(),
		"cannot issue a certificate now") {
		t.Fatalf("with the broker away: %v", err)
	}
	s.changes.fail(nil)
	_, err = join.Join(t.Context(), join.Options{URL: s.url, Token: token, Dir: t.TempDir()})
	if refused := new(join.RefusedError); !errors.As(err, &refused) || refused.Reason != join.ReasonTokenUsed {
		t.Errorf("another machine with the token: %v", err)
	}
	if _, err := join.Join(t.Context(), join.Options{URL: s.url, Token: token, Dir: dir}); err != nil {
		t.Errorf("the same machine again: %v", err)
	}
}

func TestTokenUses(t *testing.T) {
	s := newSite(t, nil)
	token := s.token(join.TokenOptions{Cluster: "c1", Uses: 3})
	var joined, used int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		dir := t.TempDir()
		all.Go(func() {
			_, err := join.Join(context.Background(), join.Options{URL: s.url, Token: token, Dir: dir})
			refused := new(join.RefusedError)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				joined++
			case errors.As(err, &refused) && refused.Reason == join.ReasonTokenUsed:
				used++
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if joined != 3 || used != 5 {
		t.Errorf("%d joined and %d refused, want 3 and 5", joined, used)
	}
}

func TestWrongSecretsDeleteToken(t *testing.T) {
	s := newSite(t, nil)
	token := s.token(join.TokenOptions{Cluster: "c1"})
	parts := strings.Split(token.Reveal(), ".")
	for i := range 10 {
		if all, err := s.Tokens(t.Context()); err != nil || len(all) != 1 {
			t.Fatalf("before attempt %d: %v, %v", i, all, err)
		}
		wrong, err := join.ParseToken(fmt.Sprintf("%s.%s.%s", parts[0], strings.Repeat(string(rune('b'+i)), 26),
			parts[2]))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := join.Join(t.Context(), join.Options{URL: s.url, Token: wrong, Dir: t.TempDir()}); err == nil {
			t.Fatal("joined with a wrong secret")
		}
	}
	if all, err := s.Tokens(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("after ten wrong secrets: %v, %v", all, err)
	}
}

func TestFolderOfOtherCluster(t *testing.T) {
	s := newSite(t, nil)
	dir, _ := s.join("c1")
	for _, o := range []join.Options{{}, {Cluster: "c2"}} {
		o.URL, o.Token, o.Dir = s.url, s.token(join.TokenOptions{Cluster: "c2"}), dir
		if _, err := join.Join(t.Context(), o); err == nil || !strings.Contains(err.Error(), `"c1"`) {
			t.Errorf("cluster %q: %v", o.Cluster, err)
		}
	}
	if cluster, err := join.ClusterIn(dir); err != nil || cluster != "c1" {
		t.Errorf("cluster %q, %v", cluster, err)
	}
}

func TestNoClientCertificate(t *testing.T) {
	s := newSite(t, nil)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, //nolint:gosec // a test
	}}
	for name, test := range map[string]struct {
		body   string
		header string
		code   int
	}{
		"nothing":      {"", "", http.StatusBadRequest},
		"not a token":  {"x", "Bearer x", http.StatusUnauthorized},
		"large body":   {strings.Repeat("x", 17<<10), "Bearer x", http.StatusBadRequest},
		"basic":        {"x", "Basic eDp5", http.StatusBadRequest},
		"large header": {"x", "Bearer " + strings.Repeat("x", 20<<10), http.StatusRequestHeaderFieldsTooLarge},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/join/v1/certificates",
			strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		if test.header != "" {
			r.Header.Set("Authorization", test.header)
		}
		response, err := client.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_ = response.Body.Close()
		if response.StatusCode != test.code {
			t.Errorf("%s: status %d, want %d", name, response.StatusCode, test.code)
		}
	}
}

func TestServerOptions(t *testing.T) {
	s := newSite(t, nil)
	for want, change := range map[string]func(*join.ServerOptions){
		"Store is required": func(o *join.ServerOptions) { o.Store = nil },
		"CertFile, KeyFile": func(o *join.ServerOptions) { o.CAKeyFile = "" },
		"must be 1s":        func(o *join.ServerOptions) { o.Lifetime = time.Millisecond },
	} {
		o := s.options
		change(&o)
		if _, err := join.NewServer(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	o := s.options
	o.CertFile = filepath.Join(t.TempDir(), "missing")
	server, err := join.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Serve(t.Context(), listener); err == nil || !strings.Contains(err.Error(), o.CertFile) {
		t.Errorf("without its certificate: %v", err)
	}
	for _, o := range []join.TokenOptions{
		{}, {Cluster: "C1"}, {Cluster: "a/b"}, {Cluster: "system:open-cluster-management:c1:a"},
		{Cluster: strings.Repeat("a", 64)},
		{Cluster: "c1", Uses: -1}, {Cluster: "c1", Uses: 1001}, {Cluster: "c1", Lifetime: time.Millisecond},
		{Cluster: "c1", Lifetime: 31 * 24 * time.Hour},
	} {
		if _, err := s.CreateToken(t.Context(), o); !errors.Is(err, join.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestManyTokens checks that used and expired tokens make room, but not valid ones.
func TestManyTokens(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s := newSite(t, func(o *join.ServerOptions) { o.Clock = clock })
	used := s.token(join.TokenOptions{Cluster: "c0", Lifetime: 2 * time.Hour})
	if _, err := join.Join(t.Context(), join.Options{URL: s.url, Token: used, Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	for range 999 {
		s.token(join.TokenOptions{Cluster: "c1"})
	}
	s.token(join.TokenOptions{Cluster: "c1"}) // in place of the used one
	if _, err := s.CreateToken(t.Context(), join.TokenOptions{Cluster: "c1"}); !errors.Is(err, join.ErrInvalid) ||
		!strings.Contains(err.Error(), "there are 1000 valid tokens: delete some") {
		t.Errorf("with 1,000 valid tokens: %v", err)
	}
	clock.SetTime(clock.Now().Add(2 * time.Hour))
	s.token(join.TokenOptions{Cluster: "c1"})
	all, err := s.Tokens(t.Context())
	if err != nil || len(all) != 1000 {
		t.Errorf("%d tokens, %v", len(all), err)
	}
}
