// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent_test runs examples/agent as processes on a real API server. The API server is the
// managed cluster and, with the transport kube, also the hub. With the transport mqtt, a Mosquitto
// is between the agent and a source in the test.
package agent_test

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

var eventually, background = e2etest.Eventually, e2etest.Background

func TestMain(m *testing.M) {
	e2etest.Prepare("agent", true) // while the servers start
	os.Exit(kube.Main(m))
}

// world is shared by all agents of a test: its own broker, and the cluster of all tests.
type world struct {
	t       *testing.T
	cluster *kube.Cluster
	broker  *mosquitto.Broker
	admin   dynamic.Interface
	core    kubernetes.Interface
	access  mqtt.Options // to the broker, except its URL
	source  *work.Source
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, broker: mosquitto.Start(t, mosquitto.Options{})}
	w.cluster = kube.Shared(t)
	w.cluster.StartControllerManager()
	w.admin = dynamic.NewForConfigOrDie(w.cluster.Config())
	w.core = kubernetes.NewForConfigOrDie(w.cluster.Config())
	w.source = w.newSource(t, "hub", nil)
	return w
}

// newSource starts a source that ends with the test.
func (w *world) newSource(t *testing.T, id string, store work.Store) *work.Source {
	t.Helper()
	options := w.access
	options.BrokerURL = w.broker.URL()
	transport, err := mqtt.New(options)
	if err != nil {
		t.Fatal(err)
	}
	source, err := work.NewSource(transport, work.SourceOptions{SourceID: id, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	background(t, source.Start)
	if err := source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	return source
}

// transports are the transports that the suite runs on.
var transports = []string{"mqtt", "kube"}

// hub returns the clientset that writes works, and the flags of an agent that receives them.
func (w *world) hub(t *testing.T, transport, cluster string) (workclientset.Interface, []string) {
	t.Helper()
	w.namespace(t, cluster)
	if transport == "mqtt" {
		return w.source.Clientset(), []string{"--broker", w.broker.URL(), "--source", "hub"}
	}
	return workclientset.NewForConfigOrDie(w.cluster.Config()),
		[]string{"--hub-kubeconfig", throughProxy}
}

// namespace creates a namespace for the works of a cluster on the hub, or for the objects of a
// test.
func (w *world) namespace(t *testing.T, name string) {
	t.Helper()
	if _, err := w.core.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
