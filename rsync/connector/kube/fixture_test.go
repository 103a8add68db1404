// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// api is a minimal API server: it serves ConfigMaps, and sends the answers that a test sets.
type api struct {
	*httptest.Server

	mu      sync.Mutex
	objects map[string][]byte
	answer  func(w http.ResponseWriter, r *http.Request) bool // returns true if it has answered
	seen    []string
}

func newAPI(secure bool) *api {
	a := &api{objects: map[string][]byte{}}
	a.Server = httptest.NewUnstartedServer(a)
	if secure {
		a.EnableHTTP2 = true
		a.StartTLS()
	} else {
		a.Start()
	}
	return a
}

func (a *api) config() *rest.Config { return &rest.Config{Host: a.URL} }

func (a *api) respond(answer func(w http.ResponseWriter, r *http.Request) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.seen = append(a.seen, r.Method+" "+r.URL.Path)
	answer := a.answer
	a.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/readyz":
		fmt.Fprint(w, "ok")
	case r.URL.Path == "/api/v1":
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[
			{"name":"configmaps","namespaced":true,"kind":"ConfigMap","verbs":["get","patch"]},{"name":"bindings","namespaced":true,"kind":"Binding","verbs":["create"]},{"name":"configmaps/status","namespaced":true,"kind":"ConfigMap","verbs":["get"]}]}`)
	case strings.Contains(r.URL.Path, "/configmaps/"):
		a.object(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (a *api) object(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Method == http.MethodPatch {
		a.objects[r.URL.Path], _ = io.ReadAll(r.Body)
	}
	body, ok := a.objects[r.URL.Path]
	if !ok {
		reply(w, http.StatusNotFound, "NotFound", "", map[string]any{"name": "a", "kind": "configmaps"})
		return
	}
	if r.Method == http.MethodDelete {
		delete(a.objects, r.URL.Path)
	}
	_, _ = w.Write(body)
}

// reply writes a Status.
func reply(w http.ResponseWriter, code int, reason, message string, details map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
		"details": details,
	})
}
