// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/restapi"
	"github.com/spokewire/sdk-go/internal/testing/background"
)

const (
	version = "/apis/work.open-cluster-management.io/v1"
	works   = version + "/namespaces/cluster1/manifestworks"
	body    = `{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"name":"a"},` +
		`"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"},` +
		`"data":{"value":"VALUE"}}]}}}`
)

func handlerOf(t testing.TB, c workclientset.Interface) http.Handler {
	t.Helper()
	handler, err := restapi.New(c, restapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

func sourceOn(t testing.TB, bus *memory.Bus) *work.Source {
	t.Helper()
	source, err := work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func newAgent(t testing.TB) *work.Agent {
	t.Helper()
	agent, err := work.NewAgent(memory.New().Transport(),
		work.AgentOptions{ClusterName: "cluster1", Sources: []string{"hub"}})
	if err != nil {
		t.Fatal(err)
	}
	return agent
}

// send sends a request; the first header of a body is its type.
func send(t testing.TB, h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// wantStatus fails unless the answer is the Status of an error.
func wantStatus(t testing.TB, w *httptest.ResponseRecorder, code int, reason metav1.StatusReason) metav1.Status {
	t.Helper()
	var status metav1.Status
	if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil {
		t.Errorf("no Status: %v: %s", err, w.Body)
	}
	if status.Kind != "Status" || status.APIVersion != "v1" || status.Status != metav1.StatusFailure ||
		w.Code != code || int(status.Code) != code || status.Reason != reason {
		t.Errorf("got %d %+v, want %d %s", w.Code, status, code, reason)
	}
	return status
}

// TestStoppedIsUnavailable: after the end of Start, all requests are refused, also reads.
func TestStoppedIsUnavailable(t *testing.T) {
	source, agent := sourceOn(t, memory.New()), newAgent(t)
	stopSource, stopAgent := background.Run(t, source.Start), background.Run(t, agent.Start)
	<-source.Ready()
	<-agent.Ready()
	handlers := map[string]http.Handler{
		"source": handlerOf(t, source.Clientset()), "agent": handlerOf(t, agent.Clientset()),
	}
	if w := send(t, handlers["source"], "POST", works, body); w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	stopSource()
	stopAgent()
	for name, handler := range handlers {
		for _, request := range [][2]string{
			{"GET", works}, {"GET", works + "/a"}, {"GET", works + "/a/status"}, {"GET", works + "?watch=true"},
			{"POST", works}, {"PUT", works + "/a"}, {"PUT", works + "/a/status"}, {"DELETE", works + "/a"},
			{"DELETE", works}, {"PATCH", works + "/a"}, {"GET", "/apis"}, {"GET", version}, {"GET", "/other"},
		} {
			t.Run(name+" "+request[0]+" "+request[1], func(t *testing.T) {
				w := send(t, handler, request[0], request[1], body)
				status := wantStatus(t, w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
				if status.Details == nil || status.Details.RetryAfterSeconds < 1 || w.Header().Get("Retry-After") == "" {
					t.Errorf("no delay: %+v %v", status.Details, w.Header())
				}
			})
		}
	}
}

// TestNotStarted: before Start, the answers are those of the clientset. They have no Retry-After:
// clients would wait instead of returning the error.
func TestNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := handlerOf(t, sourceOn(t, memory.New()).Clientset())
		if w := send(t, source, "POST", works, body); w.Code != http.StatusCreated {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if w := send(t, source, "GET", works+"/a", ""); w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		agent := handlerOf(t, newAgent(t).Clientset())
		w := send(t, agent, "GET", works, "")
		wantStatus(t, w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		if after := w.Header().Get("Retry-After"); after != "" {
			t.Errorf("Retry-After: %s", after)
		}
		w = send(t, agent, "GET", works+"?timeout=1s", "")
		wantStatus(t, w, http.StatusGatewayTimeout, metav1.StatusReasonTimeout)
	})
}

// TestEndedContext: the error of a context is a Timeout, as after the deadline of an API server.
func TestEndedContext(t *testing.T) {
	handler := handlerOf(t, sourceOn(t, memory.New()).Clientset())
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, path := range []string{works, works + "/a", works + "/a/status", works + "?watch=true"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", path, nil))
		wantStatus(t, w, http.StatusGatewayTimeout, metav1.StatusReasonTimeout)
	}
}

// TestUnknownPaths: all paths of the group answer with a Status.
func TestUnknownPaths(t *testing.T) {
	handler := handlerOf(t, sourceOn(t, memory.New()).Clientset())
	for _, path := range []string{
		"/apis/work.open-cluster-management.io/v2",
		version + "/others", version + "/namespaces/cluster1", version + "/namespaces/cluster1/others/a/status",
		version + "/manifestworks/a", works + "/a/scale", works + "/missing", version + "//namespaces/cluster1/manifestworks",
	} {
		t.Run(path, func(t *testing.T) {
			wantStatus(t, send(t, handler, "GET", path, ""), http.StatusNotFound, metav1.StatusReasonNotFound)
		})
	}
	for _, path := range []string{
		"/", "/other", "/apis/work", "/apis/work.open-cluster-management.iox/v1", "/api/v1/pods",
	} {
		if w := send(t, handler, "GET", path, ""); w.Code != http.StatusNotFound ||
			strings.TrimSpace(w.Body.String()) != "404 page not found" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestTooLargeRequests(t *testing.T) {
	bus := memory.New()
	source := sourceOn(t, bus)
	bus.SetMaxPacketSize(4000)
	background.Run(t, source.Start)
	<-source.Ready()
	handler := handlerOf(t, source.Clientset())
	if w := send(t, handler, "POST", works, body); w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	large := func(size int) string { return strings.Replace(body, "VALUE", strings.Repeat("x", size), 1) }
	for name, size := range map[string]int{"limit of the API server": 3 << 20, "limit of the broker": 5000} {
		t.Run(name, func(t *testing.T) {
			create := strings.Replace(large(size), `"name":"a"`, `"name":"b"`, 1)
			wantStatus(t, send(t, handler, "POST", works, create),
				http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge)
			wantStatus(t, send(t, handler, "PATCH", works+"/a", large(size), "Content-Type", "application/merge-patch+json"),
				http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge)
			wantStatus(t, send(t, handler, "PATCH", works+"/a?fieldManager=me&force=true", large(size),
				"Content-Type", "application/apply-patch+yaml"),
				http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge)
		})
	}
	for _, path := range []string{works, works + "/a"} {
		wantStatus(t, send(t, handler, "DELETE", path, large(3<<20)),
			http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge)
	}
}
