// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/examples/internal/election"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/rsync/store/pgstore"
)

const viewerToken = "secret-of-vi"

// as sends a request with headers, NAME: VALUE, and nothing else that logs in.
func (s *site) as(method, path, body string, headers ...string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	client := http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.trusted}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	answer, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// useTokens lets an editor and a viewer log in.
func (s *site) useTokens() {
	s.t.Helper()
	s.options.Login.TokenFile = filepath.Join(s.t.TempDir(), "tokens.csv")
	s.file(s.options.Login.TokenFile, editorToken+",ann,1,hub-editors\n"+viewerToken+",vi,2,hub-viewers\n")
}

// TestViewerMakesNoChange tries each change as a viewer and without a login. The hub has the same state
// after that, and all reads work.
func TestViewerMakesNoChange(t *testing.T) {
	s := newSite(t, "c1")
	s.useTokens()
	s.start()
	s.must("PUT", "/api/v1/clusters/c1", cluster("c1", ""))
	s.must("PUT", "/api/v1/applications/a", application("a", "m=1"))
	s.must("PUT", "/api/v1/placements/p", placement("p", "a", all))
	if got := s.status("a"); got != "Synced Healthy 1" {
		t.Fatal(got)
	}
	documents := func() string { return s.must("GET", "/api/v1/applications", "") + s.must("GET", "/api/v1/history", "") }
	before := documents()
	for _, change := range []string{
		"PUT /api/v1/applications/a", "DELETE /api/v1/placements/p", "POST /api/v1/complete",
		"POST /api/v1/applications/a/rollback", "DELETE /api/v1/applications/a/rollback",
		"POST /api/v1/applications/a/approve", "POST /api/v1/applications/a/pause", "POST /api/v1/applications/a/resume",
		"POST /api/v1/applications/a/abort", "POST /api/v1/clusters/c1/forget", "POST /api/v1/clusters/c1/revoke",
		"POST /api/v1/tokens", "DELETE /api/v1/tokens/x", "POST /applications/a", "POST /", "PATCH /api/v1/applications/a",
	} {
		method, path, _ := strings.Cut(change, " ")
		if code, text := s.as(method, path, application("a", "m=2"), "Authorization: Bearer "+viewerToken); code != 403 ||
			!strings.Contains(text, "only members of hub-editors may") {
			t.Errorf("a viewer: %s: %d %s", change, code, text)
		}
		if code, text := s.as(method, path, application("a", "m=2")); code != 401 ||
			!strings.Contains(text, "a login is required") {
			t.Errorf("without a login: %s: %d %s", change, code, text)
		}
	}
	if after := documents(); after != before {
		t.Errorf("the state was\n%s, and is\n%s", before, after)
	}
	for _, path := range []string{"/", "/history", "/api/v1/status", "/api/v1/tokens"} {
		for _, header := range []string{"Accept: */*", "Authorization: Bearer " + viewerToken} {
			if code, text := s.as("GET", path, "", header); code != 200 && code != 409 { // without --join-listen
				t.Errorf("%s: %d %s", path, code, text)
			}
		}
	}
	info, err := os.Stat(s.tokenFile())
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestHistoryHasActions checks that the history has each action with its user, and refused documents, in
// the API, on the page, and after a restart.
func TestHistoryHasActions(t *testing.T) {
	s := newSite(t, "c1", "c2")
	s.useTokens()
	s.start()
	ann := func(method, path, body string, want int) {
		t.Helper()
		if code, text := s.as(method, path, body, "Authorization: Bearer "+editorToken); code != want {
			t.Fatalf("%s %s: %d %s", method, path, code, text)
		}
	}
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1"))
	s.place("shop", "c1", "c2")
	ann("PUT", "/api/v1/applications/shop", rolled(canary, "a=2"), 200)
	s.waitsAfterCanary()
	ann("POST", "/api/v1/applications/shop/pause", "", 202)
	ann("POST", "/api/v1/applications/shop/resume", "", 202)
	ann("POST", "/api/v1/applications/shop/approve", afterCanary, 202)
	if got := s.status("shop"); got != "Synced Healthy 2" {
		t.Fatal(got)
	}
	ann("POST", "/api/v1/applications/shop/rollback", `{"revision": 1}`, 202)
	ann("DELETE", "/api/v1/applications/shop/rollback", "", 202)
	ann("POST", "/applications/shop?do=pause", "", 409) // a page without the current revision
	ann("PUT", "/api/v1/placements/other", placement("other", "none", all), 422)
	ann("POST", "/api/v1/clusters/c9/forget", "", 404)
	for range 2 {
		var all []status.Revision
		if err := json.Unmarshal([]byte(s.must("GET", "/api/v1/history", "")), &all); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range slices.Backward(all) {
			if r.Created.IsZero() {
				t.Errorf("%+v has no time", r)
			}
			// Revision 3 exists if the rollback has begun before its end.
			if r.Number == 0 {
				got = append(got, strings.TrimSpace(strings.Join([]string{r.By, r.Application + r.Cluster, r.Cause}, " ")))
			} else if want := map[int]string{1: "admin", 2: "ann", 3: "ann"}[r.Number]; r.By != want {
				t.Errorf("revision %d is by %q, want %q", r.Number, r.By, want)
			}
		}
		want := []string{
			"ann shop pause", "ann shop resume", "ann shop approve After of canary", "ann shop rollback to 1",
			"ann shop release",
			"ann shop refused: pause: the application has changed since the page was shown: check the page, and try again",
			`ann  refused: put placements/other: Placement other: spec.applications[0]: there is no Application "none"`,
			`ann c9 refused: forget: no removed cluster "c9" is awaited: not found`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the history (-want +got):\n%s", diff)
		}
		for _, text := range []string{">ann</td>", ">approve After of canary</td>", ">c9</td>"} {
			if page := s.must("GET", "/history", ""); !strings.Contains(page, text) {
				t.Errorf("the page has no %s:\n%s", text, page)
			}
		}
		s.stop()
		s.start()
	}
}

// TestFoldersRefusalIsInHistory checks that refused documents of a folder are in the history, without a
// user.
func TestFoldersRefusalIsInHistory(t *testing.T) {
	s := newSite(t, "c1")
	s.options.Dir = t.TempDir()
	s.write("c1.yaml", cluster("c1", ""))
	s.start()
	s.write("c1.yaml", "a: [")
	eventually(t, "the refusal is in the history", func() bool {
		text := s.must("GET", "/api/v1/history", "")
		return strings.Contains(text, `"cause":"refused documents: `) && !strings.Contains(text, `"by"`)
	})
}

// TestFollowerForwardsUsers checks that a follower authenticates users, that the leader accepts their
// names only from replicas, and that only the leader logs an accepted change. All of it works over
// HTTP and HTTPS.
func TestFollowerForwardsUsers(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			one := newSite(t)
			one.options.Store = database(t)
			one.useTokens()
			if scheme == "https" {
				ca, folder := certtest.New(t), t.TempDir()
				one.trusted = ca.Pool()
				one.options.Login.CertFile, one.options.Login.KeyFile = ca.Issue(t, "hub").Write(t, folder, "hub")
			}
			two := &site{t: t, bus: one.bus, options: one.options, clusters: one.clusters, trusted: one.trusted}
			one.start()
			eventually(t, "the first replica leads",
				func() bool { return strings.Contains(one.said.String(), "Became the leader") })
			two.start()
			put := func(s *site, name string, headers ...string) (int, string) {
				t.Helper()
				return s.as("PUT", "/api/v1/clusters/"+name, cluster(name, ""), headers...)
			}
			eventually(t, "the follower forwards a change of an editor", func() bool {
				code, _ := put(two, "c1", "Authorization: Bearer "+editorToken)
				return code < 300
			})
			const accepted = `msg="Accepted a change" user=ann groups="[hub-editors system:authenticated]" method=PUT`
			if !strings.Contains(one.said.String(), accepted) || strings.Contains(two.said.String(), "Accepted a change") {
				t.Errorf("the leader logs\n%s\nand the follower\n%s", one.said, two.said)
			}
			secret, err := secretOf(t, one.options.Store)
			if err != nil || secret == "" {
				t.Fatal(secret, err)
			}
			forged := []string{"X-Remote-User: eve", "X-Remote-Group: hub-editors", "Spokewire-Forwarded: 1"}
			for reason, row := range map[string]struct {
				headers []string
				want    int
			}{
				"a viewer":                 {[]string{"Authorization: Bearer " + viewerToken}, 403},
				"no login":                 {nil, 401},
				"a forged user":            {forged, 401},
				"a forged secret":          {append(slices.Clone(forged), "Spokewire-Replica: x"), 401},
				"an empty secret":          {append(slices.Clone(forged), "Spokewire-Replica: "), 401},
				"a viewer's forged groups": {append(slices.Clone(forged), "Authorization: Bearer "+viewerToken), 403},
			} {
				for name, s := range map[string]*site{"leader": one, "follower": two} {
					if code, text := put(s, "c2", row.headers...); code != row.want {
						t.Errorf("%s at the %s: %d %s, want %d", reason, name, code, text, row.want)
					}
				}
			}
			if code, text := put(one, "c3", append(slices.Clone(forged), "Spokewire-Replica: "+secret)...); code >= 300 ||
				!strings.Contains(one.said.String(), `user=eve`) {
				t.Errorf("a replica: %d %s", code, text)
			}
			code, text := put(two, "c4", "Authorization: Bearer "+editorToken, "Spokewire-Forwarded: 1")
			if code != http.StatusServiceUnavailable || strings.Contains(two.said.String(), "Failed to record") {
				t.Errorf("a follower without a leader: %d %s, and it logs\n%s", code, text, two.said)
			}
			for _, s := range []*site{one, two} {
				if code, text := s.as("GET", "/leader", ""); code != http.StatusForbidden {
					t.Errorf("/leader without the secret: %d %s", code, text)
				}
				if log := s.said.String(); strings.Contains(log, secret) || strings.Contains(log, editorToken) {
					t.Error("the log has a secret")
				}
			}
		})
	}
}

func secretOf(t *testing.T, conn string) (string, error) {
	t.Helper()
	s, err := pgstore.Open(t.Context(), pgstore.Options{ConnString: conn, Name: "hub"})
	if err != nil {
		return "", err
	}
	defer func() { _ = s.Close() }()
	return election.Secret(t.Context(), s, secretKey)
}

// TestRemoteHubNeedsLogin checks a hub that other machines reach: page and API need a login over HTTPS,
// and probes and metrics do not.
func TestRemoteHubNeedsLogin(t *testing.T) {
	s, ca, folder := newSite(t), certtest.New(t), t.TempDir()
	s.useTokens()
	s.trusted = ca.Pool()
	s.options.Listen, s.options.AllowedHosts = "0.0.0.0:0", []string{"hub.example.com"}
	s.options.Login.CertFile, s.options.Login.KeyFile = ca.Issue(t, "hub", "localhost").Write(t, folder, "hub")
	s.start()
	for path, want := range map[string]int{"/": 401, "/page.css": 401, "/api/v1/status": 401, "/applications": 401,
		"/login": 401, "/healthz": 200, "/readyz": 200, "/metrics": 200} {
		if code, text := s.as("GET", path, ""); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, text, want)
		}
		if code, text := s.as("GET", path, "", "Authorization: Bearer "+viewerToken); code != 200 && path != "/login" {
			t.Errorf("%s of a viewer: %d %s", path, code, text)
		}
	}
	plain, err := http.Get(strings.Replace(s.url, "https", "http", 1)) //nolint:noctx
	if err == nil {
		plain.Body.Close()
		t.Errorf("HTTP: %s", plain.Status)
	}
	http.DefaultClient.CloseIdleConnections()
}
