// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package setup_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/agent"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/progress"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/setup"
)

var shipped = fstest.MapFS{
	"manifests/a.yaml": {
		Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\nmetadata: " +
			"{name: b}\n"),
	},
}

// kubeconfig writes a kubeconfig for an API server that serves only ConfigMaps, and returns its
// path.
func kubeconfig(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api":
			_ = json.NewEncoder(w).Encode(metav1.APIVersions{Versions: []string{"v1"}})
		case "/apis":
			_ = json.NewEncoder(w).Encode(metav1.APIGroupList{})
		case "/api/v1":
			_ = json.NewEncoder(w).Encode(metav1.APIResourceList{GroupVersion: "v1",
				APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}}})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return kubeconfigFor(t, server.URL)
}

func kubeconfigFor(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(
		`{apiVersion: v1, kind: Config, current-context: admin, clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: admin, context: {cluster: c}}]}`, url)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenInMemory(t *testing.T) {
	s, err := setup.Open(t.Context(), setup.Options{Clusters: 9}, shipped)
	if err != nil {
		t.Fatal(err)
	}
	want := "  clusters   cluster1, cluster2, cluster3, cluster4, cluster5, cluster6, 3 more: in memory (nothing is " +
		"installed anywhere)\n" +
		"  manifests  2 objects in 1 file (shipped with the quickstart; use --manifests DIR for your own)\n"
	if diff := cmp.Diff(want, s.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(s.Clusters) != 9 || s.Clusters[8].Name != "cluster9" {
		t.Errorf("clusters: %+v", s.Clusters)
	}
}

func TestOpenRealClusters(t *testing.T) {
	onlyConfigMaps := fstest.MapFS{
		"manifests/a.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")},
	}
	s, err := setup.Open(t.Context(), setup.Options{Clusters: 2, Kubeconfigs: []string{kubeconfig(t), kubeconfig(t)}},
		onlyConfigMaps)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Clusters) != 2 || s.Clusters[0].Name != "admin" || s.Clusters[1].Name != "admin-2" {
		t.Errorf("clusters: %+v", s.Clusters)
	}
	if text := s.String(); !strings.Contains(text, "admin at http://127.0.0.1:") || strings.Contains(text, "in memory") {
		t.Errorf("described as %q", text)
	}
}

func TestOpenRefuses(t *testing.T) {
	one := kubeconfig(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, tt := range []struct {
		reason string
		files  []string
		want   string
	}{
		{"a kind that the cluster does not have", []string{one}, `a.yaml, document 2 (line 5): unknown kind "Secret"`},
		{"one cluster twice", []string{one, one}, "lead to the same cluster, http://127.0.0.1:"},
		{"a cluster that does not answer", []string{kubeconfigFor(t, gone.URL)}, "cluster admin at " + gone.URL + ": "},
		{"no such file", []string{filepath.Join(t.TempDir(), "missing")}, "kubeconfig "},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			_, err := setup.Open(t.Context(), setup.Options{Clusters: 2, Kubeconfigs: tt.files}, shipped)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Open: %v; want %q", err, tt.want)
			}
		})
	}
}

func TestObserver(t *testing.T) {
	var steps []string
	observe := setup.Observer("c", func(e progress.Event) {
		if e.At.After(time.Now()) || e.Cluster != "c" {
			t.Errorf("%+v", e)
		}
		steps = append(steps, fmt.Sprintf("%s %s %d", e.Step, e.Work, e.Generation))
	})
	observe(agent.Event{Work: "w", Generation: 2})
	observe(agent.Event{Work: "w", Generation: 2, Err: os.ErrNotExist})
	observe(agent.Event{Work: "w", Generation: 3, Deleted: true})
	if diff := cmp.Diff([]string{"applied w 2", "removed w 3"}, steps); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
