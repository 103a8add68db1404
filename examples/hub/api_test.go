// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

func TestCommandLine(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"--help"}, &stdout, &stderr); status != 0 || stdout.String() != usage {
		t.Errorf("%d, %s", status, stdout.String())
	}
	commandtest.Usage(t, usage, "broker", "broker-ca", "broker-cert", "broker-key", "username", "password-file", "source",
		"dir", "listen", "tls-cert", "tls-key", "token-auth-file", "user-ca", "proxy-ca", "proxy-name", "editor-group",
		"viewer-group", "allowed-host", "leave-dir", "kubeconfig", "store", "revisions", "patience", "log-format")
	commandtest.Refuses(t, parse, map[string]string{
		"--source hub":                          "--broker or --grpc is required",
		"--broker mqtt://x --dir=":              "--dir must not be empty",
		"--broker mqtt://x --patience 0":        "--patience must be more than 0",
		"--broker mqtt://x --revisions 1":       "--revisions must be from 2 to 1000",
		"--broker mqtt://x --source a/b":        "--source: must not contain '/'",
		"--broker mqtt://x --dir d --leave-dir": "--leave-dir needs a hub without --dir",
		"--broker mqtt://x --listen 8080":       `--listen: "8080": must be host:port or :port`,
		"--broker mqtt://x --listen :8080":      "--listen :8080 can be reached from other machines: add --tls-cert",
		"--broker mqtt://x --listen 10.0.0.1:0 --tls-cert c --tls-key k --user-ca u": "add --allowed-host HOST",
		"--broker mqtt://x --allowed-host a:80":                                      "must be a name such as hub.example",
		"--broker mqtt://x more":                                                     `unknown argument "more"`,
	})
	stderr.Reset()
	if status := run(t.Context(), []string{"--broker", "ftp://x", "--store", t.TempDir()}, &stdout,
		&stderr); status != 2 || !strings.Contains(stderr.String(), "ftp") {
		t.Errorf("%d, %s", status, stderr.String())
	}
	stderr.Reset()
	args := []string{"--broker", "mqtts://127.0.0.1:1", "--broker-ca", "main.go", "--store",
		filepath.Join(t.TempDir(), "store")}
	if status := run(t.Context(), args, &stdout, &stderr); status != 2 ||
		!strings.Contains(stderr.String(), "--broker-ca main.go contains no certificate in PEM") {
		t.Errorf("%d, %s", status, stderr.String())
	}
}

// TestConnectionErrorIsLogged checks that the reason for a missing connection is logged once.
func TestConnectionErrorIsLogged(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stdout, stderr := &output{}, &output{}
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"--broker", "mqtt://127.0.0.1:1", "--listen", "127.0.0.1:0", "--store", t.TempDir()},
			stdout, stderr)
	}()
	const want = `"Failed to connect to the broker, trying again" client=hub err="connect to mqtt://127.0.0.1:1: `
	for end := time.Now().Add(patience); !strings.Contains(stderr.String(), want) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	if status := <-ended; status != 0 || strings.Count(stderr.String(), want) != 1 {
		t.Errorf("%d, %s, %s", status, stdout, stderr)
	}
}

// output collects the output of a hub. It can be read while the hub runs.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// TestStartRefuses checks that an invalid document ends the start of the hub with an error that
// names its position.
func TestStartRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ content, want string }{
		"malformed": {"a: [", "bad.yaml, document 1: invalid YAML"},
		"an unknown field": {cluster("c1", "") + "---\n" + header + "kind: Cluster\nmetadata: {name: c2, age: 7}\n",
			"bad.yaml, document 2: metadata.age: unknown field"},
		"an unknown cluster": {application("shop", "a=1") + "---\n" + placement("p", "shop", "names: [c9]"),
			`bad.yaml, document 2: spec.clusters.names[0]: there is no Cluster "c9"`},
		"an unknown app": {placement("p", "shop", all),
			`bad.yaml, document 1: spec.applications[0]: there is no Application "shop"`},
		"no template": {strings.Replace(application("shop", "a=1"), "{apiVersion", "{{ if }}{apiVersion", 1),
			"bad.yaml, document 1: spec.parts[0].manifests[0].template:"},
		"an object that no cluster takes": {
			strings.Replace(application("shop", "a=1"), "kind: ConfigMap", "kind: Frob<b>", 1) + "---\n" + cluster("c1", "") +
				"---\n" + placement("p", "shop", all),
			"bad.yaml, document 1: spec.parts[0].manifests[0].template: for the cluster c1: Frob<b> x/a: kind: Invalid value: " +
				"\"Frob<b>\": may have mixed case",
		},
		"objects without --kubeconfig": {
			strings.Replace(application("shop", "a=1"), "{apiVersion", `{{ fromSecret "a" "b" "c" }}{apiVersion`, 1) + "---\n" +
				cluster("c1", "") + "---\n" + placement("p", "shop", all),
			"no --kubeconfig",
		},
		"an object of two applications": {
			application("a", "x=1") + "---\n" + application("b", "x=2") + "---\n" + cluster("c1", "") + "---\n" +
				placement("p", "a, b", all),
			"bad.yaml, document 2: spec.parts: ConfigMap x/x is also in the application a, on the cluster c1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.options.Dir = t.TempDir()
			s.write("bad.yaml", tt.content)
			said := &lines{url: make(chan string, 1)}
			err := start(said.log(t.Context()), s.options, s.transport)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	s := newSite(t)
	s.options.Dir = "there-is-no-such-folder"
	if err := start((&lines{}).log(t.Context()), s.options, s.transport); err == nil ||
		!strings.Contains(err.Error(), s.options.Dir) {
		t.Errorf("%v", err)
	}
}

// TestAPIRefuses checks that each invalid request is answered with its status code and field, and
// changes nothing.
func TestAPIRefuses(t *testing.T) {
	s := newSite(t, "c1")
	s.start()
	s.must("PUT", "/api/v1/clusters/c1", cluster("c1", "a: b"))
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1"))
	s.must("PUT", "/api/v1/placements/p", placement("p", "shop", "names: [c1]"))
	s.status("shop")
	before := ""
	for end := time.Now().Add(patience); !strings.Contains(before, `"health":"Healthy"`); time.Sleep(
		5 * time.Millisecond) {
		if before = s.must("GET", "/api/v1/status", ""); time.Now().After(end) {
			t.Fatal(before)
		}
	}
	other := strings.Replace(application("other", "a=1"), "{apiVersion", "{{ .Cluster.Labels.zone }}{apiVersion", 1)
	for _, tt := range []struct {
		reason, method, path, body string
		code                       int
		field, text                string
	}{
		{"malformed", "PUT", "/api/v1/clusters/c2", "a: [", 400, "", "invalid YAML"},
		{"no document", "PUT", "/api/v1/clusters/c2", "", 400, "", "one document, not 0"},
		{"two documents", "PUT", "/api/v1/clusters/c2", cluster("c2", "") + "---\n" + cluster("c3", ""), 400, "",
			"one document, not 2"},
		{"an unknown field", "PUT", "/api/v1/clusters/c2", header + "kind: Cluster\nmetadata: {name: c2}\nspec: {}\n", 400,
			"spec", "unknown field"},
		{"a key twice", "PUT", "/api/v1/placements/q",
			placement("q", "shop",
				"names: [c1], selector: {matchExpressions: [{key: a, operator: Exists}, {key: a, operator: Exists, key: b}]}"), 400,
			"spec.clusters.selector.matchExpressions[1].key", `key "key" already set`},
		{"a key twice in JSON", "PUT", "/api/v1/clusters/c2",
			`{"apiVersion": "hub.spokewire.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "c2", "labels": {"a/b": "c", "a/b": "d"}}}`, 400,
			"metadata.labels[a/b]", `key "a/b" already set`},
		{"another name", "PUT", "/api/v1/clusters/c2", cluster("c3", ""), 400, "metadata.name", `must be "c2"`},
		{"another kind", "PUT", "/api/v1/applications/c2", cluster("c2", ""), 400, "kind", "must be Application"},
		{"too large", "PUT", "/api/v1/clusters/c2", cluster("c2", "") + strings.Repeat("# 345678\n", document.MaxBytes/9+1),
			413, "", "more than 1048576 bytes"},
		{"an unknown cluster", "PUT", "/api/v1/placements/q", placement("q", "shop", "names: [c1, c9]"), 422,
			"spec.clusters.names[1]", `no Cluster "c9"`},
		{"an unknown application", "PUT", "/api/v1/placements/q", placement("q", "stop", all), 422, "spec.applications[0]",
			`no Application "stop"`},
		{"a cluster that is placed on", "DELETE", "/api/v1/clusters/c1", "", 422, "spec.clusters.names[0]", "Placement p"},
		{"a template that is none", "PUT", "/api/v1/applications/other", strings.Replace(other, ".Cluster", "if", 1), 422,
			"spec.parts[0].manifests[0].template", ""},
		{"a template without end", "PUT", "/api/v1/applications/shop",
			strings.Replace(application("shop", "a=1"), "{apiVersion", "{{ range 1000000000000 }}{{ end }}{apiVersion", 1), 422,
			"spec.parts[0].manifests[0].template", "for the cluster c1: line 1: more than"},
		{"no such cluster", "GET", "/api/v1/clusters/c9", "", 404, "", "no Cluster"},
		{"no such cluster to delete", "DELETE", "/api/v1/clusters/c9", "", 404, "", "Cluster c9: not found"},
		{"no such application", "GET", "/api/v1/applications/other/status", "", 404, "", "other"},
		{"no such kind", "GET", "/api/v1/nodes/c1", "", 404, "", "no kind"},
		{"no such path", "POST", "/api/v2/nodes", "", 404, "", "/api/v2/nodes"},
		{"no such method", "PATCH", "/api/v1/clusters/c1", "", 405, "", "does not support PATCH"},
		{"no such method and kind", "PATCH", "/api/v1/nodes/c1", "", 404, "", "PATCH"},
		{"a cluster with our name", "PUT", "/api/v1/clusters/hub", cluster("hub", ""), 422, "metadata.name", "--source"},
		{"no such cluster to forget", "POST", "/api/v1/clusters/c9/forget", "", 404, "", "is awaited: not found"},
		{"no cluster to forget", "POST", "/api/v1/clusters/a%2Fb/forget", "", 404, "", "a/b"},
		{"a rollback of nothing", "POST", "/api/v1/applications/other/rollback", "", 404, "",
			"the application other: not found"},
		{"a rollback to nothing", "POST", "/api/v1/applications/shop/rollback", "", 409, "", "no earlier revision"},
		{"a rollback to nowhere", "POST", "/api/v1/applications/shop/rollback", `{"revision": 7}`, 404, "",
			"revision 7 of the application shop: not found"},
		{"a rollback that is none", "POST", "/api/v1/applications/shop/rollback", `{"revison": 7}`, 400, "revision",
			"number"},
		{"a rollback in capitals", "POST", "/api/v1/applications/shop/rollback", `{"Revision": 1}`, 400, "revision",
			"number"},
		{"a rollback and more", "POST", "/api/v1/applications/shop/rollback", `{"revision": 1} {}`, 400, "revision",
			"number"},
		{"a time that is none", "GET", "/api/v1/applications/shop/status?wait=long", "", 400, "", "30s"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			code, text := s.call(tt.method, tt.path, tt.body)
			var got struct{ Error, Field string }
			if err := json.Unmarshal([]byte(text), &got); err != nil || code != tt.code || got.Field != tt.field ||
				!strings.Contains(got.Error, tt.text) {
				t.Errorf("%d %s, want %d, %q, %q", code, text, tt.code, tt.field, tt.text)
			}
		})
	}
	// A template that fails for a cluster is accepted while its application is on no cluster. A
	// placement on the cluster is refused.
	s.must("PUT", "/api/v1/applications/other", other)
	if code, text := s.call("PUT", "/api/v1/placements/q", placement("q", "other", all)); code != 422 ||
		!strings.Contains(text, `zone`) {
		t.Errorf("%d %s", code, text)
	}
	s.must("DELETE", "/api/v1/applications/other", "")
	s.gone("other")
	heard := regexp.MustCompile(`,"(lastHeard|since|accepted)":"[^"]*"`)
	if after := s.must("GET", "/api/v1/status", ""); heard.ReplaceAllString(after, "") != heard.ReplaceAllString(before,
		"") {
		t.Errorf("before %s\nafter %s", before, after)
	}
	s.objects("c1", `x/a={"v":"1"}`)
	if text := s.must("GET", "/api/v1/applications/shop/status", ""); !strings.Contains(text,
		`"revisions":[{"application":"shop","number":1,"cause":`) || strings.Contains(text, "digest") ||
		strings.Contains(text, "content") {
		t.Errorf("it has hashes of what may be a Secret, or lacks its revision: %s", text)
	}
	if list := s.must("GET", "/api/v1/clusters",
		""); list != `[{"apiVersion":"hub.spokewire.io/v1alpha1","kind":"Cluster","metadata":{"labels":{"a":"b"},"name":"c1"}}]`+"\n" {
		t.Errorf("%s", list)
	}
}

// TestMethods checks that a request with an unsupported method is answered with the supported
// methods.
func TestMethods(t *testing.T) {
	for _, folder := range []bool{false, true} {
		s := newSite(t)
		changes := ", PUT, DELETE"
		if folder {
			s.options.Dir = t.TempDir()
			s.write("a.yaml", cluster("c1", ""))
			changes = ""
		}
		s.start()
		for path, want := range map[string]string{
			"/api/v1/clusters": "GET, HEAD", "/api/v1/clusters/c1": "GET, HEAD" + changes, "/api/v1/status": "GET, HEAD",
			"/api/v1/applications/a/status":   "GET, HEAD",
			"/api/v1/applications/a/rollback": "DELETE, POST", "/api/v1/clusters/c1/forget": "POST",
		} {
			for _, method := range []string{"GET", "PUT", "DELETE", "POST", "PATCH", "OPTIONS"} {
				r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				s.login(r)
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
				if taken := strings.Contains(want, method); taken == (answer.StatusCode == http.StatusMethodNotAllowed) || !taken &&
					answer.Header.Get("Allow") != want {
					t.Errorf("%s %s: %s, Allow: %q, want %q", method, path, answer.Status, answer.Header.Get("Allow"), want)
				}
			}
		}
		http.DefaultClient.CloseIdleConnections()
		s.stop()
	}
}

// TestEndpoints checks that the page, the metrics and the probes are served, and that pages of other
// origins cannot make changes.
func TestEndpoints(t *testing.T) {
	s := newSite(t, "c1")
	s.start()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) { // it serves before the broker responds
		code, text := s.call("GET", "/readyz", "")
		if code == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatal(text)
		}
	}
	for path, want := range map[string]string{
		"/": "<title>", "/healthz": "ok", "/readyz": "ok", "/metrics": "spokewire_rsync_running_contexts",
	} {
		if text := s.must("GET", path, ""); !strings.Contains(text, want) {
			t.Errorf("%s: %.200s, want %s in it", path, text, want)
		}
	}
	metrics := s.must("GET", "/metrics", "")
	for _, name := range []string{"spokewire_hub_documents_refused 0", "spokewire_interpreter_caller_webhooks",
		"spokewire_cloudevents_", "go_goroutines", "process_open_fds"} {
		if !strings.Contains(metrics, name) {
			t.Errorf("there is no metric %s", name)
		}
	}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.url+"/api/v1/applications/shop/rollback",
		http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", "https://elsewhere.example.com")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if text := errorIn(t, answer); answer.StatusCode != http.StatusForbidden || !strings.Contains(text, "another origin") {
		t.Errorf("a page of others gets %s: %q", answer.Status, text)
	}
	http.DefaultClient.CloseIdleConnections()
	// The same applies to foreign host names that resolve to the hub, because a browser would treat
	// their pages as same-origin.
	for host, want := range map[string]int{"elsewhere.example.com:8080": 421, "192.0.2.1": 421, "localhost": 200,
		"localhost:8080": 200, "[::1]:8080": 200} {
		for _, path := range []string{"/", "/api/v1/status", "/metrics"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if api := strings.HasPrefix(path, "/api/"); answer.StatusCode != want || api && want != 200 &&
				!strings.Contains(errorIn(t, answer), "--allowed-host") {
				t.Errorf("%s of %s: %s, want %d", path, host, answer.Status, want)
			}
			answer.Body.Close()
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestAllowedHost checks that a hub that other machines reach serves the page and the API only for
// the allowed hosts. Probes may use any address.
func TestAllowedHost(t *testing.T) {
	s := newSite(t)
	s.options.Listen, s.options.AllowedHosts = "0.0.0.0:0", []string{"hub.example.com"}
	s.start()
	for host, want := range map[string]int{"elsewhere.example.com": 421, "192.0.2.1:8080": 421, "hub.example.com": 200,
		"hub.example.com:8080": 200, "localhost": 200} {
		for _, path := range []string{"/", "/api/v1/status", "/metrics", "/healthz"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			s.login(r)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if want := want; answer.StatusCode != want &&
				(path != "/metrics" && path != "/healthz" || answer.StatusCode != http.StatusOK) {
				t.Errorf("%s of %s: %s, want %d", path, host, answer.Status, want)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestLimitOfWaitingRequests checks that requests that wait for an application do not block other
// requests.
func TestLimitOfWaitingRequests(t *testing.T) {
	s := newSite(t)
	s.start()
	s.must("PUT", "/api/v1/clusters/c1", header+"kind: Cluster\nmetadata: {name: c1}\n")
	// No agent reports the first part as ready, so the second part is not applied and the
	// application does not settle.
	s.must("PUT", "/api/v1/applications/a", application("a", "m=1")+
		"  - name: second\n    dependsOn: [{part: main}]\n    manifests:\n    - template: '{apiVersion: v1, kind: "+
		"ConfigMap, metadata: {name: second, namespace: x}}'\n")
	s.must("PUT", "/api/v1/placements/p", placement("p", "a", all))
	ctx, cancel := context.WithCancel(t.Context())
	status := func(ctx context.Context, query string) int {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/api/v1/applications/a/status"+query, http.NoBody)
		if err != nil {
			t.Error(err)
			return 0
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	var waiting sync.WaitGroup
	for range 100 {
		waiting.Go(func() {
			for ctx.Err() == nil { // a wait may end early while the rollout begins
				status(ctx, "?wait=10m")
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	for end := time.Now().Add(patience); status(t.Context(), "?wait=1ms") != http.StatusServiceUnavailable; time.Sleep(
		5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Error("another request may wait")
			break
		}
	}
	if got := status(t.Context(), ""); got != http.StatusOK {
		t.Errorf("a request that does not wait: %d", got)
	}
	cancel()
	waiting.Wait()
	http.DefaultClient.CloseIdleConnections()
}

// errorIn returns the error of an API response.
func errorIn(t *testing.T, answer *http.Response) string {
	t.Helper()
	defer answer.Body.Close()
	var body struct{ Error string }
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil ||
		answer.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s: %v", answer.Status, answer.Header.Get("Content-Type"), err)
	}
	return body.Error
}
