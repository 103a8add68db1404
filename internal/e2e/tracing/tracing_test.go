// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package tracing_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

func TestMain(m *testing.M) { os.Exit(e2etest.Main(m)) }

const documents = `apiVersion: hub.spokewire.io/v1alpha1
kind: Cluster
metadata: {name: c1}
---
apiVersion: hub.spokewire.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  parts:
  - name: all
    manifests:
    - template: |
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: shop, namespace: default}
        data: {v: hidden-1}
---
apiVersion: hub.spokewire.io/v1alpha1
kind: Placement
metadata: {name: shop}
spec: {applications: [shop], clusters: {names: [c1]}}
`

// TestSpansOfChangeFormOneTree deploys an application, updates it and removes it. The spans of each
// change are one tree over both programs, also if the hub is killed before it has published the
// change.
func TestSpansOfChangeFormOneTree(t *testing.T) {
	spans, address := collect(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+address)
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_on")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	t.Setenv("OTEL_SERVICE_NAME", "")
	cluster := kube.Start(t, kube.Options{CRDs: []string{"../../../appliedwork/v1alpha1"}})
	cluster.StartControllerManager()
	core := kubernetes.NewForConfigOrDie(cluster.Config())
	broker, dir := mosquitto.Start(t, mosquitto.Options{}), t.TempDir()
	source := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(source, "all.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(documents)
	startHub := func() *daemon.Daemon {
		t.Helper()
		return start(t, "hub", "--broker", broker.URL(), "--dir", source,
			"--listen", "127.0.0.1:0", "--store", filepath.Join(dir, "store"))
	}
	hub := startHub()
	start(t, "agent", "--broker", broker.URL(), "--cluster", "c1", "--source", "hub",
		"--kubeconfig", cluster.Kubeconfig(), "--store", filepath.Join(dir, "agent.db"))
	await := func(path ...string) {
		t.Helper()
		e2etest.Eventually(t, "the spans of "+path[0], func() error { return spans.has(path...) })
	}
	tree := func(change, step string) {
		t.Helper()
		await(change+" (hub)", "publish spec (hub)", "receive spec (agent)", step+" (agent)", "publish status (agent)",
			"receive status (hub)")
	}
	tree("create work", "apply work")

	broker.Kill()
	write(strings.ReplaceAll(documents, "hidden-1", "hidden-2"))
	await("update work (hub)")
	hub.Kill()
	broker.Restart()
	startHub()
	tree("update work", "apply work")
	e2etest.Eventually(t, "the application is updated", func() error {
		m, err := core.CoreV1().ConfigMaps("default").Get(t.Context(), "shop", metav1.GetOptions{})
		if err == nil && m.Data["v"] != "hidden-2" {
			err = fmt.Errorf("it has the value %q", m.Data["v"])
		}
		return err
	})

	cluster1, _, _ := strings.Cut(documents, "---")
	write(cluster1)
	tree("delete work", "remove work")
	if text := spans.text(); strings.Contains(text, "hidden") {
		t.Errorf("a span has content of a work:\n%s", text)
	}
}

// start runs a program until the end of the test, or until it is killed.
func start(t *testing.T, program string, args ...string) *daemon.Daemon {
	t.Helper()
	d, err := daemon.Start(e2etest.Program(t, program, true), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Stop()
		if log := d.Log(); t.Failed() || strings.Contains(log, "DATA RACE") {
			t.Errorf("%s %v:\n%s", program, args, log)
		}
	})
	return d
}
