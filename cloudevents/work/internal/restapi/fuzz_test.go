// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi_test

import (
	"context"
	"encoding/json"
	"io"
	"math/rand"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
)

type seed struct{ method, path, query, kind, accept, body string }

// seeds are requests of real clients: kubectl, informers, and controllers.
var seeds = []seed{
	{"GET", works, "limit=500", "", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", ""},
	{"GET", works + "/a", "", "", "application/json", ""},
	{"GET", works + "/a/status", "", "", "application/yaml", ""},
	{"GET", works, "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
		"", "", ""},
	{"GET", works, "watch=true&resourceVersion=1&labelSelector=a%3Db", "",
		"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", ""},
	{"GET", works, "fieldSelector=metadata.name%3Da&resourceVersion=0", "", "application/json, */*", ""},
	{"GET", version + "/manifestworks", "labelSelector=a+in+(b,c)&continue=eyJ2IjoiIiwibnMiOiJhIiwibiI6ImIifQ",
		"", "", ""},
	{"POST", works, "fieldManager=kubectl-create&fieldValidation=Strict", "application/json", "",
		strings.Replace(body, `"a"`, `"b"`, 1)},
	{"POST", works, "dryRun=All", "application/yaml", "",
		"apiVersion: work.open-cluster-management.io/v1\nkind: ManifestWork\n" +
			"metadata: {generateName: a}\nspec: {workload: {manifests: [{apiVersion: v1, kind: A, metadata: {name: b}}]}}"},
	{"PUT", works + "/a", "", "application/json", "", body},
	{"PUT", works + "/a/status", "", "application/json", "", strings.Replace(body, `"spec"`,
		`"status":{"conditions":[{"type":"A","status":"True","reason":"R","message":"",`+
			`"lastTransitionTime":"2026-01-01T00:00:00Z"}]},"spec"`, 1)},
	{"PATCH", works + "/a", "fieldManager=me&force=true", "application/apply-patch+yaml", "", body},
	{"PATCH", works + "/a", "", "application/merge-patch+json", "",
		`{"metadata":{"labels":{"a":"b"},"finalizers":["x/y"]}}`},
	{"PATCH", works + "/a", "", "application/json-patch+json", "",
		`[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"copy","from":"/spec","path":"/status"}]`},
	{"PATCH", works + "/a/status", "", "application/merge-patch+json", "",
		`{"status":{"resourceStatus":{"manifests":[]}}}`},
	{"PATCH", works + "/a", "", "application/strategic-merge-patch+json", "", `{}`},
	{"DELETE", works + "/a", "propagationPolicy=Background", "application/json", "",
		`{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"x"},"dryRun":["All"]}`},
	{"DELETE", works, "labelSelector=a%3Db&dryRun=All", "", "", ""},
	{"GET", "/apis", "", "", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", ""},
	{"GET", version, "", "", "application/vnd.kubernetes.protobuf", ""},
	{"GET", "/openapi/v3", "", "", "", ""},
	{"OPTIONS", works, "timeout=1s", "", "", ""},
}

// discardLog discards the log of the handlers, which has each invalid request. It does so once: a
// handler of an earlier test may write to the log after the end of its request.
var discardLog = sync.OnceFunc(func() { klog.SetLogger(logr.Discard()) })

// FuzzRequests sends any request to a source. No request may panic, and the body of each error is a
// Status, or text where that of an API server is text. An error of code 500 has a known cause.
func FuzzRequests(f *testing.F) {
	discardLog()
	for _, s := range seeds {
		f.Add(s.method, s.path, s.query, s.kind, s.accept, []byte(s.body))
	}
	target := &target{codes: map[int]int{}}
	f.Fuzz(func(t *testing.T, method, path, query, kind, accept string, body []byte) {
		target.send(t, method, path, query, kind, accept, body)
	})
}

// TestMixedRequests sends requests with parts of different seeds.
func TestMixedRequests(t *testing.T) {
	discardLog()
	target, random := &target{codes: map[int]int{}}, rand.New(rand.NewSource(1))
	for range 3000 {
		one := func() seed { return seeds[random.Intn(len(seeds))] }
		method, path, query := one().method, one().path, one().query
		kind, accept, body := one().kind, one().accept, one().body
		if random.Intn(4) == 0 && len(body) > 0 {
			at := random.Intn(len(body))
			body = body[:at] + string(rune(random.Intn(128))) + body[at+1:]
		}
		if !target.send(t, method, path, query, kind, accept, []byte(body)) {
			t.Errorf("%s %s?%s is no request", method, path, query)
		}
		if t.Failed() {
			t.Fatalf("%s %s?%s\nContent-Type: %s\nAccept: %s\n\n%s", method, path, query, kind, accept, body)
		}
	}
	for _, code := range []int{200, 201, 400, 404, 405, 406, 409, 415, 422} {
		if target.codes[code] == 0 {
			t.Errorf("no answer %d: %v", code, target.codes)
		}
	}
}

// target is a source that receives requests.
type target struct {
	handler http.Handler
	sent    int
	codes   map[int]int // number of answers
}

// send sends a request and checks the answer. It reports whether the request can be sent.
func (g *target) send(t *testing.T, method, path, query, kind, accept string, content []byte) bool {
	t.Helper()
	if g.sent++; g.sent%1000 == 1 { // creations fill the memory
		g.handler = handlerOf(t, sourceOn(t, memory.New()).Clientset())
	}
	if w := send(t, g.handler, "POST", works, body); w.Code != http.StatusCreated && w.Code != http.StatusConflict {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	r, ok := request(method, path, query, content)
	if !ok {
		return false
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Accept", accept)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // ends watches
	defer cancel()
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r.WithContext(ctx))
	checkAnswer(t, w)
	g.codes[w.Code]++
	return true
}

// request returns a request that a server of net/http accepts.
func request(method, path, query string, body []byte) (*http.Request, bool) {
	u := &url.URL{Path: path, RawQuery: query}
	if !strings.HasPrefix(path, "/") || method == "" || method == http.MethodConnect {
		return nil, false
	}
	parsed, err := url.ParseRequestURI(u.String())
	if err != nil {
		return nil, false
	}
	r, err := http.NewRequest(method, parsed.String(), strings.NewReader(string(body))) //nolint:noctx // set later
	if err != nil {
		return nil, false
	}
	r.RequestURI = parsed.RequestURI()
	return r, true
}

func checkAnswer(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code < http.StatusBadRequest {
		return
	}
	data, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	kind, _, _ := mime.ParseMediaType(w.Header().Get("Content-Type"))
	if kind == "text/plain" {
		if text := string(data); text != "404 page not found\n" && !strings.Contains(text, "failed to create RequestInfo") {
			t.Errorf("%d %s", w.Code, text)
		}
		return
	}
	if kind == "application/yaml" {
		return // the encoder is the same
	}
	var status metav1.Status
	if err := json.Unmarshal(data, &status); err != nil || status.Kind != "Status" || int(status.Code) != w.Code ||
		status.Status != metav1.StatusFailure || status.Message == "" {
		t.Fatalf("no Status of code %d: %v: %s", w.Code, err, data)
	}
	if w.Code == http.StatusInternalServerError {
		t.Errorf("%s %s", workv1.GroupName, data)
	}
}
