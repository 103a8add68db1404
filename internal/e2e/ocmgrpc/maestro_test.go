// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/ocmgrpc"
	"github.com/spokewire/sdk-go/internal/testing/agenttest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// TestAgentOnMaestro runs examples/agent on Maestro's server, as processes that are killed.
func TestAgentOnMaestro(t *testing.T) {
	e2etest.Prepare("agent", true)
	hub, managed := ocmgrpc.StartMaestro(t, cluster), ocmgrpc.StartManaged(t)
	credentials, store := ocmgrpc.AgentCredentials(t, hub.CA, cluster), filepath.Join(t.TempDir(), "works.db")
	steps := ocmgrpc.Steps{
		Works: hub.Works("hub", cluster), Managed: managed, Server: hub.Server,
		Start: func() *daemon.Daemon {
			return ocmgrpc.StartSpokewireAgent(
				t, hub.Addr(), ocmgrpc.MaestroSource, cluster, credentials, managed, "--store="+store)
		},
	}
	steps.Run(t)
	steps.Chaos(t, 300)
}

// startSourceOnMaestro starts a source of this SDK on Maestro's endpoint for sources.
func startSourceOnMaestro(t *testing.T, hub *ocmgrpc.Maestro, id string) side {
	t.Helper()
	transport, err := grpc.New(grpc.Options{
		Address: hub.Sources.Addr(), CAFile: hub.CA.Write(t, t.TempDir(), "ca"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return startSourceOn(t, transport, id)
}

func startSourceOn(t *testing.T, transport cloudevents.Transport, id string) side {
	t.Helper()
	source, err := work.NewSource(transport, work.SourceOptions{
		SourceID: id, Profile: codec.ManifestBundle, DrainTimeout: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	e2etest.Background(t, func(ctx context.Context) error { return source.Start(ctx) })
	return side{t, source.Clientset().WorkV1().ManifestWorks(cluster)}
}

// TestSourceOnMaestro runs a source and an agent of this SDK on Maestro's server. Maestro counts the
// versions of works itself, and refuses versions of a source. So the works have the annotation for
// works without versions.
func TestSourceOnMaestro(t *testing.T) {
	hub := ocmgrpc.StartMaestro(t, cluster)
	source := startSourceOnMaestro(t, hub, "hub")
	m, file := managed{agenttest.NewCluster()}, filepath.Join(t.TempDir(), "works.db")
	credentials := ocmgrpc.AgentCredentials(t, hub.CA, cluster)
	start := func() ourAgent {
		return startOurs(t, hub.Addr(), credentials, m, file, ocmgrpc.MaestroSource)
	}
	has := func(values map[string]string) {
		t.Helper()
		e2etest.Eventually(t, fmt.Sprintf("the cluster has %v", values), func() error { return onlyHas(m, values) })
	}
	write := func(name, value string) {
		t.Helper()
		text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q},`+
			`"data":{"value":%q}}`, name, ocmgrpc.Namespace, value)
		if value == "1" {
			w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
				Name: name, Annotations: map[string]string{codec.AnnotationResourceVersion: "0"},
			}}
			w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(text)}}}
			if _, err := source.Create(t.Context(), w, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			return
		}
		source.patch(name, []byte(`{"spec":{"workload":{"manifests":[`+text+`]}}}`))
	}
	gone := func(name string) {
		t.Helper()
		e2etest.Eventually(t, "the source removes "+name, func() error {
			w, err := source.Get(t.Context(), name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("%v, %w", w, err)
		})
	}

	agent := start()
	write("a", "1")
	write("b", "1")
	has(map[string]string{"a": "1", "b": "1"})
	for _, name := range []string{"a", "b"} {
		source.eventually("the source has the status of "+name, name, func(w *workv1.ManifestWork) bool {
			return meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkApplied)
		})
	}
	agent.Kill()
	write("a", "2")
	source.delete("b")
	start()
	has(map[string]string{"a": "2"})
	gone("b")
	hub.Sources.Cut()
	write("a", "3")
	has(map[string]string{"a": "3"})
	write("a", "4")
	hub.Restart()
	has(map[string]string{"a": "4"})
	source.delete("a")
	gone("a")
	has(map[string]string{})
}
