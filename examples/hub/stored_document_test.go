// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/examples/internal/filestore"
	"github.com/spokewire/sdk-go/rsync/store"
)

// TestStoredDocumentFails checks a stored document that does not render without --kubeconfig. It
// holds up only its own application.
func TestStoredDocumentFails(t *testing.T) {
	s := newSite(t, "c1", "c2")
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=1"))
	s.must("PUT", "/api/v1/applications/other", application("other", "b=1"))
	s.place("shop, other", "c1")
	s.stop()
	// A hub with --kubeconfig stores such a document while the Secret does not exist.
	reads := strings.Replace(application("shop", "a=1"), "{apiVersion", `{{ fromSecret "a" "b" "c" }}{apiVersion`, 1)
	document, err := yaml.YAMLToJSON([]byte(reads))
	if err != nil {
		t.Fatal(err)
	}
	state, err := filestore.Open(t.Context(), filepath.Join(s.options.Store, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.Txn(t.Context(), nil,
		[]store.Op{store.Put("/hub/document/Application/shop/", document)}); err != nil {
		t.Fatal(err)
	}
	if err := state.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.start()
		if got := s.now("shop", "1ms"); !strings.HasPrefix(got, "OutOfSync Degraded") ||
			!strings.Contains(got, "the hub has no --kubeconfig") {
			t.Errorf("status %q", got)
		}
		s.must("PUT", "/api/v1/applications/other", application("other", "b=2"))
		s.must("PUT", "/api/v1/clusters/c2", cluster("c2", ""))
		s.objects("c1", `x/a={"v":"1"}`, `x/b={"v":"2"}`)
		s.objects("c2", `x/b={"v":"2"}`)
		if code, text := s.call("PUT", "/api/v1/applications/shop", reads+"# the same is\n"); code != http.StatusOK {
			t.Errorf("%d %s", code, text)
		}
		if code, text := s.call("PUT", "/api/v1/applications/shop", strings.Replace(reads, `"b"`, `"d"`,
			1)); code != http.StatusUnprocessableEntity || !strings.Contains(text, "--kubeconfig") {
			t.Errorf("%d %s", code, text)
		}
		s.stop()
	}
	s.start()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=3"))
	s.objects("c1", `x/a={"v":"3"}`, `x/b={"v":"2"}`)
	s.objects("c2", `x/a={"v":"3"}`, `x/b={"v":"2"}`)
	if got := s.status("shop"); !strings.HasPrefix(got, "Synced Healthy") {
		t.Errorf("status %q", got)
	}
	s.deletes("c1")
}
