// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/kube"
)

// health is an Interpreter made of a function.
type health func(ctx context.Context, object *unstructured.Unstructured) (bool, error)

func (h health) Health(ctx context.Context, object *unstructured.Unstructured) (bool, error) {
	return h(ctx, object)
}

// kinds are the kinds of serving, by their apiVersion.
var kinds = map[string]string{
	"apps/v1":        `{"name":"deployments","namespaced":true,"kind":"Deployment","verbs":["get","patch"]}`,
	"batch/v1":       `{"name":"jobs","namespaced":true,"kind":"Job","verbs":["get","patch"]}`,
	"example.com/v1": `{"name":"gadgets","namespaced":true,"kind":"Gadget","verbs":["get","patch"]},{"name":"widgets","namespaced":true,"kind":"Widget","verbs":["get","patch"]}`,
}

// serving answers discovery with kinds, and each get with the result of content: the fields of an
// object without its identity.
func serving(content func(kind, name string) string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		path, ok := strings.CutPrefix(r.URL.Path, "/apis/")
		if !ok {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		if resources, ok := kinds[path]; ok {
			fmt.Fprintf(
				w,
				`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[%s]}`,
				path,
				resources,
			)
			return true
		}
		parts := strings.Split(path, "/") // group, version, namespaces, namespace, resource, and a name if it is a get
		if len(parts) != 6 {
			reply(w, http.StatusForbidden, "Forbidden", "", nil)
			return true
		}
		kind := map[string]string{"deployments": "Deployment", "jobs": "Job", "gadgets": "Gadget",
			"widgets": "Widget"}[parts[4]]
		fmt.Fprintf(
			w,
			`{"apiVersion":"%s/%s","kind":%q,%s}`,
			parts[0],
			parts[1],
			kind,
			strings.Replace(
				content(kind, parts[5]),
				`"metadata":{`,
				fmt.Sprintf(`"metadata":{"name":%q,"namespace":"shop","uid":"u","resourceVersion":"7",`, parts[5]),
				1,
			),
		)
		return true
	}
}

func resourceOf(apiVersion, kind, name string) appcontext.Resource {
	group, _, _ := strings.Cut(apiVersion, "/")
	return appcontext.Resource{
		Object: appcontext.Object{Group: group, Kind: kind, Namespace: "shop", Name: name},
		Manifest: fmt.Appendf(
			nil,
			"{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: shop}}",
			apiVersion,
			kind,
			name,
		),
	}
}

// TestInterpreter: a state combines the answer of an interpreter with the rules of the connector.
func TestInterpreter(t *testing.T) {
	const (
		bare      = `"metadata":{"labels":{}}`
		stalled   = `"metadata":{"labels":{}},"status":{"conditions":[{"type":"Stalled","status":"True","reason":"NoDisk"}]}`
		reconcile = `"metadata":{"labels":{}},"status":{"conditions":[{"type":"Ready","status":"False","reason":"Idle"}]}`
		behind    = `"metadata":{"generation":2},"status":{"observedGeneration":1}`
		text      = `"metadata":{"generation":2},"status":{"observedGeneration":"2"}`
		deleted   = `"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}`
		running   = `"metadata":{"labels":{}},"status":{"startTime":"2026-01-01T00:00:00Z","active":1}`
		failed    = `"metadata":{"labels":{}},"status":{"startTime":"2026-01-01T00:00:00Z","failed":1,"conditions":[{"type":"Failed","status":"True"}]}`
		complete  = `"metadata":{"labels":{}},"status":{"startTime":"2026-01-01T00:00:00Z","succeeded":1,"conditions":[{"type":"Complete","status":"True"}]}`
		replacing = `"metadata":{"generation":1},"spec":{"replicas":1},"status":{"observedGeneration":1,"replicas":2,"updatedReplicas":1,"readyReplicas":2,"availableReplicas":2,` +
			`"conditions":[{"type":"Available","status":"True"},{"type":"Progressing","status":"True","reason":"ReplicaSetUpdated"}]}`

		unhealthy = "the interpreter reports that it is not healthy"
		widget    = "example.com/v1 Widget"
		job       = "batch/v1 Job"
	)
	yes := func() (bool, error) { return true, nil }
	no := func() (bool, error) { return false, nil }
	fails := func() (bool, error) { return true, errors.New("s3cr3t") }
	unknown := func() (bool, error) { return true, fmt.Errorf("%w: s3cr3t", kube.ErrNotInterpreted) }
	for _, tt := range []struct {
		reason, kind, content string
		answer                func() (bool, error) // nil: it must not be called
		ready, failed         bool
		message               string
	}{
		{"a status without conditions", widget, bare, no, false, false, unhealthy},
		{"healthy", widget, bare, yes, true, false, ""},
		{"healthy, whatever its conditions", widget, reconcile, yes, true, false, ""},
		{"the kind is unknown to the interpreter", widget, bare, unknown, true, false, "Current"},
		{"the kind is unknown, and the conditions decide", widget, reconcile, unknown, false, false, "InProgress: Idle"},
		{"the kind is unknown, and has failed", widget, stalled, unknown, false, true, "Failed: NoDisk"},
		{"an error makes nothing ready", widget, bare, fails, false, false, "its health is unknown: the interpreter failed"},
		{"an error makes nothing failed that may be healthy", widget, stalled, fails, false, false,
			"its health is unknown: the interpreter failed"},
		{"a panic is an error", widget, bare, func() (bool, error) { panic("s3cr3t") }, false, false,
			"its health is unknown: the interpreter failed"},
		{"failed by its conditions, but healthy", widget, stalled, yes, true, false, ""},
		{"failed by its conditions, and unhealthy", widget, stalled, no, false, true, "Failed: NoDisk"},
		{"the status is of an earlier generation", widget, behind, nil, false, false,
			"InProgress: LatestGenerationNotObserved"},
		{"a status that kstatus cannot read", widget, text, yes, true, false, ""},
		{"a status that neither kstatus nor the interpreter can read", widget, text, unknown, false, false,
			"its status cannot be read"},
		{"deleted", widget, deleted, nil, false, false, "Terminating"},
		{"a healthy Job that runs is not complete", job, running, yes, false, false,
			"Job in progress. success:0, active: 1, failed: 0"},
		{"a failed Job stays failed", job, failed, yes, false, true, "Job Failed. failed: 1/1"},
		{"a failed Job stays failed without an answer", job, failed, fails, false, true, "Job Failed. failed: 1/1"},
		{"a complete Job", job, complete, yes, true, false, "Job Completed. succeeded: 1/1"},
		{"a complete Job that is unhealthy", job, complete, no, false, false, unhealthy},
		{"a healthy Deployment with old Pods", "apps/v1 Deployment", replacing, yes, false, false, "Pending termination: 1"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			a := start(t, false)
			a.respond(serving(func(string, string) string { return tt.content }))
			asked := 0
			c := open(
				t,
				kube.Cluster{Config: a.config()},
				kube.Options{Interpreter: health(func(_ context.Context, u *unstructured.Unstructured) (bool, error) {
					if asked++; tt.answer == nil {
						t.Errorf("it is asked about %v", u)
						return true, nil
					}
					return tt.answer()
				})},
			)
			apiVersion, kind, _ := strings.Cut(tt.kind, " ")
			states, err := c.Get(
				t.Context(),
				connector.Batch{Resources: []appcontext.Resource{resourceOf(apiVersion, kind, "a")}},
			)
			if err != nil {
				t.Fatal(err)
			}
			s := states[0]
			if !s.Exists || s.Ready != tt.ready || s.Failed != tt.failed || s.Message != tt.message {
				t.Errorf("%+v, want ready %v, failed %v, %q", s, tt.ready, tt.failed, tt.message)
			}
			if tt.answer != nil && asked != 1 {
				t.Errorf("it is asked %d times", asked)
			}
		})
	}
}

// TestSlowInterpreter: an interpreter that does not answer for some objects delays no other kind.
// Each late answer counts.
func TestSlowInterpreter(t *testing.T) {
	a := start(t, false)
	a.respond(serving(func(string, string) string { return `"metadata":{"generation":1}` }))
	var running, most atomic.Int64
	answers := make(chan bool)
	c := open(
		t,
		kube.Cluster{Config: a.config()},
		kube.Options{
			Concurrency: 3,
			Interpreter: health(func(ctx context.Context, u *unstructured.Unstructured) (bool, error) {
				if u.GetKind() == "Gadget" {
					return true, nil
				}
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				select {
				case answer := <-answers:
					return answer, nil
				case <-ctx.Done():
					return true, ctx.Err()
				}
			}),
		},
	)
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- c.(connector.StatusWatcher).WatchStatus(ctx, func() { told <- struct{}{} }) }()
	var batch connector.Batch
	for i := range 9 {
		batch.Resources = append(
			batch.Resources,
			resourceOf("example.com/v1", "Widget", fmt.Sprint("w", i)),
			resourceOf("example.com/v1", "Gadget", fmt.Sprint("g", i)),
		)
	}
	get := func() (widgets int) {
		t.Helper()
		states, err := c.Get(ctx, batch)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range states {
			switch {
			case s.Kind == "Gadget" && !s.Ready:
				t.Errorf("%+v, want it ready", s)
			case s.Kind == "Widget" && s.Ready:
				widgets++
			case s.Kind == "Widget" && s.Message != "its health is unknown: the interpreter has not answered yet":
				t.Errorf("%+v", s)
			}
		}
		return widgets
	}
	if ready := get(); ready != 0 || running.Load() != 3 || most.Load() != 3 {
		t.Errorf(
			"%d are ready, and %d questions are open, %d at most, want 0, 3 and 3",
			ready,
			running.Load(),
			most.Load(),
		)
	}
	select {
	case answers <- true:
	case <-time.After(10 * time.Second):
		t.Fatal("no question is open")
	}
	select {
	case <-told:
	case <-time.After(10 * time.Second):
		t.Fatal("a late answer is not reported")
	}
	if ready := get(); ready != 1 {
		t.Errorf("%d are ready after one answer", ready)
	}
	late, stop := context.WithTimeout(ctx, time.Millisecond)
	defer stop()
	if _, err := c.Get(late, batch); err == nil {
		t.Error("a Get goes on after its context")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n := running.Load(); n != 0 {
		t.Errorf("%d questions are open after Close", n)
	}
}

// TestInterpreterTimeout: a call of the interpreter ends after Options.Timeout. A later call gets
// the current object.
func TestInterpreterTimeout(t *testing.T) {
	a := start(t, false)
	generation := atomic.Int64{}
	a.respond(
		serving(func(string, string) string { return fmt.Sprintf(`"metadata":{"generation":%d}`, generation.Load()) }),
	)
	generation.Store(1)
	c := open(
		t,
		kube.Cluster{Config: a.config()},
		kube.Options{
			Timeout: 500 * time.Millisecond,
			Interpreter: health(func(ctx context.Context, u *unstructured.Unstructured) (bool, error) {
				if u.GetGeneration() == 1 {
					<-ctx.Done()
					return true, fmt.Errorf("s3cr3t: %w", ctx.Err())
				}
				return true, nil
			}),
		},
	)
	batch := connector.Batch{Resources: []appcontext.Resource{resourceOf("example.com/v1", "Widget", "a")}}
	for _, want := range []connector.State{
		{Object: batch.Resources[0].Object, Exists: true,
			Message: "its health is unknown: the interpreter did not answer within 500ms"},
		{Object: batch.Resources[0].Object, Exists: true, Ready: true},
	} {
		states, err := c.Get(t.Context(), batch)
		if err != nil || states[0] != want {
			t.Errorf("%+v, %v, want %+v", states, err, want)
		}
		generation.Add(1)
	}
}
