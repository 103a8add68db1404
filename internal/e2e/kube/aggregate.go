// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/base64"
	"maps"
	"net"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

// aggregate adds the flags of a front proxy to those of the API server.
func aggregate(t testing.TB, flags map[string][]string) map[string][]string {
	t.Helper()
	folder, authority := t.TempDir(), certtest.New(t)
	cert, key := authority.Issue(t, "front-proxy").Write(t, folder, "front-proxy")
	all := map[string][]string{
		"proxy-client-cert-file":             {cert},
		"proxy-client-key-file":              {key},
		"requestheader-client-ca-file":       {authority.Write(t, folder, "front-proxy-ca")},
		"requestheader-allowed-names":        {"front-proxy"},
		"requestheader-username-headers":     {"X-Remote-User"},
		"requestheader-group-headers":        {"X-Remote-Group"},
		"requestheader-extra-headers-prefix": {"X-Remote-Extra-"},
	}
	maps.Copy(all, flags)
	return all
}

// CreateService creates a Service for a server of the test, which runs outside of the cluster.
func (c *Cluster) CreateService(namespace, name, host string) {
	c.t.Helper()
	if _, err := kubernetes.NewForConfigOrDie(c.Config()).CoreV1().Services(namespace).Create(c.t.Context(),
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: host},
		}, metav1.CreateOptions{}); err != nil {
		c.t.Fatalf("kube: %v", err)
	}
}

// Register creates a Service in the namespace default for an aggregated API server, and the
// APIService of a group version. The certificate of the server is for SERVICE.default.svc.
func (c *Cluster) Register(gv schema.GroupVersion, service, address, authorityPEM string) {
	c.t.Helper()
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		c.t.Fatalf("kube: %v", err)
	}
	port, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		c.t.Fatalf("kube: %v", err)
	}
	c.CreateService("default", service, host)
	services := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	if _, err := dynamic.NewForConfigOrDie(c.Config()).Resource(services).Create(c.t.Context(),
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": services.GroupVersion().String(), "kind": "APIService",
			"metadata": map[string]any{"name": gv.Version + "." + gv.Group},
			"spec": map[string]any{
				"group": gv.Group, "version": gv.Version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(100),
				"caBundle": base64.StdEncoding.EncodeToString([]byte(authorityPEM)),
				"service":  map[string]any{"namespace": "default", "name": service, "port": port},
			},
		}}, metav1.CreateOptions{}); err != nil {
		c.t.Fatalf("kube: %v", err)
	}
}
