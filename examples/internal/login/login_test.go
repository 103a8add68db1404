// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package login_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/examples/internal/login"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// site is a server with all kinds of logins.
type site struct {
	t                            *testing.T
	users, agents, proxies, host *certtest.Authority
	options                      login.Options
	folder, url                  string
	log                          *lines
	recorded                     chan login.Change
}

// lines is the log of a site.
type lines struct {
	daemon.Log
	seen int
}

// take returns the lines of the log since the last call.
func (l *lines) take() string {
	all := l.String()
	defer func() { l.seen = len(all) }()
	return all[l.seen:]
}

const (
	editor, viewer, stranger = "secret-of-ed", "secret-of-vi", "secret-of-st"
	tokens                   = editor + `,ed,1,"staff,editors"` + "\n" + viewer + ",vi,2,viewers\n" + stranger + ",st,3\n"
)

func newSite(t *testing.T, anonymous bool) *site {
	t.Helper()
	s := &site{t: t, users: certtest.New(t), agents: certtest.New(t), proxies: certtest.New(t), host: certtest.New(t),
		folder: t.TempDir(), log: &lines{}, recorded: make(chan login.Change, 100)}
	s.options = login.Options{
		UserCAFile: s.users.Write(t, s.folder, "users"), ProxyCAFile: s.proxies.Write(t, s.folder, "proxies"),
		TokenFile: filepath.Join(s.folder, "tokens.csv"), AdminFile: filepath.Join(s.folder, "admin.token"),
		ProxyNames: []string{"proxy"}, Editors: []string{"editors"}, Viewers: []string{"viewers"},
		OtherCAFiles: []string{s.agents.Write(t, s.folder, "agents")},
	}
	s.options.CertFile, s.options.KeyFile = s.host.Issue(t, "host").Write(t, s.folder, "host")
	s.write(s.options.TokenFile, tokens)
	if err := s.options.CreateAdmin(); err != nil {
		t.Fatal(err)
	}
	if err := s.options.CheckFiles(); err != nil {
		t.Fatal(err)
	}
	l := login.New(login.Server{
		Options: s.options, AnonymousReads: anonymous, Log: logging.New(s.log, logging.Options{}),
		FromReplica: func(r *http.Request) bool { return r.Header.Get("Replica") == "secret" },
		Refuse: func(w http.ResponseWriter, _ *http.Request, code int, problem string) {
			http.Error(w, problem, code)
		},
		Record: func(_ context.Context, c login.Change) { s.recorded <- c },
	})
	server := httptest.NewUnstartedServer(l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := "anonymous"
		if u, ok := request.UserFrom(r.Context()); ok {
			name = u.GetName()
		}
		for _, header := range []string{"Authorization", "X-Remote-User", "X-Remote-Group"} {
			if r.Header.Get(header) != "" {
				t.Errorf("the handler gets %s", header)
			}
		}
		if strings.HasSuffix(r.URL.Path, "/wrong") {
			login.Explain(r.Context(), "wrong")
			w.WriteHeader(http.StatusConflict)
			return
		}
		login.Describe(r.Context(), "pause")
		fmt.Fprint(w, name, " ", l.MayEdit(r))
	})))
	server.TLS = s.options.TLS()
	server.StartTLS()
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *site) write(file, content string) {
	s.t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// do sends a request over a connection with a certificate, or nil. Headers are NAME: VALUE.
func (s *site) do(method, path string, id *certtest.Identity, headers ...string) (int, string, http.Header) {
	s.t.Helper()
	config := &tls.Config{RootCAs: s.host.Pool()}
	if id != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &id.Certificate, nil
		}
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader("a secret body"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, strings.TrimSpace(string(body)), answer.Header
}

func basic(user, password string) string {
	r := &http.Request{Header: http.Header{}}
	r.SetBasicAuth(user, password)
	return "Authorization: " + r.Header.Get("Authorization")
}

// TestLogins tries each kind of login, right and wrong, with a read and a change.
func TestLogins(t *testing.T) {
	s := newSite(t, false)
	admin, err := os.ReadFile(s.options.AdminFile)
	if err != nil {
		t.Fatal(err)
	}
	proxy := s.proxies.Issue(t, "proxy")
	for _, row := range []struct {
		reason       string
		id           *certtest.Identity
		headers      []string
		read, change int
		text         string // of the answer to the read
	}{
		{"no login", nil, nil, 401, 401, "a login is required"},
		{"an editor", nil, []string{"Authorization: Bearer " + editor}, 200, 200, "ed true"},
		{"a viewer", nil, []string{"Authorization: Bearer " + viewer}, 200, 403, "vi false"},
		{"no role", nil, []string{"Authorization: Bearer " + stranger}, 403, 403, `user "st" has no role`},
		{"the admin", nil, []string{"Authorization: Bearer " + strings.TrimSpace(string(admin))}, 200, 200, "admin true"},
		{"an unknown token", nil, []string{"Authorization: Bearer unknown"}, 401, 401, "invalid bearer token"},
		{"an empty token", nil, []string{"Authorization: Bearer "}, 401, 401, "must have a bearer token"},
		{"another scheme", nil, []string{"Authorization: Digest " + editor}, 401, 401, "must have a bearer token"},
		{"two headers", nil, []string{"Authorization: Bearer " + viewer, "Authorization: Bearer " + editor}, 401, 401,
			"more than one header Authorization"},
		{"a browser", nil, []string{basic("any", editor)}, 200, 200, "ed true"},
		{"a wrong password", nil, []string{basic("ed", "wrong")}, 401, 401, "invalid bearer token"},
		{"no password", nil, []string{basic(editor, "")}, 401, 401, "must have a bearer token"},
		{"a certificate", s.users.IssueFor(t, "uma", "editors"), nil, 200, 200, "uma true"},
		{"a certificate of a viewer", s.users.IssueFor(t, "vera", "viewers"), nil, 200, 403, "vera false"},
		{"a certificate without groups", s.users.Issue(t, "sam"), nil, 403, 403, "no role"},
		{"an agent", s.agents.IssueFor(t, "cluster1", "editors"), nil, 401, 401, "unknown authority"},
		{"an expired certificate", s.users.IssueUntil(t, "uma", time.Now().Add(-time.Minute)), nil, 401, 401, "has expired"},
		{"the proxy", proxy, []string{"X-Remote-User: pat", "X-Remote-Group: staff", "X-Remote-Group: editors"}, 200, 200,
			"pat true"},
		{"the proxy for a viewer", proxy, []string{"X-Remote-User: pat", "X-Remote-Group: viewers"}, 200, 403, "pat false"},
		{"the proxy without a user", proxy, nil, 401, 401, "unknown authority"},
		{"the proxy with two users", proxy, []string{"X-Remote-User: pat", "X-Remote-User: eve", "X-Remote-Group: editors"},
			401, 401, "more than one header X-Remote-User"},
		{"a long name", proxy, []string{"X-Remote-User: " + strings.Repeat("x", 300), "X-Remote-Group: editors"}, 401, 401,
			"256 bytes"},
		{"another certificate of the proxy's CA", s.proxies.Issue(t, "other"),
			[]string{"X-Remote-User: pat", "X-Remote-Group: editors"}, 401, 401, "not in the allowed list"},
		{"forged headers", nil, []string{"X-Remote-User: pat", "X-Remote-Group: editors"}, 401, 401, "a login is required"},
		{"a user with forged headers", s.users.IssueFor(t, "vera", "viewers"),
			[]string{"X-Remote-User: pat", "X-Remote-Group: editors"}, 200, 403, "vera false"},
		{"an agent with forged headers", s.agents.Issue(t, "proxy"),
			[]string{"X-Remote-User: pat", "X-Remote-Group: editors"}, 401, 401, "unknown authority"},
		{"a replica", nil,
			[]string{"Replica: secret", "X-Remote-User: pat", "X-Remote-Group: editors"}, 200, 200, "pat true"},
		{"a replica without a user", nil, []string{"Replica: secret"}, 401, 401, "a login is required"},
		{"a forged replica", nil, []string{"Replica: other", "X-Remote-User: pat", "X-Remote-Group: editors"}, 401, 401,
			"a login is required"},
	} {
		code, text, header := s.do(http.MethodGet, "/", row.id, row.headers...)
		if code != row.read || !strings.Contains(text, row.text) {
			t.Errorf("%s reads: %d %s, want %d %s", row.reason, code, text, row.read, row.text)
		}
		if challenge := strings.Join(header.Values("WWW-Authenticate"), ", "); (code == 401) !=
			strings.HasPrefix(challenge, "Bearer, Basic realm=") {
			t.Errorf("%s: %d, WWW-Authenticate: %s", row.reason, code, challenge)
		}
		if code, text, _ := s.do(http.MethodPost, "/", row.id, row.headers...); code != row.change {
			t.Errorf("%s changes: %d %s, want %d", row.reason, code, text, row.change)
		}
	}
}

// TestAnonymousReads checks that a server of this machine can be read without a login, but not with a
// wrong one, and that changes need a login.
func TestAnonymousReads(t *testing.T) {
	s := newSite(t, true)
	for _, row := range []struct {
		method, path string
		headers      []string
		want         int
	}{
		{"GET", "/", nil, 200}, {"HEAD", "/", nil, 200}, {"POST", "/", nil, 401}, {"PUT", "/", nil, 401},
		{"DELETE", "/", nil, 401}, {"PATCH", "/", nil, 401}, {"OTHER", "/", nil, 401},
		{"GET", "/", []string{"Authorization: Bearer unknown"}, 401},
		{"GET", "/", []string{"X-Remote-User: pat", "X-Remote-Group: editors"}, 200}, // as anonymous
		{"GET", login.Path, nil, 401}, {"GET", login.Path, []string{basic("", viewer)}, 303},
	} {
		code, text, header := s.do(row.method, row.path, nil, row.headers...)
		if cached := header.Get("Cache-Control"); code == 200 && cached != "private, no-cache" {
			t.Errorf("%s: other users get the answer of a shared cache: %q", row.method, cached)
		}
		if code != row.want || code == 200 && row.method == "GET" && text != "anonymous false" {
			t.Errorf("%s %s %v: %d %s, want %d", row.method, row.path, row.headers, code, text, row.want)
		}
	}
}

// TestOtherOrigins checks that a page of another site changes nothing, although the browser sends the
// login of its user.
func TestOtherOrigins(t *testing.T) {
	s := newSite(t, false)
	id := s.users.IssueFor(t, "uma", "editors")
	for _, header := range []string{"Origin: https://evil.example.com", "Sec-Fetch-Site: cross-site", "Origin: null"} {
		for _, login := range []*certtest.Identity{id, nil} {
			code, text, _ := s.do("POST", "/", login, header, basic("", editor))
			if code != http.StatusForbidden || !strings.Contains(text, "another origin") {
				t.Errorf("%s: %d %s", header, code, text)
			}
		}
	}
	if code, text, _ := s.do("POST", "/", id, "Origin: "+s.url); code != http.StatusOK {
		t.Errorf("the own page: %d %s", code, text)
	}
}

// TestFilesAreReadAgain checks that a removed token, and certificates of a replaced CA, are refused at
// once.
func TestFilesAreReadAgain(t *testing.T) {
	s := newSite(t, false)
	was := s.users.IssueFor(t, "uma", "editors")
	expect := func(reason string, id *certtest.Identity, token string, want int) {
		t.Helper()
		var headers []string
		if token != "" {
			headers = []string{"Authorization: Bearer " + token}
		}
		if code, text, _ := s.do("POST", "/", id, headers...); code != want {
			t.Errorf("%s: %d %s, want %d", reason, code, text, want)
		}
	}
	expect("a token", nil, editor, 200)
	s.write(s.options.TokenFile, "new,ed,1,editors\n")
	expect("a removed token", nil, editor, 401)
	expect("a new token", nil, "new", 200)
	if err := os.Remove(s.options.TokenFile); err != nil {
		t.Fatal(err)
	}
	expect("no tokens", nil, "new", 401)
	if log := s.log.take(); !strings.Contains(log, "--token-auth-file") || strings.Contains(log, "secret") {
		t.Errorf("the log is %s", log)
	}
	expect("a certificate", was, "", 200)
	s.write(s.options.UserCAFile, s.host.PEM)
	expect("a replaced CA", was, "", 401)
	expect("the new CA", s.host.IssueFor(t, "uma", "editors"), "", 200)
	s.write(s.options.UserCAFile, s.agents.PEM)
	expect("an agent, with its CA as that of users", s.agents.IssueFor(t, "cluster1", "editors"), "", 401)
	if log := s.log.take(); !strings.Contains(log, "agents could log in as users") {
		t.Errorf("the log is %s", log)
	}
	admin, err := os.ReadFile(s.options.AdminFile)
	if err != nil {
		t.Fatal(err)
	}
	expect("the admin", nil, strings.TrimSpace(string(admin)), 200)
	if err := os.Remove(s.options.AdminFile); err != nil {
		t.Fatal(err)
	}
	expect("no admin", nil, strings.TrimSpace(string(admin)), 401)
}

// TestManyTokens checks that a login does not parse all tokens again, because anyone can cause one.
func TestManyTokens(t *testing.T) {
	const users = 10_000
	var all strings.Builder
	for i := range users {
		fmt.Fprintf(&all, "token-%d,user-%d,%d,viewers\n", i, i, i)
	}
	file := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(file, []byte(all.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	l := login.New(login.Server{
		Options: login.Options{TokenFile: file, Viewers: []string{"viewers"}},
		Refuse:  func(w http.ResponseWriter, _ *http.Request, code int, _ string) { w.WriteHeader(code) },
	})
	handler := l.Handler(http.NotFoundHandler())
	allocations := testing.AllocsPerRun(3, func() {
		for token, want := range map[string]int{"wrong": 401, "token-9999": 404} {
			r, w := httptest.NewRequest(http.MethodGet, "/", http.NoBody), httptest.NewRecorder()
			r.Header.Set("Authorization", "Bearer "+token)
			if handler.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%s: %d, want %d", token, w.Code, want)
			}
		}
	})
	if allocations > users/10 {
		t.Errorf("two logins need %v allocations", allocations)
	}
}

// TestAudit checks that each change is logged once, with its user and result, and without its secrets.
func TestAudit(t *testing.T) {
	s := newSite(t, true)
	for _, row := range []struct {
		method, path, token, log string
		record                   string
	}{
		{"GET", "/api/v1/applications/shop", editor, "", ""},
		{"POST", "/api/v1/applications/shop/pause", editor, `msg="Accepted a change" user=ed groups="[staff editors ` +
			`system:authenticated]" method=POST path=/api/v1/applications/shop/pause status=200 application=shop`,
			"ed 200 pause "},
		{"DELETE", "/api/v1/clusters/c1/wrong", editor, `msg="Refused a change" user=ed groups="[staff editors ` +
			`system:authenticated]" method=DELETE path=/api/v1/clusters/c1/wrong status=409 cluster=c1`, "ed 409  wrong"},
		{"PUT", "/api/v1/clusters/c1", viewer, `msg="Refused a change" user=vi groups="[viewers system:authenticated]" ` +
			`method=PUT path=/api/v1/clusters/c1 status=403 cluster=c1`, ""},
		{"POST", "/api/v1/tokens?token=secret", "", `msg="Refused a change" user="" groups=[] method=POST ` +
			`path=/api/v1/tokens status=401`, ""},
	} {
		var headers []string
		if row.token != "" {
			headers = []string{"Authorization: Bearer " + row.token}
		}
		s.do(row.method, row.path, nil, headers...)
		log := strings.TrimSpace(s.log.take())
		_, log, _ = strings.Cut(log, "level=INFO ")
		if log != row.log || strings.Contains(log, "secret") {
			t.Errorf("%s %s logs\n%s, want\n%s", row.method, row.path, log, row.log)
		}
		record := ""
		select {
		case c := <-s.recorded:
			record = fmt.Sprint(c.User, " ", c.Code, " ", c.Details, " ", c.Problem)
		default:
		}
		if record != row.record {
			t.Errorf("%s %s records %q, want %q", row.method, row.path, record, row.record)
		}
	}
}
