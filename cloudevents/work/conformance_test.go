// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
	"github.com/spokewire/sdk-go/internal/testing/conformance"
)

// TestConformance runs scripts and compares their output with transcripts from a real API server.
// Every line must be equal or listed as a difference, and every listed difference must exist.
func TestConformance(t *testing.T) {
	testConformance(t, conformance.Differences,
		func(_ *testing.T, c workclientset.Interface, _ func() (*rest.Config, error)) works { return c.WorkV1() })
}

// TestConformanceOverHTTP is TestConformance for the generated clientset with a configuration from
// package restconfig.
func TestConformanceOverHTTP(t *testing.T) {
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil // they compare times of different scenes
	defer func() { utilruntime.ErrorHandlers = handlers }()
	testConformance(t, conformance.DifferencesOverHTTP(), func(
		t *testing.T, _ workclientset.Interface, of func() (*rest.Config, error),
	) works {
		t.Helper()
		config, err := of()
		if err != nil {
			t.Fatal(err)
		}
		config.WarningHandler = rest.NoWarnings{}
		return workclientset.NewForConfigOrDie(config).WorkV1()
	})
}

type works = worktyped.WorkV1Interface

// through returns the works of a source or an agent, by its clientset or its configuration.
type through func(*testing.T, workclientset.Interface, func() (*rest.Config, error)) works

func testConformance(t *testing.T, differences map[string]conformance.Difference, through through) {
	t.Helper()
	for _, script := range conformance.All {
		t.Run(script.Name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				got := conformance.Run(s.t.Context(), s.target(script, through), script)
				for _, wrong := range conformance.Compare(script.Name, got, differences) {
					t.Error(wrong)
				}
			})
		})
	}
	for _, label := range conformance.Unknown(differences) {
		t.Errorf("%s: listed as a difference, but no script has it", label)
	}
}

// target returns a source with an agent for each namespace.
func (s *scene) target(script conformance.Script, through through) conformance.Target {
	s.t.Helper()
	h := s.source(work.SourceOptions{})
	agents := &agentsOf{spokes: map[string]*spoke{}, works: map[string]works{}}
	s.settle()
	h.complete()
	return conformance.Target{
		Hub:   through(s.t, h.Clientset(), func() (*rest.Config, error) { return restconfig.FromSource(h.Source) }),
		Spoke: agents,
		Namespace: func() string {
			cluster := fmt.Sprintf("cluster%d", len(agents.spokes)+1)
			agent := s.agent(work.AgentOptions{ClusterName: cluster, Sources: []string{"hub"}})
			agents.spokes[cluster] = agent
			agents.works[cluster] = through(s.t, agent.Clientset(),
				func() (*rest.Config, error) { return restconfig.FromAgent(agent.Agent) })
			s.settle()
			return cluster
		},
		Settle: func() {
			s.settle()
			if !script.Cleans {
				agents.clean()
				s.settle()
			}
		},
		Age: func() {
			time.Sleep(6 * time.Minute) // longer than a page is kept
			h.create("elsewhere", newWork("aging", "1"))
			age(s.t, h.works("elsewhere"), "aging")
			for _, spoke := range agents.spokes {
				for _, name := range spoke.names()[:1] {
					age(s.t, spoke.works(), name)
				}
			}
			s.settle()
		},
	}
}

// age makes more changes to a work than the watch cache keeps. The last change restores the work.
func age(t *testing.T, works worktyped.ManifestWorkInterface, name string) {
	t.Helper()
	for i := range 1100 {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"age":%q}}}`, fmt.Sprint(i))
		if i == 1099 {
			patch = `{"metadata":{"annotations":{"age":null}}}`
		}
		if _, err := works.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// agentsOf is a clientset with the clusters of several agents as its namespaces. Requests for other
// namespaces go to the first agent.
type agentsOf struct {
	worktyped.WorkV1Interface
	spokes map[string]*spoke
	works  map[string]works
}

func (a *agentsOf) ManifestWorks(namespace string) worktyped.ManifestWorkInterface {
	if one, ok := a.works[namespace]; ok {
		return one.ManifestWorks(namespace)
	}
	return a.works["cluster1"].ManifestWorks(namespace)
}

// clean acts as a controller without objects to clean up. It removes the finalizer of works that
// were already deleted when the agent first received them.
func (a *agentsOf) clean() {
	for _, spoke := range a.spokes {
		for _, name := range spoke.names() {
			if w := spoke.get(name); w.DeletionTimestamp != nil &&
				slices.Equal(w.Finalizers, []string{workv1.ManifestWorkFinalizer}) {
				spoke.setFinalizers(name)
			}
		}
	}
}
