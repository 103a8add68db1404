// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi

import (
	"bytes"
	"cmp"
	"crypto/sha512"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"github.com/munnerz/goautoneg"
	"google.golang.org/protobuf/proto"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
)

// The documents are those of a kube-apiserver with the CRD of ManifestWork, without the parts for
// other resources. A test in internal/e2e compares them, and writes them if -update is set.
var (
	//go:embed openapi/v2.json
	jsonV2 []byte
	//go:embed openapi/v3.json
	jsonV3 []byte
)

const (
	openAPIV2Path = "/openapi/v2"
	openAPIV3Path = "/openapi/v3"
)

var (
	tagV2      = sync.OnceValue(func() string { return hash(jsonV2) })
	protobufV2 = sync.OnceValues(func() ([]byte, error) {
		parsed, err := openapiv2.ParseDocument(jsonV2)
		if err != nil {
			return nil, err
		}
		return proto.Marshal(parsed)
	})
	serviceV3 = sync.OnceValue(func() *handler3.OpenAPIService {
		document := &spec3.OpenAPI{}
		if err := json.Unmarshal(jsonV3, document); err != nil {
			panic(fmt.Errorf("decode the OpenAPI document: %w", err)) // depends on no input
		}
		service := handler3.NewOpenAPIService()
		service.UpdateGroupVersion(strings.TrimPrefix(versionPath, "/"), document)
		return service
	})
)

// OpenAPI returns a handler for /openapi/v2, /openapi/v3 and the paths below /openapi/v3.
func OpenAPI() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case openAPIV2Path:
			serveOpenAPIV2(w, r)
		case openAPIV3Path:
			serviceV3().HandleDiscovery(w, r)
		case openAPIV3Path + versionPath:
			serviceV3().HandleGroupVersion(w, r)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
}

func hash(data []byte) string { return fmt.Sprintf("%X", sha512.Sum512(data)) }

// serveOpenAPIV2 answers like the handler of kube-openapi, which would link the builder of documents.
func serveOpenAPIV2(w http.ResponseWriter, r *http.Request) {
	const (
		jsonType   = "application/json"
		protobuf   = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
		deprecated = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	)
	w.Header().Set("Vary", "Accept")
	kind, data := jsonType, jsonV2
	switch goautoneg.Negotiate(cmp.Or(r.Header.Get("Accept"), "*/*"), []string{jsonType, protobuf, deprecated}) {
	case jsonType:
	case protobuf, deprecated:
		var err error
		if data, err = protobufV2(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		kind = protobuf
	default:
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Etag", strconv.Quote(tagV2()))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}
