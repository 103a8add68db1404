// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/restapi"
)

const (
	v3Path   = "/openapi/v3/apis/work.open-cluster-management.io/v1"
	workName = "io.open-cluster-management.work.v1.ManifestWork"
)

// get returns a handler's response to a request with one header.
func get(t *testing.T, h http.Handler, path, header, value string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	if header != "" {
		r.Header.Set(header, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestOpenAPIHasSchemaOfCRD(t *testing.T) {
	var document struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	body := get(t, restapi.OpenAPI(), v3Path, "", "").Body
	if err := json.NewDecoder(body).Decode(&document); err != nil {
		t.Fatal(err)
	}
	got := document.Components.Schemas[workName].Properties
	// The API server adds the fields of all objects to a manifest.
	spec, _ := got["spec"].(map[string]any)
	workload, _ := spec["properties"].(map[string]any)["workload"].(map[string]any)
	manifests, _ := workload["properties"].(map[string]any)["manifests"].(map[string]any)
	manifest, _ := manifests["items"].(map[string]any)
	delete(manifest, "properties")
	delete(manifest, "required")
	for _, member := range []string{"spec", "status"} {
		data, err := json.Marshal(crd.Schema().Properties[member])
		if err != nil {
			t.Fatal(err)
		}
		var want any
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got[member]); diff != "" {
			t.Errorf("%s: run TestFrontOpenAPIEqualsAPIServer of internal/e2e with -update (-CRD +OpenAPI):\n%s", member, diff)
		}
	}
}

func TestOpenAPIClientsReadDocuments(t *testing.T) {
	server := httptest.NewServer(restapi.OpenAPI())
	t.Cleanup(server.Close)
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	v2, err := client.OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range v2.GetDefinitions().GetAdditionalProperties() {
		if d.GetName() == workName {
			names = append(names, "v2")
		}
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		t.Fatal(err)
	}
	data, err := paths["apis/work.open-cluster-management.io/v1"].Schema(
		"application/com.github.proto-openapi.spec.v3.v1.0+protobuf")
	if err != nil {
		t.Fatal(err)
	}
	v3 := &openapiv3.Document{}
	if err := proto.Unmarshal(data, v3); err != nil {
		t.Fatal(err)
	}
	for _, s := range v3.GetComponents().GetSchemas().GetAdditionalProperties() {
		if s.GetName() == workName {
			names = append(names, "v3")
		}
	}
	if diff := cmp.Diff([]string{"v2", "v3"}, names); diff != "" {
		t.Errorf("documents with the kind (-want +got):\n%s", diff)
	}
}

func TestOpenAPIIsCached(t *testing.T) {
	h := restapi.OpenAPI()
	for _, path := range []string{"/openapi/v2", "/openapi/v3", v3Path} {
		tag := get(t, h, path, "", "").Header().Get("Etag")
		if again := get(t, h, path, "If-None-Match", tag); again.Code != http.StatusNotModified || tag == "" {
			t.Errorf("%s: status %d for the tag %s", path, again.Code, tag)
		}
	}
	other := get(t, h, v3Path+"?hash=other", "", "")
	location := other.Header().Get("Location")
	if other.Code != http.StatusMovedPermanently {
		t.Fatalf("status %d for an unknown hash", other.Code)
	}
	current := get(t, h, location, "", "")
	if got := current.Header().Get("Cache-Control"); current.Code != http.StatusOK || got != "public, immutable" {
		t.Errorf("%s: status %d, Cache-Control %q", location, current.Code, got)
	}
	body, err := io.ReadAll(get(t, h, "/openapi/v3", "", "").Body)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"paths":{"apis/work.open-cluster-management.io/v1":{"serverRelativeURL":"` + location + `"}}}`
	if diff := cmp.Diff(want, string(body)); diff != "" {
		t.Errorf("locations (-want +got):\n%s", diff)
	}
	for path, accept := range map[string]string{"/openapi/v2": "text/plain", v3Path: "text/plain"} {
		if w := get(t, h, path, "Accept", accept); w.Code != http.StatusNotAcceptable {
			t.Errorf("%s as %s: status %d", path, accept, w.Code)
		}
	}
}
