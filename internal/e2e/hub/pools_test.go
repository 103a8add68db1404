// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/interpreter"
)

// pools is a kind with a health that only a webhook can determine.
var pools = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "pools"}

// poolCRD writes the CRD of pools into a file.
func poolCRD(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pools.yaml")
	err := os.WriteFile(file, []byte(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pools.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Pool, plural: pools, singular: pool}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {size: {type: integer}}},
      status: {type: object, properties: {size: {type: integer}}}}}}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// servePools serves the webhook until the end of the test, and returns its configuration.
func servePools(t *testing.T, ca *certtest.Authority, folder string) string {
	t.Helper()
	certFile, keyFile := ca.Issue(t, "pools").Write(t, folder, "pools")
	server, err := interpreter.NewServer(interpreter.ServerOptions{
		Addr: "127.0.0.1:0", CertDir: folder, CertName: filepath.Base(certFile), KeyName: filepath.Base(keyFile),
	})
	if err != nil {
		t.Fatal(err)
	}
	err = interpreter.Register(server, "/pools", interpreter.HandlerFor[*unstructured.Unstructured]{
		Health: func(_ context.Context, p *unstructured.Unstructured) (bool, error) {
			want, _, _ := unstructured.NestedInt64(p.Object, "spec", "size")
			have, _, _ := unstructured.NestedInt64(p.Object, "status", "size")
			return have >= want, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	e2etest.Background(t, server.Start)
	select {
	case <-server.Ready():
	case <-time.After(e2etest.Patience):
		t.Fatal("the webhook does not serve")
	}
	return fmt.Sprintf(`apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterWebhookConfiguration
metadata: {name: pools}
webhooks:
- name: health.pools.example.com
  clientConfig: {url: "https://%s/pools", caBundle: %s}
  rules:
  - {operations: [InterpretHealth], apiGroups: [example.com], apiVersions: ["*"], kinds: [Pool]}
  interpreterContextVersions: [v1alpha1]
`, server.Addr(), base64.StdEncoding.EncodeToString([]byte(ca.PEM)))
}

// fill reports the size of a pool in its status, in place of a controller.
func (p *spoke) fill(name string, size int64) {
	p.t.Helper()
	eventually(p.t, "the Pool of "+p.name+" is filled", func() error {
		client := p.dynamic.Resource(pools).Namespace(namespace)
		u, err := client.Get(p.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedField(u.Object, size, "status", "size"); err != nil {
			return err
		}
		_, err = client.UpdateStatus(p.t.Context(), u, metav1.UpdateOptions{})
		return err
	})
}
