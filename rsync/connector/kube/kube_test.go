// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, secure bool) *api {
	t.Helper()
	a := newAPI(secure)
	t.Cleanup(a.Close)
	return a
}

func open(t *testing.T, at kube.Cluster, options kube.Options) connector.Connector {
	t.Helper()
	connectors, err := kube.New(map[string]kube.Cluster{"*": at}, options)
	if err != nil {
		t.Fatal(err)
	}
	c, err := connectors.Connector(t.Context(), "edge", "c1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func configMap(name string) connector.Batch {
	return connector.Batch{Resources: []appcontext.Resource{{
		Object: appcontext.Object{Kind: "ConfigMap", Namespace: "shop", Name: name},
		Manifest: fmt.Appendf(nil,
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: shop}, data: {key: s3cr3t}}", name),
	}}}
}

func refused(t *testing.T, err, class error, text string) {
	t.Helper()
	var e *connector.Error
	if !errors.As(err, &e) || !errors.Is(connector.ClassOf(err), class) || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, want class %v and %q", err, class, text)
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), "s3cr3t") {
		t.Errorf("the error has content: %#v", err)
	}
}

// TestAnswers: error answers of API servers, and of gateways in front of them, have the right class
// and text.
func TestAnswers(t *testing.T) {
	details := func(field, kind, message string) map[string]any {
		return map[string]any{"causes": []any{map[string]any{"field": field, "reason": kind, "message": message}}}
	}
	text := func(code int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { http.Error(w, "s3cr3t", code) }
	}
	status := func(code int, reason metav1.StatusReason, message string, details map[string]any) func(
		http.ResponseWriter) {
		return func(w http.ResponseWriter) { reply(w, code, string(reason), message, details) }
	}
	for _, tt := range []struct {
		reason string
		answer func(http.ResponseWriter)
		class  error
		text   string
	}{
		{"nobody is behind the gateway", text(502), connector.ErrUnreachable, "gateway"},
		{"the same", text(503), connector.ErrUnreachable, "gateway"},
		{"the same", text(504), connector.ErrUnreachable, "gateway"},
		{"the server itself is overloaded", status(503, "ServiceUnavailable", "", nil), connector.ErrRetryable, "503"},
		{"etcd was slow", status(504, "Timeout", "", nil), connector.ErrRetryable, "504"},
		{"fairness", status(429, "TooManyRequests", "", map[string]any{"retryAfterSeconds": 1}), connector.ErrRetryable,
			"too many"},
		{"tokens rotate", status(401, "Unauthorized", "", nil), connector.ErrRetryable, "credentials"},
		{"rights do not come by waiting", status(403, "Forbidden", `User "a" cannot patch resource "configmaps"`, nil),
			connector.ErrTerminal, "cannot patch"},
		{"a webhook may quote", status(403, "Forbidden", `admission webhook "w" denied the request: s3cr3t`, nil),
			connector.ErrTerminal, "denied the request"},
		{"others may quote", status(400, "BadRequest", `found s3cr3t`, nil), connector.ErrTerminal, "not repeated"},
		{"it will be gone", status(403, "Forbidden", "", details("", "NamespaceTerminating", "")), connector.ErrRetryable,
			"being deleted"},
		{"it may come", status(404, "NotFound", "", map[string]any{"kind": "namespaces", "name": "shop"}),
			connector.ErrRetryable, "namespace does not exist"},
		{"fields of others",
			status(409, "Conflict", "", details(".data.key", "FieldManagerConflict", `conflict with "jane"`)),
			connector.ErrTerminal, `.data.key (conflict with "jane")`},
		{"a race", status(409, "Conflict", "", nil), connector.ErrRetryable, "same time"},
		{"a value is never told", status(422, "Invalid", "s3cr3t",
			details("data.x", "FieldValueInvalid", "Invalid value: s3cr3t")), connector.ErrTerminal, "data.x: Invalid"},
		{"what is missing is", status(422, "Invalid", "", details("spec.a", "FieldValueRequired", "Required value: say it")),
			connector.ErrTerminal, "Required value: say it"},
		{"too large", status(413, "RequestEntityTooLarge", "", nil), connector.ErrTerminal, "size"},
		{"etcd changes leaders", status(500, "", "etcdserver: leader changed", nil), connector.ErrRetryable, "500"},
		{"not a field", status(500, "", "failed to create typed patch object (a; v1): .spec.x: field not declared in schema",
			nil), connector.ErrTerminal, "no field .spec.x"},
		{"a webhook is down", status(500, "InternalError", `failed calling webhook "w": s3cr3t`, nil), connector.ErrRetryable,
			`webhook "w"`},
		{"credentials go nowhere else", func(w http.ResponseWriter) {
			w.Header().Set("Location", "/else")
			w.WriteHeader(
				307)
		}, connector.ErrTerminal, "redirect"},
		{"the connection breaks", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, connector.ErrUnreachable,
			"no connection"},
	} {
		t.Run(tt.reason+" "+tt.text, func(t *testing.T) {
			a := start(t, false)
			c := open(t, kube.Cluster{Config: a.config()}, kube.Options{})
			a.respond(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPatch {
					tt.answer(w)
				}
				return r.Method == http.MethodPatch
			})
			err := c.Apply(t.Context(), configMap("a"))
			refused(t, err, tt.class, tt.text)
			if !strings.Contains(err.Error(), "ConfigMap shop/a") {
				t.Errorf("%v does not name the object", err)
			}
		})
	}
}

// TestNetwork: no server answers, its certificate is not trusted, or it does not answer in time.
func TestNetwork(t *testing.T) {
	closed := newAPI(false)
	closed.Close()
	secure := start(t, true)
	hangs := start(t, false)
	hangs.respond(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true })
	for name, tt := range map[string]struct {
		config  *rest.Config
		text    string
		timeout time.Duration // zero for the default, which even a busy machine does not exceed
	}{
		"refused":     {closed.config(), "no connection", 0},
		"not trusted": {secure.config(), "cannot be verified", 0},
		"not TLS":     {&rest.Config{Host: "https://" + strings.TrimPrefix(hangs.URL, "http://")}, "no connection", 0},
		"hangs":       {hangs.config(), "in time", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, kube.Cluster{Config: tt.config}, kube.Options{Timeout: tt.timeout})
			_, getErr := c.Get(t.Context(), configMap("a"))
			for _, err := range []error{c.Apply(t.Context(), configMap("a")), c.Delete(t.Context(), configMap("a")), getErr,
				c.Probe(t.Context())} {
				refused(t, err, connector.ErrUnreachable, tt.text)
			}
		})
	}
}

// TestProbe: Probe succeeds with any answer except that the server is not ready. Until the server
// is ready, a forbidden call is retryable.
func TestProbe(t *testing.T) {
	a := start(t, false)
	c := open(t, kube.Cluster{Config: a.config()}, kube.Options{})
	code := func(ready, apply int) {
		a.respond(func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case r.URL.Path == "/readyz":
				w.WriteHeader(ready)
			case r.Method == http.MethodPatch:
				reply(w, apply, "Forbidden", "", nil)
			default:
				return false
			}
			return true
		})
	}
	for _, answer := range []int{200, 401, 403, 404, 429} {
		code(answer, 403)
		if err := c.Probe(t.Context()); err != nil {
			t.Errorf("Probe where /readyz is %d: %v", answer, err)
		}
	}
	refused(t, c.Apply(t.Context(), configMap("a")), connector.ErrTerminal, "forbidden")
	code(500, 403)
	refused(t, c.Probe(t.Context()), connector.ErrUnreachable, "not ready")
	refused(t, c.Apply(t.Context(), configMap("a")), connector.ErrRetryable, "starting")
}

// TestReload: the configuration is read again after the server has refused its credentials.
func TestReload(t *testing.T) {
	a := start(t, false)
	a.respond(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer new" {
			return false
		}
		reply(w, http.StatusUnauthorized, "Unauthorized", "", nil)
		return true
	})
	token := "old"
	c := open(t, kube.Cluster{Load: func(context.Context, appcontext.ClusterID) (*rest.Config, error) {
		return &rest.Config{Host: a.URL, BearerToken: token}, nil
	}}, kube.Options{})
	refused(t, c.Apply(t.Context(), configMap("a")), connector.ErrRetryable, "credentials")
	token = "new"
	if err := c.Apply(t.Context(), configMap("a")); err != nil {
		t.Error(err)
	}
}

// TestKubeconfigs: the error has the problem, and never the content of the file.
func TestKubeconfigs(t *testing.T) {
	dir := t.TempDir()
	const good = `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}],
		clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: u, user: {token: s3cr3t}}]}`
	for name, tt := range map[string]struct{ content, context, text string }{
		"no kubeconfig":   {"{s3cr3t", "", "is not a kubeconfig"},
		"another kind":    {"{token: s3cr3t}", "", "no current context"},
		"no such context": {good, "b", `has no context "b"`},
		"no such user":    {strings.Replace(good, "user: u}", "user: x}", 1), "", `no user "x"`},
		"no such cluster": {strings.Replace(good, "cluster: c,", "cluster: x,", 1), "", `no cluster "x"`},
	} {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if err := os.WriteFile(file, []byte(tt.content), 0o600); err != nil {
			t.Fatal(err)
		}
		c := open(t, kube.Cluster{Kubeconfig: file, Context: tt.context}, kube.Options{})
		refused(t, c.Apply(t.Context(), configMap("a")), connector.ErrTerminal, tt.text)
		refused(t, c.Probe(t.Context()), connector.ErrTerminal, tt.text)
	}
	if err := os.WriteFile(filepath.Join(dir, "c1.kubeconfig"), []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, open(t, kube.Cluster{Load: kube.Directory(dir)}, kube.Options{}).Probe(t.Context()),
		connector.ErrUnreachable, "no connection")
	_, err := kube.Directory(dir)(t.Context(), appcontext.ClusterID{Provider: "edge", Name: "../c1"})
	refused(t, err, connector.ErrTerminal, "cannot be that of a file")
}

func TestInvalid(t *testing.T) {
	config := &rest.Config{Host: "https://127.0.0.1:1"}
	for name, tt := range map[string]struct {
		key     string
		at      kube.Cluster
		options kube.Options
	}{
		"key":         {"edge", kube.Cluster{Config: config}, kube.Options{}},
		"no way":      {"*", kube.Cluster{}, kube.Options{}},
		"two ways":    {"*", kube.Cluster{Config: config, Kubeconfig: "x"}, kube.Options{}},
		"context":     {"*", kube.Cluster{Config: config, Context: "x"}, kube.Options{}},
		"propagation": {"*", kube.Cluster{Config: config}, kube.Options{Propagation: "Sideways"}},
		"negative":    {"*", kube.Cluster{Config: config}, kube.Options{QPS: -1}},
		"no host":     {"*", kube.Cluster{Config: &rest.Config{}}, kube.Options{}},
		"watches":     {"*", kube.Cluster{Config: config}, kube.Options{MaxWatches: -1}},
		"manager":     {"*", kube.Cluster{Config: config}, kube.Options{FieldManager: "a\nb"}},
	} {
		if _, err := kube.New(map[string]kube.Cluster{tt.key: tt.at}, tt.options); !errors.Is(err, kube.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRequests: an object needs one request, and kinds are requested once.
func TestRequests(t *testing.T) {
	a := start(t, false)
	c := open(t, kube.Cluster{Config: a.config()}, kube.Options{})
	for _, name := range []string{"a", "b"} {
		if err := c.Apply(t.Context(), configMap(name)); err != nil {
			t.Fatal(err)
		}
	}
	const maps = "/api/v1/namespaces/shop/configmaps"
	want := []string{"GET /api/v1", "PATCH " + maps + "/a", "PATCH " + maps + "/b"}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.seen, want) {
		t.Errorf("requests are %v, want %v", a.seen, want)
	}
}
