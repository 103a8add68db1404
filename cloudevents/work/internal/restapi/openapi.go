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
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"github.com/munnerz/goautoneg"
	"google.golang.org/protobuf/proto"
	"k8s.io/kube-openapi/pkg/handler3"
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

	jsonType = "application/json"
)

var documentV2 = sync.OnceValue(func() *document {
	return newDocument(jsonV2, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", "",
		func(data []byte) ([]byte, error) {
			parsed, err := openapiv2.ParseDocument(data)
			if err != nil {
				return nil, err
			}
			return proto.Marshal(parsed)
		})
})

var documentV3 = sync.OnceValue(func() *document {
	return newDocument(jsonV3, "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
		openAPIV3Path+versionPath, handler3.ToV3ProtoBinary)
})

// OpenAPI returns a handler for /openapi/v2, /openapi/v3 and the paths below /openapi/v3.
func OpenAPI() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case openAPIV2Path:
			documentV2().ServeHTTP(w, r)
		case openAPIV3Path:
			serveOpenAPIV3Paths(w, r)
		case openAPIV3Path + versionPath:
			documentV3().ServeHTTP(w, r)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
}

// serveOpenAPIV3Paths returns the locations of the documents of version 3. They contain a hash, so
// clients keep a document until it changes.
func serveOpenAPIV3Paths(w http.ResponseWriter, r *http.Request) {
	paths, err := json.Marshal(handler3.OpenAPIV3Discovery{
		Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{
			strings.TrimPrefix(versionPath, "/"): {ServerRelativeURL: documentV3().url()},
		},
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Etag", strconv.Quote(hash(paths)))
	w.Header().Set("Content-Type", jsonType)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(paths))
}

// document is an OpenAPI document in its two encodings.
type document struct {
	json         []byte
	etag         string
	protobufType string
	protobuf     func() ([]byte, error)
	path         string // for requests with the hash, or empty if there is no such path
}

func newDocument(data []byte, protobufType, path string, encode func([]byte) ([]byte, error)) *document {
	return &document{
		json: data, etag: hash(data), protobufType: protobufType, path: path,
		protobuf: sync.OnceValues(func() ([]byte, error) { return encode(data) }),
	}
}

func hash(data []byte) string { return fmt.Sprintf("%X", sha512.Sum512(data)) }

func (d *document) url() string { return d.path + "?" + url.Values{"hash": {d.etag}}.Encode() }

// ServeHTTP implements [http.Handler] like the handlers of kube-openapi, which would link the
// builders of documents.
func (d *document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	deprecated := strings.Replace(d.protobufType, ".v1.0+", "@v1.0+", 1)
	var data []byte
	switch goautoneg.Negotiate(cmp.Or(r.Header.Get("Accept"), "*/*"), []string{jsonType, d.protobufType, deprecated}) {
	case jsonType:
		w.Header().Set("Content-Type", jsonType)
		data = d.json
	case d.protobufType, deprecated:
		w.Header().Set("Content-Type", d.protobufType)
		var err error
		if data, err = d.protobuf(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	default:
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	w.Header().Set("Etag", strconv.Quote(d.etag))
	if asked := r.URL.Query().Get("hash"); d.path != "" && asked != "" {
		if asked != d.etag {
			http.Redirect(w, r, d.url(), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}
