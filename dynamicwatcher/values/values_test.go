// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package values

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

func TestValues(t *testing.T) {
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{secrets: "SecretList", configMaps: "ConfigMapList"},
		object("Secret", "s", "1", map[string]any{"data": map[string]any{"k": "dmFsdWU=", "broken": "?"}}),
		object("ConfigMap", "m", "1",
			map[string]any{"data": map[string]any{"k": "text"}, "binaryData": map[string]any{"b": "dmFsdWU="}}))
	causes := make(chan string, 10)
	o, err := New(Options{Watcher: dynamicwatcher.Options{Dynamic: client},
		Changed: func(_ context.Context, application, cause string) error {
			causes <- application + ": " + cause
			return nil
		}})
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
		ref     Ref
		want    string
		problem string // of a missing value
	}{
		{Ref{Kind: "Secret", Namespace: "ns", Name: "s", Key: "k"}, "value", ""},
		{Ref{Kind: "ConfigMap", Namespace: "ns", Name: "m", Key: "k"}, "text", ""},
		{Ref{Kind: "ConfigMap", Namespace: "ns", Name: "m", Key: "b"}, "value", ""},
		{Ref{Kind: "Secret", Namespace: "ns", Name: "s", Key: "other"}, "", "the object has no such key"},
		{Ref{Kind: "Secret", Namespace: "ns", Name: "s", Key: "broken"}, "", "not valid base64"},
		{Ref{Kind: "Secret", Namespace: "ns", Name: "none", Key: "k"}, "", "there is no such Secret"},
	} {
		err := o.Read(t.Context(), "shop", func(objects Reader) error {
			got, err := objects.Value(tt.ref)
			if got != tt.want {
				t.Errorf("%s is %q, want %q", tt.ref, got, tt.want)
			}
			return err
		})
		var missing *MissingError
		if tt.problem == "" && err != nil || tt.problem != "" &&
			(!errors.As(err, &missing) || !strings.Contains(missing.Problem, tt.problem)) {
			t.Errorf("%s: %v, want %q", tt.ref, err, tt.problem)
		}
	}
	// An invalid name is an error, because no such object can be created later.
	err = o.Read(t.Context(), "shop", func(objects Reader) error {
		_, err := objects.Value(Ref{Kind: "Secret", Namespace: "ns", Name: "a/b", Key: "k"})
		return err
	})
	if err == nil || errors.As(err, new(*MissingError)) {
		t.Errorf("%v", err)
	}
	// The last read was of a missing object, which is created now.
	read := func() error {
		return o.Read(t.Context(), "shop", func(objects Reader) error {
			_, err := objects.Value(Ref{Kind: "Secret", Namespace: "ns", Name: "none", Key: "k"})
			return err
		})
	}
	if err := read(); err == nil {
		t.Error("the Secret exists already")
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
		t.Fatal("the reader was not notified")
	}
	if err := read(); err != nil {
		t.Error(err)
	}
	if err := o.Forget("shop"); err != nil {
		t.Error(err)
	}
}

func TestNone(t *testing.T) {
	o := None("the program has no --kubeconfig")
	<-o.Started()
	err := o.Read(t.Context(), "shop", func(objects Reader) error {
		_, err := objects.Value(Ref{Kind: "Secret", Namespace: "a", Name: "b", Key: "c"})
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "Secret a/b, key c cannot be read: the program has no --kubeconfig") ||
		errors.As(err, new(*MissingError)) {
		t.Errorf("%v", err)
	}
	if o.Start(t.Context()) != nil || o.Forget("shop") != nil {
		t.Error("values without a cluster have watches")
	}
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "Options.Changed") {
		t.Errorf("%v", err)
	}
}
