// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocm_test

import (
	"encoding/base64"
	"net"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/apiserver"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// service is the name of the Service of the aggregated API server.
const service = "works"

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// aggregated is an aggregated API server of the works of a source.
type aggregated struct {
	t         *testing.T
	hub       *hub
	broker    *mosquitto.Broker
	folder    string // of the store
	address   string
	cert, key string // the files of the certificate
	stop      func()
}

// aggregate starts a source on a broker, and an aggregated API server of the source's works. It
// returns when the hub forwards requests for works.
func aggregate(t *testing.T, h *hub, broker *mosquitto.Broker) *aggregated {
	t.Helper()
	a := &aggregated{t: t, hub: h, broker: broker, folder: t.TempDir(), address: "127.0.0.1:0"}
	ca := certtest.New(t)
	a.cert, a.key = ca.Issue(t, service, service+".default.svc").Write(t, a.folder, "serving")
	if err := a.start().InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.register(a.address, ca)
	return a
}

// start starts the source and the API server.
func (a *aggregated) start() *work.Source {
	a.t.Helper()
	transport, err := mqtt.New(mqtt.Options{BrokerURL: a.broker.URL()})
	if err != nil {
		a.t.Fatal(err)
	}
	store, err := boltstore.Open(filepath.Join(a.folder, "works.db"), boltstore.Options{})
	if err != nil {
		a.t.Fatal(err)
	}
	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "hub", Store: store})
	if err != nil {
		a.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", a.address)
	if err != nil {
		a.t.Fatal(err)
	}
	a.address = listener.Addr().String()
	o := apiserver.NewOptions()
	o.Recommended.SecureServing.Listener = listener
	o.Recommended.SecureServing.ServerCert.CertKey = options.CertKey{CertFile: a.cert, KeyFile: a.key}
	o.Recommended.CoreAPI.CoreAPIKubeconfigPath = a.hub.Kubeconfig()
	o.Recommended.Authentication.RemoteKubeConfigFile = a.hub.Kubeconfig()
	o.Recommended.Authorization.RemoteKubeConfigFile = a.hub.Kubeconfig()
	server, err := apiserver.New(source, o)
	if err != nil {
		a.t.Fatal(err)
	}
	stopSource := background(a.t, source.Start)
	stopServer := background(a.t, server.Start)
	a.stop = sync.OnceFunc(func() {
		stopServer() // requests need the source
		stopSource()
		if err := store.Close(); err != nil {
			a.t.Error(err)
		}
	})
	a.t.Cleanup(a.stop)
	return source
}

// restart replaces the source and the API server. The store stays.
func (a *aggregated) restart() {
	a.t.Helper()
	a.stop()
	a.start()
}

// register registers the API of works. It returns when the hub forwards requests for works.
func (h *hub) register(address string, ca *certtest.Authority) {
	h.t.Helper()
	port, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(h.Config()).CoreV1().Services("default").Create(h.t.Context(),
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: service},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "127.0.0.1"},
		}, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(h.Config()).Resource(apiServices)
	if _, err := client.Create(h.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1." + workv1.GroupName},
		"spec": map[string]any{
			"group": workv1.GroupName, "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(100),
			"caBundle": base64.StdEncoding.EncodeToString([]byte(ca.PEM)),
			"service":  map[string]any{"namespace": "default", "name": service, "port": int64(port.Port)},
		},
	}}, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
	works := workclientset.NewForConfigOrDie(h.Config())
	eventually(h.t, "the hub forwards requests for works", func() error {
		_, err := works.WorkV1().ManifestWorks("").List(h.t.Context(), metav1.ListOptions{})
		return err
	})
}
