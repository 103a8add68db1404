// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
)

// checkSlowDiscovery: a group with hanging discovery delays only its own objects.
func checkSlowDiscovery(t *testing.T, g *ground) {
	g.create(namespaceOf("slow"))
	stuck := make(chan struct{})
	config := g.Config()
	config.UserAgent = agentPrefix + "discovering"
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/apis/example.com/v1") {
				select {
				case <-stuck:
				case <-r.Context().Done():
				}
			}
			return next.RoundTrip(r)
		})
	})
	x := g.tools(config, nil)
	slow, quick := x.ensure(t, "slow"), x.ensure(t, "slow-quick")
	done := make(chan error)
	go func() {
		_, err := x.applier.Apply(t.Context(), slow, objects(gadgetOf("slow", "g")), appliedwork.ApplyOptions{})
		done <- err
	}()
	time.Sleep(200 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // less than discovery's own timeout
	defer cancel()
	if _, err := x.applier.Apply(ctx, quick, objects(configMapOf("slow", "c", "1")),
		appliedwork.ApplyOptions{}); err != nil {
		t.Errorf("another work waits for the slow group: %v", err)
	}
	close(stuck)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// checkUnservedVersion: a manifest in a version that is no longer served is an error that names the
// served version.
func checkUnservedVersion(t *testing.T, g *ground) {
	g.create(namespaceOf("versions"))
	crd := customCRD("versions.example.com", "Thing", "v1", "v2")
	g.serve(t, crd)
	x := g.plain(nil)
	work := x.ensure(t, "versions")
	older, newer := customOf("versions.example.com/v2", "Thing", "versions", "a"),
		customOf("versions.example.com/v1", "Thing", "versions", "b")
	want(t, x.apply(t, work, older, newer), "2 created")
	crd = g.get(crd)
	list, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	list[1].(map[string]any)["served"] = false
	_ = unstructured.SetNestedSlice(crd.Object, list, "spec", "versions")
	if _, err := g.at(crd).Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	g.eventuallyServed(t, crd)
	changes, err := x.applier.Apply(t.Context(), work, objects(older, newer), appliedwork.ApplyOptions{})
	want(t, changes, "1 unchanged, 1 failed")
	var notServed *appliedwork.TypeNotServedError
	if !errors.As(err, &notServed) || notServed.Version != "v2" || notServed.Served != "v1" {
		t.Errorf("%#v: %v", notServed, err)
	}
}

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
