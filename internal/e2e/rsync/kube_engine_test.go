// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	kubeconnector "github.com/spokewire/sdk-go/rsync/connector/kube"
)

// deletions records the deleted objects, in order.
type deletions struct {
	mu   sync.Mutex
	next http.RoundTripper
	done []string
}

func (d *deletions) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodDelete {
		d.mu.Lock()
		d.done = append(d.done, req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:])
		d.mu.Unlock()
	}
	return d.next.RoundTrip(req)
}

func (d *deletions) take() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.done = nil }()
	return strings.Join(d.done, " ")
}

// TestKubeEngine: a context goes through its life on two API servers. One of them is killed
// meanwhile, and restarted.
func TestKubeEngine(t *testing.T) {
	t.Parallel()
	own := kube.Start(t, kube.Options{})
	configs := map[string]kubeconnector.Cluster{"edge+c1": {Config: kube.Shared(t).Config()},
		"edge+c2": {Kubeconfig: own.Kubeconfig()}}
	clients := []*kubernetes.Clientset{kubernetes.NewForConfigOrDie(kube.Shared(t).Config()),
		kubernetes.NewForConfigOrDie(own.Config())}
	record := &deletions{}
	configs["edge+c1"].Config.Wrap(func(next http.RoundTripper) http.RoundTripper { record.next = next; return record })
	namespaces := []string{newKubeNamespace(t, clients[0]), newKubeNamespace(t, clients[1])}
	group := namespaces[0] + ".example.com"
	engine := startEngine(t, newKubeConnectors(t, configs, kubeconnector.Options{}), rsync.Options{
		ProbeInterval: 200 * time.Millisecond, PollInterval: 100 * time.Millisecond,
		Backoff: rsync.Backoff{Base: 20 * time.Millisecond, Max: time.Second},
	})
	build := func(id string, manifests ...string) {
		createContext(t, engine, id, func(b *appcontext.Builder) {
			app := b.App("app")
			for i, name := range []string{"c1", "c2"} {
				app.Cluster("edge", name)
				for _, m := range manifests {
					app.Resource("edge", name, []byte(strings.ReplaceAll(m, "NS", namespaces[i])))
				}
			}
		})
	}
	build("v1", crd(group), thing(group, "one", 1), manifestOf("a", "1"), manifestOf("b", "1"))
	build("v2", crd(group), thing(group, "one", 2), manifestOf("b", "2"), manifestOf("c", "2"))
	expect := func(step string, want ...string) {
		t.Helper()
		for i, client := range clients {
			list, err := client.CoreV1().ConfigMaps(namespaces[i]).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range list.Items {
				if m.Data["key"] != "" {
					got = append(got, m.Name+"="+m.Data["key"])
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("after %s cluster %d has %v, want %v", step, i+1, got, want)
			}
		}
	}
	done := func(step string, ref rsync.EventRef, err error) {
		t.Helper()
		if _, err := await(t, engine, ref, err); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	own.KillAPIServer()
	ref, err := engine.Instantiate(t.Context(), "v1")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		status, err := engine.Status(t.Context(), "v1")
		if err != nil {
			return err.Error()
		}
		c1, c2 := status.Cluster("app", kube1), status.Cluster("app", appcontext.ClusterID{Provider: "edge", Name: "c2"})
		if c1 == nil || c2 == nil || c1.Phase != rsync.PhaseDone || c2.Reason != rsync.ReasonUnreachable {
			return fmt.Sprintf("%+v, %+v", c1, c2)
		}
		return ""
	})
	own.StartAPIServer()
	done("instantiate", ref, nil)
	expect("instantiate", "a=1", "b=1")
	ref, err = engine.Update(t.Context(), "v1", "v2")
	done("update", ref, err)
	expect("update", "b=2", "c=2")
	ref, err = engine.Rollback(t.Context(), "v2", "v1")
	done("rollback", ref, err)
	expect("rollback", "a=1", "b=1")
	record.take()
	ref, err = engine.Terminate(t.Context(), "v1")
	done("terminate", ref, err)
	expect("terminate")
	got := strings.Fields(record.take())
	slices.Sort(got[:min(2, len(got))]) // the ConfigMaps, which are deleted in parallel
	if want := []string{"a", "b", "one", "things." + group}; !slices.Equal(got, want) {
		t.Errorf("deleted in the order %q, want %q", got, want)
	}
}

// TestKubeReady: an app waits for a Deployment of another app, and hooks wait for their Jobs. The
// watch notifies the engine immediately.
func TestKubeReady(t *testing.T) {
	t.Parallel()
	s := newKubeSite(t, nil, kubeconnector.Options{})
	engine := startEngine(t, newKubeConnectors(t, map[string]kubeconnector.Cluster{"edge+*": {Config: s.config}},
		kubeconnector.Options{}), rsync.Options{
		PollInterval: 10 * time.Minute, // so every step depends on a watch
	})
	const template = "template: {metadata: {labels: {a: b}}, spec: {restartPolicy: RESTART, containers: [{name: a, " +
		"image: a}]}}"
	deployment := "{apiVersion: apps/v1, kind: Deployment, metadata: {name: db, namespace: NS}, spec: {replicas: 1, " +
		"selector: {matchLabels: {a: b}}, " +
		strings.Replace(template, "RESTART", "Always", 1) + "}}"
	job := func(name string) string {
		return "{apiVersion: batch/v1, kind: Job, metadata: {name: " + name + ", namespace: NS}, spec: {" +
			strings.Replace(template, "RESTART", "Never", 1) + "}}"
	}
	text := func(m string) []byte { return []byte(strings.ReplaceAll(m, "NS", s.namespace)) }
	createContext(t, engine, "ready", func(b *appcontext.Builder) {
		b.App("db").Hook(appcontext.HookPreInstall, "edge", "c1", text(job("migrate"))).Resource("edge", "c1",
			text(deployment))
		b.App("web").DependsOn("db", appcontext.OpStatusReady, 0).Resource("edge", "c1", text(manifestOf("web", "1")))
	})
	ref, err := engine.Instantiate(t.Context(), "ready")
	if err != nil {
		t.Fatal(err)
	}
	exists := func(m string) func() string {
		return func() string {
			if !s.state(m).Exists {
				return m + " is not there"
			}
			return ""
		}
	}
	const now = "2026-01-01T00:00:00Z"
	patch := func(do func() error) {
		t.Helper()
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	status := func(name, started, conditions string) func() error {
		return func() error {
			body := fmt.Sprintf(`{"status":{"startTime":%q,%s "conditions":[%s]}}`, now, started, conditions)
			_, err := s.client.BatchV1().Jobs(s.namespace).Patch(t.Context(), name, types.MergePatchType, []byte(body),
				metav1.PatchOptions{}, "status")
			return err
		}
	}
	condition := func(name string) string {
		return fmt.Sprintf(`{"type":%q,"status":"True","reason":"Test","lastTransitionTime":%q,"lastProbeTime":%q}`, name,
			now, now)
	}
	eventually(t, exists(job("migrate")))
	patch(status("migrate", `"active":1,`, ""))
	if got := s.state(job("migrate")); got.Ready || got.Failed {
		t.Errorf("a job that runs is %+v", got)
	}
	patch(status("migrate", `"active":0,"succeeded":1,"completionTime":"`+now+`","uncountedTerminatedPods":{},`,
		condition("SuccessCriteriaMet")+","+condition("Complete")))
	eventually(t, exists(deployment))
	if _, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), "web",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("web did not wait: %v", err)
	}
	patch(func() error {
		_, err := s.client.AppsV1().Deployments(s.namespace).Patch(t.Context(), "db", types.MergePatchType, []byte(`{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,
			"readyReplicas":1,"availableReplicas":1,"conditions":[{"type":"Available","status":"True"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`),
			metav1.PatchOptions{}, "status")
		return err
	})
	if _, err := await(t, engine, ref, nil); err != nil {
		t.Fatal(err)
	}
	createContext(t, engine, "failing", func(b *appcontext.Builder) {
		b.App("db").Hook(appcontext.HookPreInstall, "edge", "c1", text(job("fails"))).Resource("edge", "c1",
			text(manifestOf("never", "1")))
	})
	ref, err = engine.Instantiate(t.Context(), "failing")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, exists(job("fails")))
	patch(status("fails", `"failed":1,"uncountedTerminatedPods":{},`, condition("FailureTarget")+","+condition("Failed")))
	_, err = await(t, engine, ref, nil)
	var failure *rsync.EventError
	if !errors.As(err, &failure) || failure.Reason != rsync.ReasonHookFailed {
		t.Errorf("%v, want reason HookFailed", err)
	}
}
