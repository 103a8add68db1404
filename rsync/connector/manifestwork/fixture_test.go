// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/agenttest"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience limits every wait.
const patience = 45 * time.Second

var cluster1 = appcontext.ClusterID{Provider: "work", Name: "cluster1"}

// eventually waits until wrong returns an empty string.
func eventually(t *testing.T, what string, wrong func() string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		got := wrong()
		if got == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not in %v: %s", what, patience, got)
		}
	}
}

// process runs a function until stop is called or the test ends.
func process(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// newSource runs a source that has no works yet.
func newSource(t *testing.T, transport cloudevents.Transport) *work.Source {
	t.Helper()
	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "rsync"})
	if err != nil {
		t.Fatal(err)
	}
	process(t, source.Start)
	eventually(t, "the source's connection", func() string { return problem(source.Healthy()) })
	if err := source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	return source
}

func problem(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// newAgent runs the SDK's agent, without a controller.
func newAgent(t *testing.T, transport cloudevents.Transport) (clientset workclientset.Interface, stop func()) {
	t.Helper()
	agent, err := work.NewAgent(transport, work.AgentOptions{ClusterName: cluster1.Name, Sources: []string{"rsync"}})
	if err != nil {
		t.Fatal(err)
	}
	return agent.Clientset(), process(t, agent.Start)
}

// runAgent runs an agent with its controller, and returns a function that stops both.
func runAgent(t *testing.T, transport cloudevents.Transport, cluster *agenttest.Cluster) (stop func()) {
	t.Helper()
	clientset, stopWire := newAgent(t, transport)
	stopController := process(t,
		func(ctx context.Context) error { return agenttest.Run(ctx, cluster, clientset, cluster1.Name) })
	return func() {
		stopController()
		stopWire()
	}
}

// scene is a source, and after the first report also an agent's clientset. The test acts as the
// agent's controller.
type scene struct {
	t      *testing.T // its end stops everything
	bus    *memory.Bus
	source workclientset.Interface
	wire   workclientset.Interface
}

func newScene(t *testing.T) *scene {
	t.Helper()
	bus := memory.New()
	return &scene{t: t, bus: bus, source: newSource(t, bus.Transport()).Clientset()}
}

// agent returns the client for the agent's copy of the works.
func (s *scene) agent(t *testing.T) worktyped.ManifestWorkInterface {
	t.Helper()
	if s.wire == nil {
		s.wire, _ = newAgent(s.t, s.bus.Transport())
	}
	return s.wire.WorkV1().ManifestWorks(cluster1.Name)
}

func open(t *testing.T, clientset workclientset.Interface, options manifestwork.Options) connector.Connector {
	t.Helper()
	connectors, err := manifestwork.New(clientset.WorkV1(), options)
	if err != nil {
		t.Fatal(err)
	}
	c, err := connectors.Connector(t.Context(), cluster1.Provider, cluster1.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func manifest(name, value string) []byte {
	return fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: shop}\ndata: {key: %q}\n",
		name, value)
}

// batch returns a batch of pairs of a name and a value.
func batch(id, app string, pairs ...[2]string) connector.Batch {
	b := connector.Batch{AppContextID: id, App: app, Cluster: cluster1}
	for _, p := range pairs {
		b.Resources = append(b.Resources, appcontext.Resource{
			Object: appcontext.Object{Kind: "ConfigMap", Namespace: "shop", Name: p[0]}, Manifest: manifest(p[0], p[1]),
		})
	}
	return b
}
