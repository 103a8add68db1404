// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/e2e/aggregated"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/conformance"
)

// aggregatedSource is a source in a cluster that forwards requests for works to it. Each namespace
// has an agent. The agents have API servers of their own, which the tests call directly: a cluster
// forwards the requests of an API to one server.
type aggregatedSource struct {
	cluster *kube.Cluster
	bus     *memory.Bus
	source  *work.Source
	clock   *laterClock
}

// laterClock is the real clock with an offset.
type laterClock struct {
	clock.RealClock
	offset atomic.Int64
}

func (c *laterClock) Now() time.Time                  { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *laterClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func startAggregatedSource(t *testing.T) *aggregatedSource {
	t.Helper()
	a := &aggregatedSource{bus: memory.New(), clock: &laterClock{}}
	a.cluster = kube.Start(t, kube.Options{Aggregates: true})
	var err error
	a.source, err = work.NewSource(a.bus.Transport(), work.SourceOptions{SourceID: "hub", Clock: a.clock})
	if err != nil {
		t.Fatal(err)
	}
	background(t, a.source.Start)
	if err := a.source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := aggregated.New(t, a.cluster)
	server.Start(a.source)
	server.Register()
	return a
}

// namespace creates a namespace, and starts its agent.
func (a *aggregatedSource) namespace(t *testing.T, name string) (string, *work.Agent) {
	t.Helper()
	name = newWriter(t, a.cluster).namespace(name)
	agent, err := work.NewAgent(a.bus.Transport(), work.AgentOptions{
		ClusterName: name, Sources: []string{"hub"}, Clock: a.clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	background(t, agent.Start)
	return name, agent
}

// hub returns the works of the source, through the API server of the cluster.
func (a *aggregatedSource) hub() worktyped.WorkV1Interface { return throughHTTP(a.cluster.Config()) }

// spoke returns the works of an agent, through a server of its own.
func (a *aggregatedSource) spoke(t *testing.T, agent *work.Agent) worktyped.WorkV1Interface {
	t.Helper()
	server := aggregated.New(t, a.cluster)
	server.Start(agent)
	return throughHTTP(server.Config())
}

// throughHTTP returns a client without warnings and without repeated requests.
func throughHTTP(config *rest.Config) worktyped.WorkV1Interface {
	config.WarningHandler = rest.NoWarnings{}
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return impatient{rt} })
	return workclientset.NewForConfigOrDie(config).WorkV1()
}

// TestAggregatedAPI runs the tests that compare a source with an API server on an aggregated API.
func TestAggregatedAPI(t *testing.T) {
	t.Parallel()
	a := startAggregatedSource(t)
	t.Run("now", a.testNow)
	// The source adds a condition to unconfirmed works when the time changes.
	t.Run("later", func(t *testing.T) { a.testConformance(t, true) })
	for _, label := range conformance.Unknown(conformance.DifferencesOfAggregation()) {
		t.Errorf("%s: listed as a difference, but no script has it", label)
	}
}

// testNow runs the tests that do not change the time.
func (a *aggregatedSource) testNow(t *testing.T) {
	t.Run("conformance", func(t *testing.T) {
		t.Parallel()
		a.testConformance(t, false)
	})
	t.Run("differential", func(t *testing.T) {
		t.Parallel()
		a.testDifferential(t)
	})
	t.Run("rivals", func(t *testing.T) {
		t.Parallel()
		for _, r := range conformance.Rivalries {
			works := a.hub().ManifestWorks(newWriter(t, a.cluster).namespace("rivals")) // without an agent
			if err := r.Run(t.Context(), works, max(5, r.Rounds/200)); err != nil {
				t.Errorf("%s: %v", r.Name, err)
			}
		}
	})
	t.Run("malformed requests", func(t *testing.T) {
		t.Parallel()
		shared := kube.Shared(t)
		own := newWriter(t, shared).namespace("malformed")
		namespace, _ := a.namespace(t, "malformed")
		testMalformed(t, newRawClient(t, shared.Config(), own), newRawClient(t, a.cluster.Config(), namespace))
	})
}

// testDifferential is TestDifferential for the aggregated API.
func (a *aggregatedSource) testDifferential(t *testing.T) {
	t.Helper()
	shared := kube.Shared(t)
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			namespace, agent := a.namespace(t, "seed")
			testSeed(t, seed, shared, newWriter(t, shared).namespace("seed"), &end{
				hub: a.hub().ManifestWorks(namespace), agent: a.spoke(t, agent).ManifestWorks(namespace), http: true,
			})
		})
	}
}

// testConformance runs the scripts of TestConformanceOracle that change the time, or all others.
func (a *aggregatedSource) testConformance(t *testing.T, ages bool) {
	t.Helper()
	for _, s := range conformance.All {
		if s.Ages != ages {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			if !ages {
				t.Parallel()
			}
			got := conformance.Run(t.Context(), a.target(t, s), s)
			for _, wrong := range conformance.Compare(s.Name, got, conformance.DifferencesOfAggregation()) {
				t.Error(wrong)
			}
		})
	}
}

// aggregatedTarget is the target of one script.
type aggregatedTarget struct {
	worktyped.WorkV1Interface // nil
	*aggregatedSource
	t      *testing.T
	cleans bool // the script removes the finalizers of the agent
	agents map[string]*work.Agent
	spokes map[string]worktyped.WorkV1Interface
	first  string // the namespace whose agent receives the requests for other namespaces
}

func (a *aggregatedSource) target(t *testing.T, s conformance.Script) conformance.Target {
	t.Helper()
	x := &aggregatedTarget{aggregatedSource: a, t: t, cleans: s.Cleans, agents: map[string]*work.Agent{},
		spokes: map[string]worktyped.WorkV1Interface{}}
	return conformance.Target{
		Hub: a.hub(), Spoke: x, Age: x.age, Settle: x.settle,
		Namespace: func() string {
			name, agent := a.namespace(t, "conformance")
			x.agents[name] = agent
			if x.first == "" {
				x.first = name
			}
			return name
		},
	}
}

// ManifestWorks returns the works of an agent.
func (x *aggregatedTarget) ManifestWorks(namespace string) worktyped.ManifestWorkInterface {
	name := namespace
	if x.agents[name] == nil {
		name = x.first
	}
	if x.spokes[name] == nil {
		x.spokes[name] = x.spoke(x.t, x.agents[name])
	}
	return x.spokes[name].ManifestWorks(namespace)
}

// settle waits until source and agents agree, and nothing changes for a while.
func (x *aggregatedTarget) settle() {
	x.t.Helper()
	state, equal := "", 0
	eventually(x.t, "source and agents agree", func() error {
		now, needed := "", 3
		for namespace, agent := range x.agents {
			versions, same, err := x.agree(namespace, agent)
			if err != nil {
				return err
			}
			if now += versions; !same {
				needed = 12
			}
		}
		if equal++; now != state {
			state, equal = now, 0
		}
		if equal < needed {
			return errors.New("works have changed")
		}
		return nil
	})
}

// agree returns the versions of the works of a namespace, on both sides, and whether they have the
// same labels. A label of an agent's user may differ forever.
func (x *aggregatedTarget) agree(namespace string, agent *work.Agent) (versions string, same bool, err error) {
	hub, err := x.source.Clientset().WorkV1().ManifestWorks(namespace).List(x.t.Context(), metav1.ListOptions{})
	if err != nil {
		return "", false, err
	}
	works := agent.Clientset().WorkV1().ManifestWorks(namespace)
	spoke, err := works.List(x.t.Context(), metav1.ListOptions{})
	if err != nil {
		return "", false, err
	}
	hub.Items = slices.DeleteFunc(hub.Items, func(w workv1.ManifestWork) bool { // its agent is done
		return w.DeletionTimestamp != nil && !slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer)
	})
	if len(hub.Items) != len(spoke.Items) {
		return "", false, fmt.Errorf("%s has %d works, the agent %d", namespace, len(hub.Items), len(spoke.Items))
	}
	same = true
	for i := range hub.Items {
		j := slices.IndexFunc(spoke.Items, func(w workv1.ManifestWork) bool { return w.Name == hub.Items[i].Name })
		if j < 0 {
			return "", false, fmt.Errorf("the agent does not have %s", hub.Items[i].Name)
		}
		h, s := &hub.Items[i], &spoke.Items[j]
		if err := x.handled(h, s, works); err != nil {
			return "", false, err
		}
		same = same && maps.Equal(h.Labels, s.Labels)
		versions += h.ResourceVersion + " " + s.ResourceVersion + " "
	}
	return versions, same, nil
}

// handled returns an error unless an agent has the current state of a work, and its source has the
// current status. It acts as a controller without objects to clean up.
func (x *aggregatedTarget) handled(hub, spoke *workv1.ManifestWork, works worktyped.ManifestWorkInterface) error {
	if hub.DeletionTimestamp == nil {
		travels := func(w *workv1.ManifestWork) any { return array{w.OwnerReferences, w.Generation, w.Spec, w.Status} }
		if !apiequality.Semantic.DeepEqual(travels(hub), travels(spoke)) {
			return fmt.Errorf("the agent has %v, the source %v", travels(spoke), travels(hub))
		}
		return nil
	}
	only := slices.Equal(spoke.Finalizers, []string{workv1.ManifestWorkFinalizer})
	switch {
	case spoke.DeletionTimestamp == nil:
		return fmt.Errorf("the agent does not delete %s yet", hub.Name)
	case x.cleans || len(spoke.Finalizers) > 0 && !only:
		return nil // the script removes its finalizers
	case only:
		_, err := works.Patch(x.t.Context(), spoke.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
		return errors.Join(err, fmt.Errorf("the agent has released %s", hub.Name))
	}
	return fmt.Errorf("the agent is deleting %s", hub.Name)
}

// age makes the source and the agents forget their history: it lets the time pass that they keep it,
// and makes more changes than they keep.
func (x *aggregatedTarget) age() {
	x.t.Helper()
	x.clock.offset.Add(int64(6 * time.Minute))
	elsewhere := x.source.Clientset().WorkV1().ManifestWorks("elsewhere")
	w, err := elsewhere.Create(x.t.Context(),
		&workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{GenerateName: "aging-"}}, metav1.CreateOptions{})
	if err != nil {
		x.t.Fatal(err)
	}
	x.change(elsewhere, w.Name)
	for namespace, agent := range x.agents {
		works := agent.Clientset().WorkV1().ManifestWorks(namespace)
		list, err := works.List(x.t.Context(), metav1.ListOptions{Limit: 1})
		if err != nil {
			x.t.Fatal(err)
		}
		for i := range list.Items {
			x.change(works, list.Items[i].Name)
		}
	}
	x.settle()
}

// change makes more changes to a work than a watch cache keeps. The last change restores the work.
func (x *aggregatedTarget) change(works worktyped.ManifestWorkInterface, name string) {
	x.t.Helper()
	const count = 1100
	for i := range count {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"age":"%d"}}}`, i)
		if i == count-1 {
			patch = []byte(`{"metadata":{"annotations":{"age":null}}}`)
		}
		if _, err := works.Patch(x.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			x.t.Fatal(err)
		}
	}
}
