// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocm_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	clusterclientset "open-cluster-management.io/api/client/cluster/clientset/versioned"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1alpha1client "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1alpha1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

const (
	fleet     = "fleet"           // the namespace of the placement and the replica set
	shop      = "shop"            // the name of both, and of the ConfigMap in the works
	decisions = "shop-decision-1" // the name of the placement's decisions
)

// scene is a hub with two managed clusters.
type scene struct {
	t        *testing.T
	name     string // also the namespace of the objects of works
	hub      *hub
	managed  map[string]*hub // by the name of the cluster
	agent    []string        // the flags that connect an agent to the hub
	restart  func()          // restarts the API server of works; may be nil
	clusters clusterclientset.Interface
	works    workclientset.Interface
}

// prepare creates the namespaces, and a placement that selects all clusters. No placement controller
// runs, so prepare also writes the placement's status.
func (s *scene) prepare() {
	s.t.Helper()
	s.clusters = clusterclientset.NewForConfigOrDie(s.hub.Config())
	s.works = workclientset.NewForConfigOrDie(s.hub.Config())
	s.hub.CreateNamespaces(fleet)
	for name, cluster := range s.managed {
		s.hub.CreateNamespaces(name)
		cluster.CreateNamespaces(s.name)
	}
	api := s.clusters.ClusterV1beta1()
	_, err := api.Placements(fleet).Create(s.t.Context(),
		&clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Name: shop}}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	decision := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Name: decisions}}
	decision.Labels = map[string]string{
		clusterv1beta1.PlacementLabel: shop, clusterv1beta1.DecisionGroupIndexLabel: "0",
	}
	if _, err = api.PlacementDecisions(fleet).Create(s.t.Context(), decision, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.selectClusters(slices.Sorted(maps.Keys(s.managed))...)
}

// selectClusters sets the clusters of the placement.
func (s *scene) selectClusters(names ...string) {
	s.t.Helper()
	api := s.clusters.ClusterV1beta1()
	decision, err := api.PlacementDecisions(fleet).Get(s.t.Context(), decisions, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	decision.Status.Decisions = nil
	for _, name := range names {
		decision.Status.Decisions = append(decision.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: name})
	}
	if _, err = api.PlacementDecisions(fleet).UpdateStatus(s.t.Context(), decision, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	placement, err := api.Placements(fleet).Get(s.t.Context(), shop, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	placement.Status.Conditions = []metav1.Condition{} // required
	placement.Status.NumberOfSelectedClusters = int32(len(names))
	placement.Status.DecisionGroups = []clusterv1beta1.DecisionGroupStatus{{
		Decisions: []string{decision.Name}, ClustersCount: int32(len(names)),
	}}
	if _, err = api.Placements(fleet).UpdateStatus(s.t.Context(), placement, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// template returns a work with one ConfigMap. The value is also the generation of the works.
func (s *scene) template(value string) (spec workv1.ManifestWorkSpec) {
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q},"data":{"value":%q}}`,
		shop, s.name, value)
	spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(text)}}}
	return spec
}

// startAgent starts the agent of a cluster.
func (s *scene) startAgent(name string) {
	s.t.Helper()
	args := append([]string{"--cluster", name, "--hub-name", s.name, "--kubeconfig", s.managed[name].Kubeconfig(),
		"--poll", "1s", "-v", "2"}, s.agent...)
	agent, err := daemon.Start(e2etest.Program(s.t, "agent", true), args...)
	if err != nil {
		s.t.Fatal(err)
	}
	agent.StopAfter(s.t, "the agent of "+name)
}

// rolledOut waits until the replica set's status has a total of works, and the named clusters have
// the value.
func (s *scene) rolledOut(what string, total int, value string, names ...string) {
	s.t.Helper()
	eventually(s.t, what, func() error {
		set, err := s.sets().Get(s.t.Context(), shop, metav1.GetOptions{})
		if err != nil {
			return err
		}
		text, _ := json.Marshal(set.Status)
		want := workv1alpha1.ManifestWorkReplicaSetSummary{Total: total, Applied: len(names), Available: len(names)}
		complete := meta.IsStatusConditionTrue(set.Status.Conditions,
			workv1alpha1.ManifestWorkReplicaSetConditionPlacementRolledOut)
		if set.Status.Summary != want || complete != (total == len(names)) {
			return fmt.Errorf("the status is %s", text)
		}
		for _, name := range names {
			if err := s.applied(name, value); err != nil {
				return err
			}
		}
		return nil
	})
}

// applied returns an error unless a cluster has the value, and its work has the status of it.
func (s *scene) applied(name, value string) error {
	w, err := s.works.WorkV1().ManifestWorks(name).Get(s.t.Context(), shop, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if fmt.Sprint(w.Generation) != value {
		return fmt.Errorf("the work of %s has the generation %d, want %s", name, w.Generation, value)
	}
	c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkAvailable)
	if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != w.Generation {
		return fmt.Errorf("the condition of %s is %+v", name, c)
	}
	live, err := s.configMap(name)
	if err != nil {
		return err
	}
	if live.Data["value"] != value {
		return fmt.Errorf("%s has %v", name, live.Data)
	}
	return nil
}

// configMap returns the ConfigMap of a cluster.
func (s *scene) configMap(name string) (*corev1.ConfigMap, error) {
	return kubernetes.NewForConfigOrDie(s.managed[name].Config()).CoreV1().ConfigMaps(s.name).Get(s.t.Context(), shop,
		metav1.GetOptions{})
}

// gone waits until the clusters have neither works nor their objects.
func (s *scene) gone(what string, names ...string) {
	s.t.Helper()
	eventually(s.t, what, func() error {
		for _, name := range names {
			_, err := s.works.WorkV1().ManifestWorks(name).Get(s.t.Context(), shop, metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("the work of %s: %w", name, err)
			}
			if _, err = s.configMap(name); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the ConfigMap of %s: %w", name, err)
			}
		}
		return nil
	})
}

// requests are the verbs that the manager uses for works, wherever these are stored.
var requests = []string{"create", "delete", "list", "patch", "watch"}

// rollout rolls out a replica set, one cluster at a time.
func (s *scene) rollout() *daemon.Daemon {
	s.t.Helper()
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: shop}}
	set.Spec.ManifestWorkTemplate = s.template("1")
	set.Spec.CascadeDeletionPolicy = workv1alpha1.Foreground
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: shop}}
	set.Spec.PlacementRefs[0].RolloutStrategy = clusterv1alpha1.RolloutStrategy{
		Type:        clusterv1alpha1.Progressive,
		Progressive: &clusterv1alpha1.RolloutProgressive{MaxConcurrency: intstr.FromInt32(1)},
	}
	if _, err := s.sets().Create(s.t.Context(), set, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	manager := s.hub.startManager(s.t)
	s.rolledOut("the first cluster has a work", 1, "")
	s.startAgent("cluster1")
	// The status of the first cluster starts the rollout to the second.
	s.rolledOut("the second cluster has a work", 2, "1", "cluster1")
	s.startAgent("cluster2")
	s.rolledOut("the rollout is complete", 2, "1", "cluster1", "cluster2")
	return manager
}

// change changes the template of the replica set.
func (s *scene) change(value string) {
	s.t.Helper()
	eventually(s.t, "change of the template", func() error {
		set, err := s.sets().Get(s.t.Context(), shop, metav1.GetOptions{})
		if err != nil {
			return err
		}
		set.Spec.ManifestWorkTemplate = s.template(value)
		_, err = s.sets().Update(s.t.Context(), set, metav1.UpdateOptions{})
		return err // a conflict with a newer status is retried
	})
}

// sets returns the client of replica sets.
func (s *scene) sets() workv1alpha1client.ManifestWorkReplicaSetInterface {
	return s.works.WorkV1alpha1().ManifestWorkReplicaSets(fleet)
}

// story is the life of a replica set.
func (s *scene) story() {
	s.prepare()
	manager := s.rollout()
	manager.Stop()
	s.change("2")
	s.hub.startManager(s.t)
	s.rolledOut("the change is complete", 2, "2", "cluster1", "cluster2")
	value := "2"
	if s.restart != nil {
		value = "3"
		s.restart()
		s.change(value)
		s.rolledOut("the change after the restart is complete", 2, value, "cluster1", "cluster2")
	}
	s.selectClusters("cluster1")
	s.gone("the work of the removed cluster is gone", "cluster2")
	s.rolledOut("one cluster is left", 1, value, "cluster1")
	if err := s.sets().Delete(s.t.Context(), shop, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.gone("the works are gone", "cluster1")
	eventually(s.t, "the replica set is gone", func() error {
		if _, err := s.sets().Get(s.t.Context(), shop, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	if got := s.hub.requests(s.t); !slices.Equal(got, requests) {
		s.t.Errorf("the manager's requests for works are %q, want %q", got, requests)
	}
}

func TestManifestWorkReplicaSet(t *testing.T) {
	t.Parallel()
	names := []string{
		"work.open-cluster-management.io_manifestworkreplicasets",
		"clusters.open-cluster-management.io_placements", "clusters.open-cluster-management.io_placementdecisions",
	}
	first := startHub(t, append(names, "work.open-cluster-management.io_manifestworks")...)
	second := startHub(t, names...)
	managed := map[string]*hub{"cluster1": first, "cluster2": second}
	for _, cluster := range managed {
		cluster.StartControllerManager()
	}
	t.Run("kube", func(t *testing.T) {
		s := &scene{t: t, name: "kube", hub: first, managed: managed,
			agent: []string{"--hub-kubeconfig", first.Kubeconfig()}}
		s.story()
	})
	t.Run("aggregated", func(t *testing.T) {
		broker := mosquitto.Start(t, mosquitto.Options{})
		works := aggregate(t, second, broker)
		s := &scene{t: t, name: "aggregated", hub: second, managed: managed,
			agent: []string{"--broker", broker.URL(), "--source", "hub"}, restart: works.restart}
		s.story()
	})
}
