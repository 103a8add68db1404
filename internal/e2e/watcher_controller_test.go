// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/dynamicwatcher/source"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// TestWatcherSource: the controllers of a manager reconcile the dependents of a changed object, in
// their own queues. Here config maps depend on the secrets of the same name, which no cache
// contains.
func TestWatcherSource(t *testing.T) {
	t.Parallel()
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns := client.namespace("source")
	manager, err := ctrl.NewManager(cluster.Config(), ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := source.New(&dynamicwatcher.Options{Config: manager.GetConfig()})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]string{}
	r := reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		if r.Namespace != ns {
			return reconcile.Result{}, nil
		}
		if err := secrets.Watcher().AddOrUpdateWatcher(configMapID(r.Namespace, r.Name),
			secretID(r.Namespace, r.Name)); err != nil {
			return reconcile.Result{}, err
		}
		value := "none"
		if s, err := client.CoreV1().Secrets(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{}); err == nil {
			value = string(s.Data["value"])
		}
		mu.Lock()
		defer mu.Unlock()
		seen[r.Name] = value
		return reconcile.Result{}, nil
	})
	if err := ctrl.NewControllerManagedBy(manager).Named("dependent").For(&corev1.ConfigMap{}).WatchesRawSource(
		secrets).Complete(r); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	const n = 200
	for i := range n {
		client.setConfigMap(ns, fmt.Sprint("s", i), "")
	}
	eventually := func(want string) {
		t.Helper()
		(&watcher{t: t}).eventually("all say "+want, func() error {
			mu.Lock()
			defer mu.Unlock()
			for i := range n {
				if got := seen[fmt.Sprint("s", i)]; got != want {
					return fmt.Errorf("s%d says %q", i, got)
				}
			}
			return nil
		})
	}
	eventually("none")
	createSecrets(client, ns, n)
	eventually("1")
	for i := range n {
		client.deleteSecret(ns, fmt.Sprint("s", i))
	}
	eventually("none")
	if got := secrets.Watcher().GetWatchCount(); got != n {
		t.Errorf("%d watches", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-secrets.Done()
}

// TestPolicyWatcher runs the example on a real API server, as its doc describes.
func TestPolicyWatcher(t *testing.T) {
	t.Parallel()
	program := e2etest.Program(t, "policy-watcher", false)
	cluster := kube.Shared(t)
	client, dyn := newWriter(t, cluster), newDynamic(t, cluster)
	ns := client.namespace("policies")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	metrics := listener.Addr().String() // a port that was free a moment ago
	_ = listener.Close()
	command := exec.Command(program, "--metrics", metrics)
	command.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig())
	var logs bytes.Buffer
	command.Stderr = &logs
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill() // if it has not ended
		_ = command.Wait()
		if t.Failed() {
			t.Log(logs.String())
		}
	})

	resource := schema.GroupVersionResource{Group: "policy.spokewire.example", Version: "v1", Resource: "policies"}
	w := &watcher{t: t}
	eventually := func(field, want string) {
		t.Helper()
		for _, name := range []string{"p1", "p2"} {
			w.eventually(name+": "+want, func() error {
				p, err := dyn.Resource(resource).Namespace(ns).Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				if got, _, _ := unstructured.NestedString(p.Object, "status", field); !strings.Contains(got, want) {
					return fmt.Errorf("status %v", p.Object["status"])
				}
				return nil
			})
		}
	}
	gauge := func(want string) {
		t.Helper()
		w.eventually("the gauge is "+want, func() error {
			response, err := http.Get("http://" + metrics + "/metrics")
			if err != nil {
				return err
			}
			defer func() { _ = response.Body.Close() }()
			text, err := io.ReadAll(response.Body)
			if err != nil {
				return err
			}
			if !strings.Contains(string(text), "\nhub_templates_active_watch_count "+want+"\n") {
				return fmt.Errorf("it is not:\n%s", text)
			}
			return nil
		})
	}
	gauge("0")
	for _, name := range []string{"p1", "p2"} {
		p := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "policy.spokewire.example/v1", "kind": "Policy", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"template": `{{ fromSecret "database" "value" }} has {{ fromConfigMap "plans" "value" }}`},
		}}
		if _, err := dyn.Resource(resource).Namespace(ns).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually("error", `secrets "database" not found`)
	gauge("1")
	client.setSecret(ns, "database", "alice")
	eventually("error", `configmaps "plans" not found`)
	gauge("2")
	client.setConfigMap(ns, "plans", "silver")
	eventually("rendered", "alice has silver")
	client.setConfigMap(ns, "plans", "gold")
	eventually("rendered", "alice has gold")
	client.deleteSecret(ns, "database")
	eventually("error", `secrets "database" not found`)
	client.setSecret(ns, "database", "bob")
	eventually("rendered", "bob has gold")
	for _, name := range []string{"p1", "p2"} {
		if err := dyn.Resource(resource).Namespace(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	gauge("0")
	begin := time.Now()
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
}
