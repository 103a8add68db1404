// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubecluster_test

import (
	"encoding/json"
	"fmt"
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/kubecluster"
)

// api is an API server that serves discovery of ConfigMaps, Namespaces and, once they are defined,
// Widgets. It refuses all other requests. internal/e2e tests works on a real cluster.
type api struct {
	mu      sync.Mutex
	widgets bool
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
			groups.Groups = []metav1.APIGroup{{Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{v},
				PreferredVersion: v}}
		}
		answer(groups)
	case "/api/v1":
		answer(metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}, {Name: "namespaces", Kind: "Namespace"},
		}})
	case "/apis/example.com/v1":
		answer(metav1.APIResourceList{GroupVersion: "example.com/v1",
			APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget", Namespaced: true}}})
	default:
		w.WriteHeader(http.StatusForbidden)
		answer(apierrors.NewForbidden(schema.GroupResource{Resource: "anything"}, "else", nil).Status())
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
	c, err := kubecluster.New(path, "hub")
	if err != nil {
		t.Fatal(err)
	}
	return c, a
}

func TestKind(t *testing.T) {
	c, a := newCluster(t, "kind-one")
	configMap := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	got, err := c.Kind(t.Context(), configMap)
	if diff := cmp.Diff(kinds.Kind{GVK: configMap, Resource: "configmaps", Namespaced: true}, got); diff != "" ||
		err != nil {
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

func TestName(t *testing.T) {
	for context, want := range map[string]string{
		"kind-one": "kind-one", "admin@Prod.example": "admin-prod-example", "@@": "cluster",
		strings.Repeat("a-", 60): strings.Repeat("a-", 29) + "a",
	} {
		if c, _ := newCluster(t, context); c.Name() != want {
			t.Errorf("the context %q becomes %q, want %q", context, c.Name(), want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := kubecluster.New(missing, "hub"); err == nil || !strings.Contains(err.Error(), "kubeconfig "+missing) {
		t.Errorf("a missing file: %v", err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kubecluster.New(empty, "hub"); err == nil || !strings.Contains(err.Error(), "kubeconfig "+empty) {
		t.Errorf("an empty file: %v", err)
	}
}

// TestRefused checks that each manifest has the error if the cluster refuses access, and that the
// work does not count as removed.
func TestRefused(t *testing.T) {
	c, _ := newCluster(t, "kind-one")
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: "cluster1"}}
	for _, raw := range []string{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, `{`} {
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(raw)}})
	}
	results, again, err := c.ApplyWork(t.Context(), w)
	if again || err != nil || len(results) != 2 {
		t.Fatalf("%v, %v, %v", results, again, err)
	}
	for i, r := range results {
		if !apierrors.IsForbidden(r.Err) || !strings.Contains(r.Err.Error(), "install the CRD") || r.Manifest == nil ||
			r.Ordinal != i {
			t.Errorf("manifest %d: %+v", i, r)
		}
	}
	if again, err := c.RemoveWork(t.Context(), w); again || !apierrors.IsForbidden(err) {
		t.Errorf("RemoveWork: %v, %v", again, err)
	}
}

func TestPolicies(t *testing.T) {
	id := func(name string) v1alpha1.ResourceIdentifier {
		return v1alpha1.ResourceIdentifier{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "n",
			Name: name}
	}
	rules := &workv1.SelectivelyOrphan{
		OrphaningRules: []workv1.OrphaningRule{{Resource: "configmaps", Namespace: "n", Name: "a"}},
	}
	for _, tt := range []struct {
		reason string
		option *workv1.DeleteOption
		want   string // of a and b
	}{
		{"no option deletes", nil, "Delete Delete"},
		{"Foreground deletes", &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeForeground},
			"Delete Delete"},
		{"Orphan leaves all", &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan},
			"Orphan Orphan"},
		{"rules leave what they name",
			&workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
				SelectivelyOrphan: rules}, "Orphan Delete"},
	} {
		p := kubecluster.Policies(tt.option)
		if got := fmt.Sprint(p.For(id("a")), " ", p.For(id("b"))); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.reason, got, tt.want)
		}
	}
}
