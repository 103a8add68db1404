// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

func transport(t *testing.T, broker *mosquitto.Broker) *mqtt.Transport {
	t.Helper()
	tr, err := mqtt.New(mqtt.Options{BrokerURL: broker.URL()})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// spoke is a managed cluster: an API server and, while it runs, an agent with its work controller.
type spoke struct {
	root   *testing.T // the whole test, which ends the processes
	t      *testing.T // the current step
	name   string
	broker *mosquitto.Broker
	config *rest.Config
	client kubernetes.Interface
	stop   func()
}

func newSpoke(t *testing.T, name string, broker *mosquitto.Broker) *spoke {
	cluster := kube.Start(t, kube.Options{})
	cluster.StartControllerManager()
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	s := &spoke{root: t, t: t, name: name, broker: broker, config: cluster.Config(), client: client}
	s.start()
	return s
}

// start runs the agent and the controller like one process: both end together.
func (s *spoke) start() {
	agent, err := work.NewAgent(transport(s.root, s.broker),
		work.AgentOptions{ClusterName: s.name, Sources: []string{"hub"}})
	if err != nil {
		s.root.Fatal(err)
	}
	stopAgent := background(s.root, agent.Start)
	stopController := background(s.root, func(ctx context.Context) error {
		return runWorkAgent(ctx, s.root, agent.Clientset(), s.name, s.config)
	})
	s.stop = func() { stopController(); stopAgent() }
}

func (s *spoke) value() (string, error) {
	cm, err := s.client.CoreV1().ConfigMaps("shop").Get(context.Background(), "settings", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return cm.Data["value"], nil
}

// eventuallyValue waits until the cluster's own API server has the value.
func (s *spoke) eventuallyValue(want string) {
	s.t.Helper()
	eventually(s.t, s.name+" applies value "+want, func() error {
		got, err := s.value()
		if err == nil && got != want {
			err = fmt.Errorf("value %q", got)
		}
		return err
	})
}

// hub is the source with an informer, as a hub controller uses it.
type hub struct {
	t      *testing.T
	source *work.Source
	store  cache.Store
}

func newHub(t *testing.T, broker *mosquitto.Broker) *hub {
	source, err := work.NewSource(transport(t, broker), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	background(t, source.Start)
	if err := source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	factory := workinformers.NewSharedInformerFactory(source.Clientset(), 0)
	informer := factory.Work().V1().ManifestWorks().Informer()
	stop := make(chan struct{})
	factory.Start(stop)
	t.Cleanup(func() { close(stop); factory.Shutdown() })
	if !cache.WaitForCacheSync(stop, informer.HasSynced) {
		t.Fatal("the hub's informer did not sync")
	}
	return &hub{t: t, source: source, store: informer.GetStore()}
}

func (h *hub) create(cluster, name string, manifests ...string) {
	h.t.Helper()
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec(manifests...)}
	if _, err := h.source.Clientset().WorkV1().ManifestWorks(cluster).Create(h.t.Context(), w,
		metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

func spec(manifests ...string) workv1.ManifestWorkSpec {
	var s workv1.ManifestWorkSpec
	for _, m := range manifests {
		s.Workload.Manifests = append(s.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
	}
	return s
}

func (h *hub) update(cluster, name string, manifests ...string) {
	h.t.Helper()
	works := h.source.Clientset().WorkV1().ManifestWorks(cluster)
	eventually(h.t, "update of "+cluster+"/"+name, func() error {
		w, err := works.Get(h.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		w.Spec = spec(manifests...)
		_, err = works.Update(h.t.Context(), w, metav1.UpdateOptions{})
		return err // a conflict with a newer status is retried
	})
}

func (h *hub) delete(cluster, name string) {
	h.t.Helper()
	if err := h.source.Clientset().WorkV1().ManifestWorks(cluster).Delete(h.t.Context(), name,
		metav1.DeleteOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// eventuallyApplied waits until the informer shows the generation as applied, for the work and each
// manifest.
func (h *hub) eventuallyApplied(cluster, name string, generation int64, manifests int) {
	h.t.Helper()
	eventually(h.t, fmt.Sprintf("%s/%s generation %d applied", cluster, name, generation), func() error {
		obj, ok, err := h.store.GetByKey(cluster + "/" + name)
		if err != nil {
			return err
		}
		if !ok {
			return errors.New("not in the informer")
		}
		w := obj.(*workv1.ManifestWork)
		c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != generation {
			status, _ := json.Marshal(w.Status)
			return fmt.Errorf("generation %d has status %s", w.Generation, status)
		}
		for _, m := range w.Status.ResourceStatus.Manifests {
			if !meta.IsStatusConditionTrue(m.Conditions, workv1.ManifestApplied) || m.ResourceMeta.Resource == "" {
				return fmt.Errorf("manifest %+v", m)
			}
		}
		if n := len(w.Status.ResourceStatus.Manifests); n != manifests {
			return fmt.Errorf("%d manifests are reported, want %d", n, manifests)
		}
		return nil
	})
}

func (h *hub) eventuallyGone(cluster, name string) {
	h.t.Helper()
	eventually(h.t, cluster+"/"+name+" gone from the hub", func() error {
		if _, ok, _ := h.store.GetByKey(cluster + "/" + name); ok {
			return fmt.Errorf("still in the informer")
		}
		return nil
	})
}

func settings(value string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"shop"},"data":{"value":%q}}`, value)
}

const (
	namespace = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`
	tenants   = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"tenants"}}`
	web       = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},
		"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"registry.example/web:1","env":[{"name":"VALUE","valueFrom":{"configMapKeyRef":{"name":"settings","key":"value"}}}]}]}}}}`
	tenantCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"tenants.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"tenants","singular":"tenant","kind":"Tenant","listKind":"TenantList"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
	tenant = `{"apiVersion":"example.com/v1","kind":"Tenant","metadata":{"name":"acme","namespace":"tenants"},"spec":{"plan":"gold"}}`
)

// TestMainJob checks the SDK's main job on real parts: a hub, a Mosquitto, and two clusters with
// separate API servers. It creates, updates and deletes works, and restarts the processes.
func TestMainJob(t *testing.T) {
	t.Parallel()
	broker := mosquitto.Start(t, mosquitto.Options{})
	h := newHub(t, broker)
	spokes := []*spoke{newSpoke(t, "cluster1", broker), newSpoke(t, "cluster2", broker)}
	generation := int64(1)
	everywhere := func(t *testing.T, f func(*spoke)) {
		t.Helper()
		for _, s := range spokes {
			s.t, h.t = t, t
			f(s)
		}
	}
	changeTo := func(value string) func(*spoke) {
		return func(s *spoke) { h.update(s.name, "app", namespace, settings(value), web) }
	}
	arrived := func(t *testing.T, value string) {
		t.Helper()
		everywhere(t, func(s *spoke) {
			t.Helper()
			s.eventuallyValue(value)
			h.eventuallyApplied(s.name, "app", generation, 3)
		})
	}

	steps := []struct {
		name string
		run  func(t *testing.T)
	}{
		{"create", func(t *testing.T) {
			everywhere(t, func(s *spoke) {
				h.create(s.name, "tenant", tenants, tenantCRD, tenant)
				h.create(s.name, "app", namespace, settings("1"), web)
			})
			arrived(t, "1")
			everywhere(t, func(s *spoke) { h.eventuallyApplied(s.name, "tenant", 1, 3) })
		}},
		{"update", func(t *testing.T) {
			generation++
			everywhere(t, changeTo("2"))
			arrived(t, "2")
		}},
		{"agent restart", func(t *testing.T) {
			spokes[0].stop()
			generation++
			everywhere(t, changeTo("3"))
			spokes[1].eventuallyValue("3")
			if got, err := spokes[0].value(); err != nil || got != "2" {
				t.Errorf("the stopped agent's cluster has value %q, %v", got, err)
			}
			spokes[0].start()
			arrived(t, "3")
		}},
		{"broker restart", func(t *testing.T) {
			broker.Kill()
			generation++
			everywhere(t, changeTo("4"))
			broker.Restart()
			arrived(t, "4")
		}},
		{"delete while the agent is away", func(t *testing.T) {
			spokes[0].stop()
			everywhere(t, func(s *spoke) { h.delete(s.name, "tenant") })
			h.eventuallyGone("cluster2", "tenant")
			spokes[0].start()
			h.eventuallyGone("cluster1", "tenant")
		}},
		{"delete", func(t *testing.T) {
			everywhere(t, func(s *spoke) { h.delete(s.name, "app") })
			everywhere(t, func(s *spoke) {
				h.eventuallyGone(s.name, "app")
				if _, err := s.client.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{}); !apierrors.IsNotFound(
					err) {
					t.Errorf("%s still has the namespace: %v", s.name, err)
				}
			})
			if n := len(h.store.List()); n != 0 {
				t.Errorf("the hub's informer still has %d works", n)
			}
		}},
	}
	for _, step := range steps {
		if !t.Run(step.name, step.run) {
			return
		}
	}
}
