// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
)

// TestRefusedWatch checks that a work is served when an object cannot be watched, and when it can
// be watched again.
func TestRefusedWatch(t *testing.T) {
	for _, code := range []int{http.StatusForbidden, http.StatusMethodNotAllowed} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			t.Parallel()
			refuseWatch(t, code)
		})
	}
}

func refuseWatch(t *testing.T, code int) {
	var allowed atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/api/v1":
			_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
				TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
				GroupVersion: "v1",
				APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}},
			})
		case !allowed.Load():
			http.Error(w, "no", code)
		default:
			fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",`+
				`"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	watches, err := newWatches(Options{ClusterName: "c", Config: &rest.Config{Host: server.URL}, MaxWatches: 10})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served, ended := make(chan string, 100), make(chan error)
	go func() { ended <- watches.start(ctx, func(name string) { served <- name }) }()
	<-watches.watcher.Started()
	object := spoke.Target{Version: "v1", Kind: "ConfigMap", Namespace: "n", Name: "c"}
	if !watches.set(ctx, "w", spoke.Targets{object: ""}) {
		t.Fatal("the object is not watched")
	}
	for _, want := range [][]string{{"ConfigMap"}, {}} {
		for !slices.Equal(watches.refused("w"), want) {
			select {
			case <-served:
			case <-time.After(60 * time.Second):
				t.Fatalf("refused are %v, want %v", watches.refused("w"), want)
			}
		}
		allowed.Store(true)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
