// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
)

// TestJoin reads a work of a source and a ConfigMap of a cluster with one client. A proxy may serve
// the API of the cluster at a path.
func TestJoin(t *testing.T) {
	for _, path := range []string{"", "/", "/k8s/clusters/hub", "/k8s/clusters/hub/"} {
		t.Run("path "+path, func(t *testing.T) { testJoin(t, path) })
	}
}

func testJoin(t *testing.T, path string) {
	t.Helper()
	source, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	documents := map[string]string{
		"/api":  `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[
			{"name":"configmaps","namespaced":true,"kind":"ConfigMap","verbs":["get"]}]}`,
		"/api/v1/namespaces/a/configmaps/m": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m","uid":"7"}}`,
	}
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, workv1.GroupName) {
			t.Errorf("the cluster received %s %s", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(documents[strings.TrimPrefix(r.URL.Path, strings.TrimSuffix(path, "/"))]))
	}))
	defer cluster.Close()
	works := must(restconfig.FromSource(source))
	config, provider, err := restconfig.Join(&rest.Config{Host: cluster.URL + path}, works, apiutil.NewDynamicRESTMapper)
	if err != nil {
		t.Fatal(err)
	}
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer h.CloseIdleConnections()
	mapper, err := provider(config, h)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper, HTTPClient: h})
	if err != nil {
		t.Fatal(err)
	}
	w := &workv1.ManifestWork{}
	w.Namespace, w.Name = "a", "w"
	m := &corev1.ConfigMap{}
	if err := errors.Join(c.Create(t.Context(), w), c.Get(t.Context(), client.ObjectKeyFromObject(w), w),
		c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "m"}, m)); err != nil {
		t.Fatal(err)
	}
	if w.UID == "" || m.UID != "7" {
		t.Errorf("the work has the UID %q and the ConfigMap %q", w.UID, m.UID)
	}
	if _, err := mapper.RESTMapping(schema.GroupKind{Group: "x", Kind: "Y"}, "v1"); !meta.IsNoMatchError(err) {
		t.Errorf("mapping of an unknown kind: %v, want NoMatch", err)
	}
}

func TestJoinRefusesOtherConfigurations(t *testing.T) {
	cluster := &rest.Config{Host: "https://hub"}
	source, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	works := must(restconfig.FromSource(source))
	mapper := apiutil.NewDynamicRESTMapper
	for _, wrong := range []struct {
		name           string
		cluster, works *rest.Config
		mapper         restconfig.MapperProvider
	}{
		{"two clusters", cluster, cluster, mapper}, {"no cluster", nil, works, mapper},
		{"no works", cluster, nil, mapper}, {"no mapper", cluster, works, nil},
		{"a host that is no URL", &rest.Config{Host: "https://hub:port"}, works, mapper},
	} {
		_, _, err := restconfig.Join(wrong.cluster, wrong.works, wrong.mapper)
		if err == nil || !strings.HasPrefix(err.Error(), "restconfig.Join: ") {
			t.Errorf("%s: %v, want an error", wrong.name, err)
		}
	}
	if cluster.WrapTransport != nil {
		t.Error("Join changed the cluster's configuration")
	}
}
