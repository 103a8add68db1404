// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/examples/hub/internal/render"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

func object(kind, name, version string, fields map[string]any) *unstructured.Unstructured {
	content := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"namespace": "ns", "name": name,
		"resourceVersion": version}}
	for k, v := range fields {
		content[k] = v
	}
	return &unstructured.Unstructured{Object: content}
}

func TestObjects(t *testing.T) {
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{secrets: "SecretList", configMaps: "ConfigMapList"},
		object("Secret", "s", "1", map[string]any{"data": map[string]any{"k": "dmFsdWU=", "broken": "?"}}),
		object("ConfigMap", "m", "1",
			map[string]any{"data": map[string]any{"k": "text"}, "binaryData": map[string]any{"b": "dmFsdWU="}}))
	mapper := readable()
	causes := make(chan string, 10)
	o, err := watch(dynamicwatcher.Options{Dynamic: client, Mapper: mapper}, mapper,
		func(_ context.Context, application, cause string) error {
			causes <- application + ": " + cause
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- o.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	<-o.Started()
	for _, tt := range []struct {
		ref     render.Ref
		want    string
		problem string // of a missing value
	}{
		{render.Ref{Kind: "Secret", Namespace: "ns", Name: "s", Key: "k"}, "value", ""},
		{render.Ref{Kind: "ConfigMap", Namespace: "ns", Name: "m", Key: "k"}, "text", ""},
		{render.Ref{Kind: "ConfigMap", Namespace: "ns", Name: "m", Key: "b"}, "value", ""},
		{render.Ref{Kind: "Secret", Namespace: "ns", Name: "s", Key: "other"}, "", "the object has no such key"},
		{render.Ref{Kind: "Secret", Namespace: "ns", Name: "s", Key: "broken"}, "", "not valid base64"},
		{render.Ref{Kind: "Secret", Namespace: "ns", Name: "none", Key: "k"}, "", "there is no such Secret"},
	} {
		err := o.Read(t.Context(), "shop", func(objects render.Objects) error {
			got, err := objects.Value(tt.ref)
			if got != tt.want {
				t.Errorf("%s is %q, want %q", tt.ref, got, tt.want)
			}
			return err
		})
		var missing *render.MissingError
		if tt.problem == "" && err != nil || tt.problem != "" &&
			(!errors.As(err, &missing) || !strings.Contains(missing.Problem, tt.problem)) {
			t.Errorf("%s: %v, want %q", tt.ref, err, tt.problem)
		}
	}
	// An invalid name is an error, because no such object can be created later.
	err = o.Read(t.Context(), "shop", func(objects render.Objects) error {
		_, err := objects.Value(render.Ref{Kind: "Secret", Namespace: "ns", Name: "a/b", Key: "k"})
		return err
	})
	if err == nil || errors.As(err, new(*render.MissingError)) {
		t.Errorf("%v", err)
	}
	// The last read was of a missing object, which is created now.
	read := func() error {
		return o.Read(t.Context(), "shop", func(objects render.Objects) error {
			_, err := objects.Value(render.Ref{Kind: "Secret", Namespace: "ns", Name: "none", Key: "k"})
			return err
		})
	}
	if err := read(); err == nil {
		t.Error("it is there already")
	}
	made := object("Secret", "none", "2", map[string]any{"data": map[string]any{"k": "dmFsdWU="}})
	if _, err := client.Resource(secrets).Namespace("ns").Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-causes:
		if got != "shop: Secret ns/none: Added" {
			t.Errorf("%q", got)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("nobody is told of it")
	}
	if err := read(); err != nil {
		t.Error(err)
	}
	if err := o.Forget("shop"); err != nil {
		t.Error(err)
	}
}

func TestNone(t *testing.T) {
	o, err := Open("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-o.Started()
	err = o.Read(t.Context(), "shop", func(objects render.Objects) error {
		_, err := objects.Value(render.Ref{Kind: "Secret", Namespace: "a", Name: "b", Key: "c"})
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "Secret a/b, key c cannot be read: the hub has no --kubeconfig") ||
		errors.As(err, new(*render.MissingError)) {
		t.Errorf("%v", err)
	}
	if o.Mapper() != nil || o.Start(t.Context()) != nil || o.Forget("shop") != nil {
		t.Error("there is something")
	}
	if _, err := Open("/there/is/no/file", nil, nil); err == nil || !strings.Contains(err.Error(), "/there/is/no/file") {
		t.Errorf("%v", err)
	}
}
