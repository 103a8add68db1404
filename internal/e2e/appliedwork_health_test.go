// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/health"
)

// TestAppliedWorkHealth has its own cluster, because it adds kinds and kills the API server.
func TestAppliedWorkHealth(t *testing.T) {
	t.Parallel()
	g := newGround(t, groundOptions{noController: true})
	for _, c := range []check{
		{"Steps", checkHealth}, {"Failed", checkHealthFailed}, {"Forbidden", checkHealthForbidden},
		{"Restart", checkHealthRestart},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, g.in(t)) })
	}
}

// waiting is a call of Wait and its events.
type waiting struct {
	t    *testing.T
	done chan error

	mu     sync.Mutex
	events map[string][]string // by kind and name: the statuses
	last   map[string]health.Result
}

func waitFor(t *testing.T, x tools, opts health.Options, objects ...*unstructured.Unstructured) *waiting {
	t.Helper()
	w := &waiting{t: t, done: make(chan error, 1), events: map[string][]string{}, last: map[string]health.Result{}}
	opts.OnChange = func(e health.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		name := e.Key.Kind + " " + e.Key.Name
		w.events[name] = append(w.events[name], string(e.Result.Status))
		w.last[name] = e.Result
	}
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan struct{})
	t.Cleanup(func() { cancel(); <-returned })
	go func() {
		defer close(returned)
		w.done <- health.NewWaiter(x.tracker).Wait(ctx, objects, opts)
	}()
	return w
}

// sees waits until an object has a status with a text in its message.
func (w *waiting) sees(name string, status health.Status, text string) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%s is %s", name, status), func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if r := w.last[name]; r.Status != status || !strings.Contains(r.Message, text) {
			return fmt.Errorf("it is %s: %s", r.Status, r.Message)
		}
		return nil
	})
}

// saw compares all past statuses of an object.
func (w *waiting) saw(name, statuses string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.events[name], " "); got != statuses {
		w.t.Errorf("%s was %s, want %s", name, got, statuses)
	}
}

// result returns the result of Wait. Its own time limit is independent of Wait's timeout.
func (w *waiting) result() error {
	w.t.Helper()
	select {
	case err := <-w.done:
		return err
	case <-time.After(30 * time.Second):
		w.mu.Lock()
		defer w.mu.Unlock()
		w.t.Fatalf("Wait does not return: %v", w.last)
		return nil
	}
}

// report sets the status of an object, as a controller does.
func (g *ground) report(obj *unstructured.Unstructured, status string) {
	g.t.Helper()
	patch := []byte(`{"status":` + status + `}`)
	if _, err := g.at(obj).Patch(context.Background(), obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{},
		"status"); err != nil {
		g.t.Fatal(err)
	}
}

func jobOf(namespace, name string) *unstructured.Unstructured {
	return parsed(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":%q,"name":%q},"spec":{"template":{"spec":{
		"restartPolicy":"Never","containers":[{"name":"c","image":"none"}]}}}}`, namespace, name)
}

// widgetCRD returns the CRD of a kind with a status subresource.
func widgetCRD() *unstructured.Unstructured {
	crd := customCRD("health.example.com", "Widget", "v1")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	versions[0].(map[string]any)["subresources"] = map[string]any{"status": map[string]any{}}
	_ = unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")
	return crd
}

// checkHealth: a work becomes current step by step, each step is an event, and Wait returns after
// the last step.
func checkHealth(t *testing.T, g *ground) {
	const ns = "health"
	g.create(namespaceOf(ns))
	g.serve(t, widgetCRD())
	x := g.plain(nil)
	web := deploymentOf(ns, "web", "a:1")
	_ = unstructured.SetNestedField(web.Object, int64(2), "spec", "replicas")
	widget := customOf("health.example.com/v1", "Widget", ns, "w")
	crd := customCRD("health2.example.com", "Thing", "v1")
	settings := configMapOf(ns, "settings", "1")
	work := x.ensure(t, "health")
	want(t, x.apply(t, work, web, widget, crd, settings), "4 created")

	w := waitFor(t, x, health.Options{Timeout: 5 * time.Minute}, web, widget, crd, settings)
	w.sees("Deployment web", health.StatusInProgress, "0/2")
	g.report(widget, `{"observedGeneration":1,"conditions":[{"type":"Ready","status":"False","reason":"Starting","message":"for a disk"}]}`)
	w.sees("Widget w", health.StatusInProgress, "for a disk")
	w.sees("ConfigMap settings", health.StatusCurrent, "")
	w.sees("CustomResourceDefinition things.health2.example.com", health.StatusCurrent, "established")

	// A Deployment is rolled out.
	g.report(web, `{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"unavailableReplicas":2}`)
	w.sees("Deployment web", health.StatusInProgress, "0/2")
	g.report(web, `{"readyReplicas":1,"availableReplicas":1,"unavailableReplicas":1}`)
	w.sees("Deployment web", health.StatusInProgress, "1/2")
	g.report(web, `{"readyReplicas":2,"availableReplicas":2,"unavailableReplicas":0,"conditions":[
		{"type":"Available","status":"True"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}`)
	w.sees("Deployment web", health.StatusCurrent, "2")

	// A condition counts for its observed generation.
	if _, err := g.at(widget).Patch(t.Context(), "w", types.MergePatchType, []byte(`{"spec":{"size":"2"}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.sees("Widget w", health.StatusInProgress, "generation is 2")

	// An object is deleted and created again.
	if err := g.at(settings).Delete(t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.sees("ConfigMap settings", health.StatusNotFound, "")
	g.report(widget, `{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True"}]}`)
	w.sees("Widget w", health.StatusCurrent, "")
	g.create(settings)
	if err := w.result(); err != nil {
		t.Error(err)
	}
	w.saw("ConfigMap settings", "Current NotFound Current")
	for name := range w.events {
		if w.last[name].Status != health.StatusCurrent {
			t.Errorf("%s is %v after Wait", name, w.last[name])
		}
	}
}

// checkHealthFailed: a failed Job ends the wait immediately.
func checkHealthFailed(t *testing.T, g *ground) {
	const ns = "health-failed"
	g.create(namespaceOf(ns))
	x := g.plain(nil)
	job, other := jobOf(ns, "migrate"), jobOf(ns, "other")
	want(t, x.apply(t, x.ensure(t, ns), job, other), "2 created")
	w := waitFor(t, x, health.Options{Timeout: 5 * time.Minute}, other, job)
	w.sees("Job migrate", health.StatusInProgress, "not started")
	g.report(job, `{"startTime":"2026-01-01T00:00:00Z","active":1}`)
	w.sees("Job migrate", health.StatusInProgress, "in progress")
	g.report(job, `{"active":0,"failed":1,"conditions":[
		{"type":"FailureTarget","status":"True","reason":"BackoffLimitExceeded","lastTransitionTime":"2026-01-01T00:00:01Z"},
		{"type":"Failed","status":"True","reason":"BackoffLimitExceeded","lastTransitionTime":"2026-01-01T00:00:01Z"}]}`)
	err := w.result()
	var notReady *health.NotReadyError
	if !errors.As(err, &notReady) || notReady.Key.Name != "migrate" || notReady.Result.Status != health.StatusFailed ||
		!strings.Contains(err.Error(), "other is InProgress") {
		t.Error(err)
	}

	// A finalizer keeps an object.
	held := configMapOf(ns, "held", "1")
	held.SetFinalizers([]string{"example.com/hold"})
	g.create(held)
	w = waitFor(t, x, health.Options{Timeout: 5 * time.Minute}, held, other)
	w.sees("ConfigMap held", health.StatusCurrent, "")
	if err := g.at(held).Delete(t.Context(), "held", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.sees("ConfigMap held", health.StatusTerminating, "")
	if _, err := g.at(held).Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.sees("ConfigMap held", health.StatusNotFound, "")
}

// checkHealthForbidden: Wait also works for a user who may only get objects, and for a user who
// receives the right during the wait.
func checkHealthForbidden(t *testing.T, g *ground) {
	const ns = "health-forbidden"
	g.create(namespaceOf(ns))
	x := g.tools(g.User("health-reader"), nil)
	one, two := configMapOf(ns, "one", "1"), configMapOf(ns, "two", "1")
	g.create(one)
	w := waitFor(t, x, health.Options{Timeout: 5 * time.Minute}, one, two)
	w.sees("ConfigMap one", health.StatusUnknown, "forbidden")
	g.create(parsed(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},
		"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}]}`, ns))
	bind := parsed(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":%[1]q},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%[1]q},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"health-reader"}]}`, ns)
	if _, err := g.admin.Resource(clusterRoleBindings).Create(t.Context(), bind, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.sees("ConfigMap one", health.StatusCurrent, "")
	w.sees("ConfigMap two", health.StatusNotFound, "")
	g.create(two)
	if err := w.result(); err != nil {
		t.Error(err)
	}
	w.saw("ConfigMap one", "Unknown Current")
	w.saw("ConfigMap two", "Unknown NotFound Current")
}

// checkHealthRestart: Wait continues when the API server is killed and restarted.
func checkHealthRestart(t *testing.T, g *ground) {
	const ns = "restart"
	g.create(namespaceOf(ns))
	x := g.plain(nil)
	job, settings := jobOf(ns, "job"), configMapOf(ns, "settings", "1")
	want(t, x.apply(t, x.ensure(t, ns), job, settings), "2 created")
	w := waitFor(t, x, health.Options{Timeout: 10 * time.Minute}, job, settings)
	w.sees("Job job", health.StatusInProgress, "not started")
	w.sees("ConfigMap settings", health.StatusCurrent, "")
	g.KillAPIServer()
	w.sees("Job job", health.StatusUnknown, "")
	g.StartAPIServer()
	w.sees("Job job", health.StatusInProgress, "not started")
	w.sees("ConfigMap settings", health.StatusCurrent, "")
	g.report(job, `{"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:00:01Z","succeeded":1,"conditions":[
		{"type":"SuccessCriteriaMet","status":"True","lastTransitionTime":"2026-01-01T00:00:01Z"},
		{"type":"Complete","status":"True","lastTransitionTime":"2026-01-01T00:00:01Z"}]}`)
	if err := w.result(); err != nil {
		t.Error(err)
	}

	// A kind that is not served is Unknown.
	var notReady *health.NotReadyError
	err := health.NewWaiter(x.tracker).Wait(t.Context(), objects(customOf("none.example.com/v1", "None", ns, "n")),
		health.Options{Timeout: time.Second})
	if !errors.As(err, &notReady) || notReady.Result.Status != health.StatusUnknown || !appliedwork.IsTypeNotServed(err) {
		t.Error(err)
	}
}
