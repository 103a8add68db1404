// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	workv1 "open-cluster-management.io/api/work/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// splitRun is one run of the controllers in a namespace of the hub.
type splitRun struct {
	namespace string
	cluster   *rest.Config              // of the hub
	works     *rest.Config              // nil if the cluster's configuration also serves works
	mapper    restconfig.MapperProvider // nil for the default
	agent     *rest.Config              // of works on the managed cluster
	runnables []manager.Runnable        // for the manager of the hub
}

// runManagers runs a hub controller and a work controller in managers of controller-runtime, on an API
// server with the CRD, and on a source and an agent: with the works as a second cluster of the
// manager, and with one client for both. The works are equal after each step.
func runManagers(t *testing.T, hubCluster, spokeCluster *kube.Cluster, broker *mosquitto.Broker) {
	t.Helper()
	overBroker := func(t *testing.T, cluster string) (works, agent *rest.Config, source *work.Source) {
		source, err := work.NewSource(transport(t, broker), work.SourceOptions{SourceID: "hub-of-" + cluster})
		if err != nil {
			t.Fatal(err)
		}
		a, err := work.NewAgent(transport(t, broker),
			work.AgentOptions{ClusterName: cluster, Sources: []string{"hub-of-" + cluster}})
		if err != nil {
			t.Fatal(err)
		}
		background(t, a.Start)
		works, err = restconfig.FromSource(source)
		if err != nil {
			t.Fatal(err)
		}
		agent, err = restconfig.FromAgent(a)
		if err != nil {
			t.Fatal(err)
		}
		return works, agent, source
	}
	inventory := func(s *work.Source) manager.Runnable { return manager.RunnableFunc(s.InventoryComplete) }
	kinds := map[string]func(*testing.T) splitRun{
		"apiserver": func(*testing.T) splitRun {
			return splitRun{cluster: hubCluster.Config(), works: hubCluster.Config(), agent: hubCluster.Config()}
		},
		"cloudevents": func(t *testing.T) splitRun {
			works, agent, s := overBroker(t, "cloudevents")
			return splitRun{cluster: hubCluster.Config(), works: works, agent: agent,
				runnables: []manager.Runnable{s, inventory(s)}}
		},
		"oneclient": func(t *testing.T) splitRun {
			works, agent, s := overBroker(t, "oneclient")
			both, mapper, err := restconfig.Join(hubCluster.Config(), works, apiutil.NewDynamicRESTMapper)
			if err != nil {
				t.Fatal(err)
			}
			return splitRun{cluster: both, mapper: mapper, agent: agent, runnables: []manager.Runnable{s, inventory(s)}}
		},
	}
	results := map[string][]string{}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			run := kind(t)
			run.namespace = name
			results[name] = run.do(t, spokeCluster.Config())
		})
	}
	for name := range kinds {
		if diff := cmp.Diff(results["apiserver"], results[name]); diff != "" {
			t.Errorf("%s differs from the API server (-apiserver +%s):\n%s", name, name, diff)
		}
	}
	direct, err := client.New(hubCluster.Config(), client.Options{Scheme: worksScheme})
	if err != nil {
		t.Fatal(err)
	}
	var left workv1.ManifestWorkList
	if err := direct.List(t.Context(), &left); err != nil || len(left.Items) > 0 {
		t.Errorf("the API server has %d works: %v", len(left.Items), err)
	}
}

// start runs both managers until the end of the test.
func (r *splitRun) start(t *testing.T, spoke *rest.Config) {
	t.Helper()
	o := managerOptions(r.namespace)
	o.MapperProvider = r.mapper
	o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = true, r.namespace, "default"
	mgr, err := ctrl.NewManager(r.cluster, o)
	if err != nil {
		t.Fatal(err)
	}
	works := cluster.Cluster(mgr)
	if r.works != nil {
		works, err = cluster.New(r.works, func(o *cluster.Options) { o.Scheme = worksScheme })
		if err != nil {
			t.Fatal(err)
		}
		r.runnables = append(r.runnables, works)
	}
	for _, runnable := range r.runnables {
		err = errors.Join(err, mgr.Add(runnable))
	}
	onSpoke, mgrErr := ctrl.NewManager(r.agent, managerOptions(r.namespace))
	if err := errors.Join(err, mgrErr, addSplitter(t.Context(), mgr, works)); err != nil {
		t.Fatal(err)
	}
	if err := addApplier(onSpoke, spoke); err != nil {
		t.Fatal(err)
	}
	background(t, mgr.Start)
	background(t, onSpoke.Start)
}

// do has the controllers create, update and delete the works of 5 config maps. It returns the works
// after each step.
func (r *splitRun) do(t *testing.T, spoke *rest.Config) (steps []string) {
	t.Helper()
	onHub, err := client.New(r.cluster, client.Options{Scheme: worksScheme})
	if err != nil {
		t.Fatal(err)
	}
	works := onHub
	if r.works != nil {
		if works, err = client.New(r.works, client.Options{Scheme: worksScheme}); err != nil {
			t.Fatal(err)
		}
	}
	if err := onHub.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}); err != nil {
		t.Fatal(err)
	}
	r.start(t, spoke)
	for step, data := range []map[string]string{
		{"a": "1", "b": "1", "c": "1"},
		{"a": "2", "b": "1", "c": "2"},
		{"a": "2", "d": "1"},
	} {
		steps = append(steps, fmt.Sprint("step ", step))
		for i := range 5 {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: fmt.Sprint("split", i)}}
			eventually(t, "write "+m.Name, func() error {
				_, err := ctrl.CreateOrUpdate(t.Context(), onHub, m, func() error { m.Data = data; return nil })
				return err
			})
		}
		for i := range 5 {
			r.eventuallyApplied(t, onHub, fmt.Sprint("split", i), data)
		}
		steps = append(steps, r.describe(t, works, 5*len(data))...)
	}
	if err := onHub.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(r.namespace)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all gone", func() error {
		var maps, copies corev1.ConfigMapList
		var list workv1.ManifestWorkList
		if err := errors.Join(onHub.List(t.Context(), &maps, client.InNamespace(r.namespace)),
			works.List(t.Context(), &list, client.InNamespace(r.namespace)), r.copies(t, spoke, &copies)); err != nil {
			return err
		}
		if len(maps.Items)+len(list.Items)+len(copies.Items) > 0 {
			return fmt.Errorf("%d config maps, %d works and %d copies are left", len(maps.Items), len(list.Items),
				len(copies.Items))
		}
		return nil
	})
	return steps
}

// copies lists the config maps that the agent's controller has applied.
func (r *splitRun) copies(t *testing.T, spoke *rest.Config, into *corev1.ConfigMapList) error {
	onSpoke, err := client.New(spoke, client.Options{Scheme: worksScheme})
	if err != nil {
		return err
	}
	if err := onSpoke.List(t.Context(), into, client.InNamespace("default")); err != nil {
		return err
	}
	into.Items = slices.DeleteFunc(into.Items, func(c corev1.ConfigMap) bool {
		return !strings.HasPrefix(c.Name, r.namespace+"-")
	})
	return nil
}

func (r *splitRun) eventuallyApplied(t *testing.T, onHub client.Client, name string, data map[string]string) {
	t.Helper()
	var want []string
	for k, v := range data {
		want = append(want, k+"="+v)
	}
	slices.Sort(want)
	eventually(t, name+" is applied", func() error {
		var m corev1.ConfigMap
		if err := onHub.Get(t.Context(), client.ObjectKey{Namespace: r.namespace, Name: name}, &m); err != nil {
			return err
		}
		if got := m.Annotations[splitApplied]; got != strings.Join(want, " ") {
			return fmt.Errorf("applied are %q, want %q", got, want)
		}
		return nil
	})
}

// describe returns one line for each work, once there are count works.
func (r *splitRun) describe(t *testing.T, works client.Client, count int) (lines []string) {
	t.Helper()
	var list workv1.ManifestWorkList
	eventually(t, fmt.Sprint(count, " works"), func() error {
		if err := works.List(context.Background(), &list, client.InNamespace(r.namespace)); err != nil {
			return err
		}
		if len(list.Items) != count {
			return fmt.Errorf("%d works", len(list.Items))
		}
		return nil
	})
	for _, w := range list.Items {
		c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
		owner := metav1.GetControllerOf(&w)
		lines = append(lines, fmt.Sprintf("%s generation %d owner %s %s labels %v manifests %s condition %s %s %d",
			w.Name, w.Generation, owner.Kind, owner.Name, w.Labels,
			strings.ReplaceAll(string(w.Spec.Workload.Manifests[0].Raw), r.namespace, "CLUSTER"), c.Status, c.Reason,
			c.ObservedGeneration))
	}
	return lines
}
