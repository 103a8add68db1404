// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// TestOpenAPIDocument checks that the published document is valid, that the hub serves it, and that
// another implementation of OpenAPI accepts a response of the hub.
func TestOpenAPIDocument(t *testing.T) {
	published, err := os.ReadFile("../../../examples/hub/schema/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := openapi3.NewLoader().LoadFromData(published)
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := newHub(t, true, "--grpc", "127.0.0.1:0")
	h.write("clusters.yaml", clusters("cluster1"))
	h.start()
	fetch := func(path string) (r *http.Request, code int, header http.Header, body []byte) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		if body, err = io.ReadAll(answer.Body); err != nil {
			t.Fatal(err)
		}
		return request, answer.StatusCode, answer.Header, body
	}
	if _, _, _, served := fetch("/api/openapi.json"); !bytes.Equal(bytes.Join(bytes.Fields(served), nil),
		bytes.Join(bytes.Fields(published), nil)) {
		t.Errorf("the hub serves %.300s", served)
	}
	router, err := legacy.NewRouter(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/api/v1/status", "/api/v1/clusters", "/api/v1/clusters/cluster1/status", "/api/v1/clusters/x",
	} {
		request, code, header, body := fetch(path)
		request.URL.Scheme, request.URL.Host = "", ""
		route, values, err := router.FindRoute(request)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
			RequestValidationInput: &openapi3filter.RequestValidationInput{Request: request, PathParams: values, Route: route},
			Status:                 code, Header: header, Body: io.NopCloser(bytes.NewReader(body)),
		})
		if err != nil {
			t.Errorf("%s: %v: %s", path, err, body)
		}
	}
}
