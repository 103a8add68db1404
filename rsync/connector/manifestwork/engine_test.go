// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/agenttest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/connectortest"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

func transport(t *testing.T, addr string) *mqtt.Transport {
	t.Helper()
	out, err := mqtt.New(mqtt.Options{BrokerURL: "mqtt://" + addr})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestConformance(t *testing.T) {
	connectortest.Run(t, func(t *testing.T) connectortest.Cluster {
		broker := mosquitto.Start(t, mosquitto.Options{})
		proxy := tcpproxy.Start(t, broker.Addr())
		source := newSource(t, transport(t, proxy.Addr()))
		cluster := agenttest.NewCluster()
		runAgent(t, transport(t, broker.Addr()), cluster)
		healthy := func(context.Context, appcontext.ClusterID) error { return source.Healthy() }
		return connectortest.Cluster{
			Connector: open(t, source.Clientset(), manifestwork.Options{Reachable: healthy}), ID: cluster1,
			Value: func(_ context.Context, name string) (string, error) {
				var data struct{ Key string }
				err := json.Unmarshal([]byte(cluster.Objects()["ConfigMap default/"+name]), &data)
				return data.Key, err
			},
			Break: func() {
				proxy.Block()
				proxy.Cut()
				eventually(t, "the loss of the connection", func() string {
					if source.Healthy() == nil {
						return "still connected"
					}
					return ""
				})
			},
			Mend: func() {
				proxy.Unblock()
				eventually(t, "the connection", func() string { return problem(source.Healthy()) })
			},
		}
	})
}

// story is the life of two contexts on a cluster with an agent. A test may cause trouble between
// the steps.
type story struct {
	t       *testing.T
	engine  *rsync.Engine
	cluster *agenttest.Cluster
}

func newStory(t *testing.T, connectors *manifestwork.Connectors, cluster *agenttest.Cluster) *story {
	t.Helper()
	engine, err := rsync.New(memstore.New(memstore.Options{}), connectors, rsync.Options{
		ProbeInterval: 100 * time.Millisecond, PollInterval: 50 * time.Millisecond,
		Backoff: rsync.Backoff{Base: 10 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	process(t, engine.Start)
	s := &story{t, engine, cluster}
	s.create("v1", map[string]string{"front": "a=1 b=1 moved=1 gone=1", "back": "c=1"})
	s.create("v2", map[string]string{"front": "a=1 b=2 new=2", "back": "c=1 moved=2"})
	return s
}

// create stores a context. Its app back waits until front is ready.
func (s *story) create(id string, apps map[string]string) {
	s.t.Helper()
	b := appcontext.NewBuilder(id)
	for _, name := range slices.Sorted(maps.Keys(apps)) {
		app := b.App(name).Cluster(cluster1.Provider, cluster1.Name)
		if name == "back" {
			app.DependsOn("front", appcontext.OpStatusReady, 0)
		}
		for field := range strings.FieldsSeq(apps[name]) {
			object, value, _ := strings.Cut(field, "=")
			app.Resource(cluster1.Provider, cluster1.Name, manifest(object, value))
		}
	}
	c, err := b.Build()
	if err == nil {
		err = s.engine.Create(s.t.Context(), c)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// step waits for an event, and compares the objects on the cluster with want.
func (s *story) step(name, want string, ref rsync.EventRef, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if _, err := s.engine.Wait(ctx, ref); err != nil {
		status, _ := s.engine.Status(s.t.Context(), ref.AppContextID)
		s.t.Fatalf("%s: %v\n%+v", name, err, status)
	}
	got := func() string {
		var all []string
		for object, data := range s.cluster.Objects() {
			value := strings.NewReplacer(`{"key":"`, "", `"}`, "").Replace(data)
			all = append(all, strings.TrimPrefix(object, "ConfigMap shop/")+"="+value)
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	eventually(s.t, name, func() string { // the event does not wait for the last apply
		if text := got(); text != want {
			return "there is " + text + ", want " + want
		}
		return ""
	})
}

// end compares all actions on the cluster with the expected actions.
func (s *story) end() {
	s.t.Helper()
	want := map[string]int{ // b is 1, 2, 1; moved is 1, 2, 1 and never deleted until the end
		"create a": 1, "create b": 1, "create c": 1, "create moved": 1, "create gone": 2, "create new": 1,
		"update b": 2, "update moved": 2,
		"delete a": 1, "delete b": 1, "delete c": 1, "delete moved": 1, "delete gone": 2, "delete new": 1,
	}
	got := map[string]int{}
	for _, call := range s.cluster.Calls() {
		got[strings.Replace(call, "ConfigMap shop/", "", 1)]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("what the agent did (-want +got):\n%s", diff)
	}
	if problems := s.cluster.Problems(); len(problems) > 0 {
		s.t.Errorf("works that no agent should get: %v", problems)
	}
}

// TestEngineLife runs the life of a context over a real broker. The agent restarts, and the broker
// is killed.
func TestEngineLife(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	source := newSource(t, transport(t, broker.Addr()))
	cluster := agenttest.NewCluster()
	stopAgent := runAgent(t, transport(t, broker.Addr()), cluster)
	connectors, err := manifestwork.New(source.Clientset().WorkV1(), manifestwork.Options{
		Reachable: func(context.Context, appcontext.ClusterID) error { return source.Healthy() },
	})
	if err != nil {
		t.Fatal(err)
	}
	s := newStory(t, connectors, cluster)
	ctx := t.Context()

	ref, err := s.engine.Instantiate(ctx, "v1")
	s.step("instantiate", "a=1 b=1 c=1 gone=1 moved=1", ref, err)

	stopAgent() // no agent runs while the update begins
	ref, err = s.engine.Update(ctx, "v1", "v2")
	stopAgent = runAgent(t, transport(t, broker.Addr()), cluster)
	s.step("update", "a=1 b=2 c=1 moved=2 new=2", ref, err)

	broker.Kill()
	ref, err = s.engine.Rollback(ctx, "v2", "v1")
	eventually(t, "the engine's notice of the broker's end", func() string {
		status, err := s.engine.Status(ctx, "v1")
		if err != nil {
			return err.Error()
		}
		c := status.Cluster("front", cluster1)
		if c == nil || c.Phase != rsync.PhaseRetrying {
			return "the cluster is not waited for"
		}
		return ""
	})
	broker.Restart()
	s.step("rollback", "a=1 b=1 c=1 gone=1 moved=1", ref, err)

	stopAgent()
	ref, err = s.engine.Terminate(ctx, "v1")
	runAgent(t, transport(t, broker.Addr()), cluster)
	s.step("terminate", "", ref, err)
	s.end()
}
