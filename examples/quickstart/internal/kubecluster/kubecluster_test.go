// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubecluster_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/kubecluster"
)

// api answers discovery like an API server with ConfigMaps, Namespaces and, once they are defined, Widgets; it
// writes down every other request.
type api struct {
	mu       sync.Mutex
	widgets  bool
	requests []string
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch r.URL.Path {
	case "/api":
		answer(metav1.APIVersions{Versions: []string{"v1"}})
	case "/apis":
		groups := metav1.APIGroupList{}
		if a.widgets {
			v := metav1.GroupVersionForDiscovery{GroupVersion: "example.com/v1", Version: "v1"}
			groups.Groups = []metav1.APIGroup{{Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}}
		}
		answer(groups)
	case "/api/v1":
		answer(metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}, {Name: "namespaces", Kind: "Namespace"},
		}})
	case "/apis/example.com/v1":
		answer(metav1.APIResourceList{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget", Namespaced: true}}})
	case "/api/v1/namespaces/n/configmaps/missing":
		w.WriteHeader(http.StatusNotFound)
		answer(apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "missing").Status())
	default:
		body, _ := io.ReadAll(r.Body)
		a.requests = append(a.requests, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", r.Method, r.URL, r.Header.Get("Content-Type"), body)))
		answer(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}})
	}
}

func newCluster(t *testing.T, context string) (*kubecluster.Cluster, *api) {
	t.Helper()
	a := &api{}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: %q,
  clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: %q, context: {cluster: c}}]}`, context, server.URL, context)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := kubecluster.New(path)
	if err != nil {
		t.Fatal(err)
	}
	return c, a
}

func TestKind(t *testing.T) {
	c, a := newCluster(t, "kind-one")
	configMap := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	got, err := c.Kind(t.Context(), configMap)
	if diff := cmp.Diff(kinds.Kind{GVK: configMap, Resource: "configmaps", Namespaced: true}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	widget := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	if _, err := c.Kind(t.Context(), widget); !meta.IsNoMatchError(err) {
		t.Errorf("an undefined kind: %v; want no match", err)
	}
	a.mu.Lock()
	a.widgets = true
	a.mu.Unlock()
	if got, err := c.Kind(t.Context(), widget); err != nil || got.Resource != "widgets" {
		t.Errorf("after its definition: %v, %v; discovery was not asked again", got, err)
	}
}

func TestRequests(t *testing.T) {
	c, a := newCluster(t, "kind-one")
	configMaps := kinds.Kind{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Resource: "configmaps", Namespaced: true}
	namespaces := kinds.Kind{GVK: kinds.Namespace, Resource: "namespaces"}
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "n"}}}
	if _, err := c.Apply(t.Context(), configMaps, obj, metav1.ApplyOptions{FieldManager: "m", Force: true}); err != nil {
		t.Error(err)
	}
	if _, err := c.Get(t.Context(), namespaces, "", "n"); err != nil {
		t.Error(err)
	}
	if _, err := c.Get(t.Context(), configMaps, "n", "missing"); !apierrors.IsNotFound(err) {
		t.Errorf("a missing object: %v; want NotFound", err)
	}
	if err := c.Delete(t.Context(), configMaps, "n", "a", "u1"); err != nil {
		t.Error(err)
	}
	want := []string{
		`PATCH /api/v1/namespaces/n/configmaps/a?fieldManager=m&force=true&timeout=10s application/apply-patch+yaml {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"}}`,
		`GET /api/v1/namespaces/n?timeout=10s`,
		`DELETE /api/v1/namespaces/n/configmaps/a?timeout=10s application/json {"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u1"},"propagationPolicy":"Background"}`,
	}
	if diff := cmp.Diff(want, a.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestName(t *testing.T) {
	for context, want := range map[string]string{
		"kind-one": "kind-one", "admin@Prod.example": "admin-prod-example", "@@": "cluster", strings.Repeat("a-", 60): strings.Repeat("a-", 29) + "a",
	} {
		if c, _ := newCluster(t, context); c.Name() != want {
			t.Errorf("the context %q becomes %q, want %q", context, c.Name(), want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := kubecluster.New(missing); err == nil || !strings.Contains(err.Error(), "kubeconfig "+missing) {
		t.Errorf("a missing file: %v", err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kubecluster.New(empty); err == nil || !strings.Contains(err.Error(), "kubeconfig "+empty) {
		t.Errorf("an empty file: %v", err)
	}
}
