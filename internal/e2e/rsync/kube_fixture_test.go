// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	kubeconnector "github.com/spokewire/sdk-go/rsync/connector/kube"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

var kube1 = appcontext.ClusterID{Provider: "edge", Name: "c1"}

// kubeSite is a namespace on the shared API server, and a connector to it.
type kubeSite struct {
	t         *testing.T
	client    *kubernetes.Clientset
	config    *rest.Config
	namespace string
	connector connector.Connector
}

// newKubeSite creates a namespace for the test. If config is nil, the connector has all rights.
func newKubeSite(t *testing.T, config *rest.Config, options kubeconnector.Options) *kubeSite {
	t.Helper()
	s := &kubeSite{t: t, config: kube.Shared(t).Config()}
	s.client = kubernetes.NewForConfigOrDie(s.config)
	s.namespace = newKubeNamespace(t, s.client)
	if config == nil {
		config = s.config
	}
	s.connector = openKube(t, config, options)
	return s
}

func newKubeNamespace(t *testing.T, client *kubernetes.Clientset) string {
	t.Helper()
	name := regexp.MustCompile("[^a-z0-9]+").ReplaceAllString(strings.ToLower(t.Name()), "-") + "-"
	name = name[:min(len(name), 50)]
	ns, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

func openKube(t *testing.T, config *rest.Config, options kubeconnector.Options) connector.Connector {
	t.Helper()
	connectors := newKubeConnectors(t, map[string]kubeconnector.Cluster{"*": {Config: config}}, options)
	c, err := connectors.Connector(t.Context(), kube1.Provider, kube1.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newKubeConnectors(
	t *testing.T, clusters map[string]kubeconnector.Cluster, options kubeconnector.Options,
) *kubeconnector.Connectors {
	t.Helper()
	connectors, err := kubeconnector.New(clusters, options)
	if err != nil {
		t.Fatal(err)
	}
	return connectors
}

// proxied returns a configuration that uses a proxy, and the proxy.
func proxied(t *testing.T, config *rest.Config) (*rest.Config, *tcpproxy.Proxy) {
	t.Helper()
	proxy := tcpproxy.Start(t, strings.TrimSuffix(strings.TrimPrefix(config.Host, "https://"), "/"))
	config = rest.CopyConfig(config)
	config.Host = "https://" + proxy.Addr()
	return config, proxy
}

// resource returns the resource of a manifest.
func resource(t *testing.T, manifest string) appcontext.Resource {
	t.Helper()
	object, err := appcontext.ParseObject([]byte(manifest))
	if err != nil {
		t.Fatalf("%v in %s", err, manifest)
	}
	return appcontext.Resource{Object: object, Manifest: []byte(manifest)}
}

// batch returns a batch of manifests. It replaces NS with the namespace.
func (s *kubeSite) batch(manifests ...string) connector.Batch {
	s.t.Helper()
	b := connector.Batch{AppContextID: "ctx", App: "app", Cluster: kube1}
	for _, m := range manifests {
		b.Resources = append(b.Resources, resource(s.t, strings.ReplaceAll(m, "NS", s.namespace)))
	}
	return b
}

func (s *kubeSite) apply(manifests ...string) {
	s.t.Helper()
	if err := s.connector.Apply(s.t.Context(), s.batch(manifests...)); err != nil {
		s.t.Fatalf("Apply: %v", err)
	}
}

// refused checks that an error has a class, parts of a text, and the object of the last manifest.
func (s *kubeSite) refused(err, class error, object string, parts ...string) {
	s.t.Helper()
	var e *connector.Error
	if !errors.As(err, &e) || !errors.Is(connector.ClassOf(err), class) || !strings.Contains(e.Object.String(), object) {
		s.t.Fatalf("%v, want class %v about %s", err, class, object)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			s.t.Errorf("%v, want %q in it", err, part)
		}
	}
	if strings.Contains(fmt.Sprintf("%+v %#v", err, err), "s3cr3t") {
		s.t.Errorf("the error has content of the manifest: %#v", err)
	}
}

func (s *kubeSite) state(manifest string) connector.State {
	s.t.Helper()
	states, err := s.connector.Get(s.t.Context(), s.batch(manifest))
	if err != nil {
		s.t.Fatalf("Get: %v", err)
	}
	return states[0]
}

// startEngine runs an engine until the end of the test.
func startEngine(t *testing.T, connectors connector.Connectors, options rsync.Options) *rsync.Engine {
	t.Helper()
	engine, err := rsync.New(memstore.New(memstore.Options{}), connectors, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
	return engine
}

// createContext builds a context and stores it.
func createContext(t *testing.T, engine *rsync.Engine, id string, build func(*appcontext.Builder)) {
	t.Helper()
	b := appcontext.NewBuilder(id)
	build(b)
	c, err := b.Build()
	if err == nil {
		err = engine.Create(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// await waits for an event.
func await(t *testing.T, engine *rsync.Engine, ref rsync.EventRef, err error) (*rsync.Status, error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return engine.Wait(ctx, ref)
}

func manifestOf(name, value string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: NS}, data: {key: %q}}", name,
		value)
}

// crd returns the manifest of a CRD, and thing returns an object of its kind.
func crd(group string) string {
	return strings.ReplaceAll(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {size: {type: integer}}},
      status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
`, "GROUP", group)
}

func thing(group, name string, size int) string {
	return fmt.Sprintf("{apiVersion: %s/v1, kind: Thing, metadata: {name: %s, namespace: NS}, spec: {size: %d}}", group,
		name, size)
}
