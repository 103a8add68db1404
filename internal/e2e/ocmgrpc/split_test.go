// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/ocmgrpc"
	"github.com/spokewire/sdk-go/internal/testing/agenttest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// limited is a transport to a broker with a small packet limit. It counts the published chunks, and
// the acknowledged events of works.
type limited struct {
	cloudevents.Transport
	chunks, works atomic.Int64
}

func (l *limited) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	conn, err := l.Transport.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	return &limitedConn{conn, l}, nil
}

type limitedConn struct {
	cloudevents.Conn
	transport *limited
}

func (c *limitedConn) MaxPacketSize() int { return 4 << 10 }

func (c *limitedConn) Publish(ctx context.Context, m cloudevents.Message, done func(error)) error {
	if m.Event.Extensions()["chunkcount"] != nil {
		c.transport.chunks.Add(1)
	}
	return c.Conn.Publish(ctx, m, func(err error) {
		if err == nil && m.Event.Extensions()["resourceid"] != nil {
			c.transport.works.Add(1)
		}
		done(err)
	})
}

// TestSplitListOfAgent restarts an agent that divides its list of works. OCM's server and Maestro
// handle each chunk as a list of its own: they send the changed works and delete the removed work.
// All other works stay.
func TestSplitListOfAgent(t *testing.T) {
	t.Run("OCM", func(t *testing.T) {
		hub := ocmgrpc.StartHub(t, cluster)
		splitListOfAgent(t, side{t, hub.Works(cluster)}, grpc.Options{Address: hub.StartServer().Addr()},
			ocmgrpc.AgentCredentials(t, hub.CA, cluster))
	})
	t.Run("Maestro", func(t *testing.T) {
		hub := ocmgrpc.StartMaestro(t, cluster)
		splitListOfAgent(t, side{t, hub.Works("hub", cluster)}, grpc.Options{Address: hub.Addr()},
			ocmgrpc.AgentCredentials(t, hub.CA, cluster), ocmgrpc.MaestroSource)
	})
}

func splitListOfAgent(t *testing.T, hub side, o grpc.Options, c ocmgrpc.Credentials, sources ...string) {
	t.Helper()
	o.CAFile, o.CertFile, o.KeyFile = c.CAFile, c.CertFile, c.KeyFile
	m, file, l := managed{agenttest.NewCluster()}, filepath.Join(t.TempDir(), "works.db"), &limited{}
	start := func() ourAgent {
		transport, err := grpc.New(o)
		if err != nil {
			t.Fatal(err)
		}
		l.Transport = transport
		return startOn(t, l, m, file, sources...)
	}
	agent := start()
	want := map[string]string{}
	for i := range 60 {
		name := fmt.Sprintf("w%d", i)
		hub.create(name)
		want[name] = "1"
	}
	has := func() {
		t.Helper()
		e2etest.Eventually(t, "the cluster has the works", func() error { return onlyHas(m, want) })
	}
	has()
	for name := range want {
		hub.eventually("the hub has a status of "+name, name, func(w *workv1.ManifestWork) bool {
			return meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkApplied)
		})
	}
	agent.Kill()
	for _, name := range []string{"w0", "w59"} {
		want[name] = "2"
		e2etest.Eventually(t, "update "+name, func() error {
			w, err := hub.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			w.Spec.Workload.Manifests = configMap(name, "2")
			_, err = hub.Update(t.Context(), w, metav1.UpdateOptions{})
			return err // a conflict with the hub's own update
		})
	}
	hub.delete("w30")
	delete(want, "w30")
	l.chunks.Store(0)
	agent = start()
	defer agent.Kill()
	has()
	e2etest.Eventually(t, "the hub removes the deleted work", func() error {
		w, err := hub.Get(t.Context(), "w30", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%v, %w", w, err)
	})
	has()
	if got := l.chunks.Load(); got < 2 {
		t.Errorf("%d chunks, want 2 or more", got)
	}
}

// TestSplitHashesOfSource cuts the link of a source while an agent reports its works to Maestro. The
// source then divides the hashes of its statuses. Maestro answers each chunk with the statuses of its
// works, and deletes no work.
func TestSplitHashesOfSource(t *testing.T) {
	hub := ocmgrpc.StartMaestro(t, cluster)
	transport, err := grpc.New(grpc.Options{
		Address: hub.Sources.Addr(), CAFile: hub.CA.Write(t, t.TempDir(), "ca"),
	})
	if err != nil {
		t.Fatal(err)
	}
	l := &limited{Transport: transport}
	source, m, want := startSourceOn(t, l, "hub"), managed{agenttest.NewCluster()}, map[string]string{}
	for i := range 30 {
		name := fmt.Sprintf("w%d", i)
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{codec.AnnotationResourceVersion: "0"},
		}}
		w.Spec.Workload.Manifests = configMap(name, "1")
		if _, err := source.Create(t.Context(), w, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		want[name] = "1"
	}
	e2etest.Eventually(t, "Maestro has the works", func() error {
		if got := l.works.Load(); got < 30 {
			return fmt.Errorf("it has acknowledged %d", got)
		}
		return nil
	})
	hub.Sources.Block()
	hub.Sources.Cut()
	startOurs(t, hub.Addr(), ocmgrpc.AgentCredentials(t, hub.CA, cluster), m, "", ocmgrpc.MaestroSource)
	has := func() {
		t.Helper()
		e2etest.Eventually(t, "the cluster has the works", func() error { return onlyHas(m, want) })
	}
	has()
	l.chunks.Store(0)
	hub.Sources.Unblock()
	for name := range want {
		source.eventually("the source has the status of "+name, name, func(w *workv1.ManifestWork) bool {
			return meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkApplied)
		})
	}
	if got := l.chunks.Load(); got < 3 {
		t.Errorf("%d chunks, want 3 or more", got)
	}
	has()
}

// TestOCMAgentSplitHashes runs OCM's real agent on a server of this SDK with small messages. With 40
// more works, the source divides the hashes of its statuses. OCM's agent answers each chunk, and no
// work is lost.
func TestOCMAgentSplitHashes(t *testing.T) {
	hub, managed := startOurHub(t, hubOptions{MaxMessageSize: 4 << 10}), ocmgrpc.StartManaged(t)
	credentials := ocmgrpc.AgentCredentials(t, hub.ca, cluster)
	steps := ocmgrpc.Steps{
		Works: hub, Managed: managed, Server: hub.Server, Slow: true, More: 40,
		Start: func() *daemon.Daemon {
			return ocmgrpc.StartAgent(t, hub.Addr(), cluster, credentials, managed)
		},
	}
	steps.Run(t)
}
