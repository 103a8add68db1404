// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	workfake "open-cluster-management.io/api/client/work/clientset/versioned/fake"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/agent"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/fakework"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/hub"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/manifests"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/memcluster"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/progress"
)

// fixture is a hub clientset, a running hub, and agents for its clusters, all in a synctest bubble.
type fixture struct {
	*testing.T
	client   *workfake.Clientset
	hub      *hub.Hub
	clusters map[string]*memcluster.Cluster

	mu    *sync.Mutex
	board *progress.Board
	lines *[]string
	said  *[]string
}

var folder = fstest.MapFS{
	"a.yaml": {Data: []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: demo}\n")},
	"b.yaml": {Data: []byte(
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: demo}\nspec: {replicas: 2}\n")},
	"c.yaml": {Data: []byte(
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n")},
}

// run starts a hub for the clusters one and two, and an agent for each cluster in agents. The
// reactions replace the reaction of the clientset to the creation of a work.
func run(
	t *testing.T, folder fstest.MapFS, agents []string, test func(ctx context.Context, f fixture),
	reactions ...clienttesting.ReactionFunc,
) {
	synctest.Test(t, func(t *testing.T) {
		files, err := manifests.Load(folder, "test")
		if err != nil {
			t.Fatal(err)
		}
		f := fixture{T: t, client: fakework.New(), clusters: map[string]*memcluster.Cluster{}, mu: &sync.Mutex{},
			board: progress.NewBoard(time.Now()), lines: &[]string{}, said: &[]string{}}
		for _, r := range reactions {
			f.client.PrependReactor("create", "*", r)
		}
		f.hub, err = hub.New(hub.Options{Works: f.client, Clusters: []string{"one", "two"}, Files: files, Event: f.event,
			Print: func(format string, args ...any) { *f.said = append(*f.said, fmt.Sprintf(format, args...)) }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { _ = f.hub.Start(ctx) })
		for _, name := range agents {
			f.clusters[name] = memcluster.New(nil)
			a, err := agent.New(agent.Options{ClusterName: name, Works: f.client, Cluster: f.clusters[name]})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { _ = a.Start(ctx) })
		}
		test(ctx, f)
	})
}

func (f fixture) event(e progress.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.board.Add(e) {
		*f.lines = append(*f.lines, fmt.Sprintf("%s %s/%s %d %s", e.Step, e.Cluster, e.Work, e.Generation, e.Detail))
	}
}

// linesOf returns the steps of one work.
func (f fixture) linesOf(work string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(*f.lines), func(l string) bool { return !strings.Contains(l, " "+work+" ") })
}

func TestRun(t *testing.T) {
	run(t, folder, []string{"one", "two"}, func(ctx context.Context, f fixture) {
		s, err := f.hub.Run(ctx)
		if err != nil {
			f.Fatal(err)
		}
		if s.Files != 3 || s.Clusters != 2 || s.Objects != 8 || len(s.Sent) != 6 {
			f.Errorf("summary: %+v", s)
		}
		want := []string{"sent one/a 1 1 object", "reported one/a 1 ", "sent one/a 2 update", "reported one/a 2 "}
		if diff := cmp.Diff(want, f.linesOf("one/a")); diff != "" {
			f.Errorf("the updated work (-want +got):\n%s", diff)
		}
		want = []string{"sent one/c 1 2 objects", "reported one/c 1 ", "delete one/c 1 ", "gone one/c 1 "}
		if diff := cmp.Diff(want, f.linesOf("one/c")); diff != "" {
			f.Errorf("the deleted work (-want +got):\n%s", diff)
		}
		if lines := f.linesOf("two/b"); lines[len(lines)-1] != "status two/b 1 2/2 ready" {
			f.Errorf("the Deployment's work: %q", lines)
		}
		said := []string{"Sending 3 works to 2 clusters", `Updating a on one: an annotation on its Namespace "demo"`,
			"Deleting c on one"}
		if diff := cmp.Diff(said, *f.said); diff != "" {
			f.Errorf("said (-want +got):\n%s", diff)
		}
		namespaces, _ := kinds.BuiltIn(kinds.Namespace)
		one, err := f.clusters["one"].Get(ctx, namespaces, "", "demo")
		if err != nil || one.GetAnnotations()[hub.UpdatedAt] == "" {
			f.Errorf("the namespace on the first cluster: %v, %v; want the annotation", one, err)
		}
		if n, err := f.hub.Cleanup(ctx, ""); n != 5 || err != nil {
			f.Errorf("Cleanup: %d works, %v; want the 5 that are left", n, err)
		}
		if _, err := f.clusters["two"].Get(ctx, namespaces, "", "demo"); !apierrors.IsNotFound(err) {
			f.Errorf("after the cleanup: %v; want NotFound", err)
		}
		list, err := f.client.WorkV1().ManifestWorks("").List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 0 {
			f.Errorf("works left: %v, %v", list.Items, err)
		}
	})
}

func TestRunWithOneFile(t *testing.T) {
	run(t, fstest.MapFS{"c.yaml": folder["c.yaml"]}, []string{"one", "two"}, func(ctx context.Context, f fixture) {
		if _, err := f.hub.Run(ctx); err != nil {
			f.Fatal(err)
		}
		want := []string{"sent one/c 1 2 objects", "reported one/c 1 ", "sent one/c 2 update", "reported one/c 2 ",
			"delete one/c 2 ", "gone one/c 2 "}
		if diff := cmp.Diff(want, f.linesOf("one/c")); diff != "" {
			f.Errorf("updated, then deleted (-want +got):\n%s", diff)
		}
	})
}

func TestRunAdoptsExistingWorks(t *testing.T) {
	for _, same := range []bool{true, false} {
		run(t, fstest.MapFS{"c.yaml": folder["c.yaml"]}, []string{"one", "two"}, func(ctx context.Context, f fixture) {
			files, _ := manifests.Load(fstest.MapFS{"c.yaml": folder["c.yaml"]}, "test")
			w, err := hub.NewWork(files[0], "two")
			if err != nil {
				f.Fatal(err)
			}
			if !same {
				w.Spec.Workload.Manifests = w.Spec.Workload.Manifests[:1]
			}
			if _, err := f.client.WorkV1().ManifestWorks("two").Create(ctx, w, metav1.CreateOptions{}); err != nil {
				f.Fatal(err)
			}
			if _, err := f.hub.Run(ctx); err != nil {
				f.Fatal(err)
			}
			want := []string{"sent two/c 1 2 objects", "reported two/c 1 "}
			if !same {
				want = []string{"sent two/c 1 2 objects", "sent two/c 2 already exists", "reported two/c 2 "}
			}
			if diff := cmp.Diff(want, f.linesOf("two/c")); diff != "" {
				f.Errorf("same spec %v (-want +got):\n%s", same, diff)
			}
		})
	}
}

func TestRunFails(t *testing.T) {
	stranger := fstest.MapFS{
		"d.yaml": {Data: []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: nowhere}\n")},
	}
	refuse := func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewTooManyRequests("no room", 1)
	}
	for _, tt := range []struct {
		reason string
		folder fstest.MapFS
		agents []string
		reacts []clienttesting.ReactionFunc
		want   []string
	}{
		{"an agent is missing", folder, []string{"one"}, nil,
			[]string{"no progress for 60 s: work a on two has no status (and 2 other works)"}},
		{"a namespace never comes", stranger, []string{"one", "two"}, nil,
			[]string{`work d on one is not applied: d.yaml, document 1 (line 1): Pod "nowhere/p": namespaces "nowhere" not found`}},
		{"the work is refused", folder, []string{"one", "two"}, []clienttesting.ReactionFunc{refuse},
			[]string{"create work a for one: ", "no room"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			run(t, tt.folder, tt.agents, func(ctx context.Context, f fixture) {
				begin := time.Now()
				_, err := f.hub.Run(ctx)
				for _, want := range tt.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						f.Errorf("after %v: %v; want %q", time.Since(begin), err, want)
					}
				}
			}, tt.reacts...)
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	run(t, folder, nil, func(ctx context.Context, f fixture) {
		interrupted := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(time.Second, func() { cancel(interrupted) })
		if _, err := f.hub.Run(ctx); !errors.Is(err, interrupted) {
			f.Errorf("Run: %v; want the context's cause", err)
		}
		// No agent has changed the works, so they are removed immediately.
		if n, err := f.hub.Cleanup(context.WithoutCancel(ctx), ""); n != 6 || err != nil {
			f.Errorf("Cleanup: %d, %v", n, err)
		}
	})
}

func TestNewWorkAsksForReplicas(t *testing.T) {
	files, err := manifests.Load(folder, "test")
	if err != nil {
		t.Fatal(err)
	}
	w, err := hub.NewWork(files[1], "one")
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Spec.ManifestConfigs) != 1 || w.Spec.ManifestConfigs[0].ResourceIdentifier.Name != "web" {
		t.Errorf("manifest configs: %+v", w.Spec.ManifestConfigs)
	}
	got := &unstructured.Unstructured{}
	if err := got.UnmarshalJSON(w.Spec.Workload.Manifests[0].Raw); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files[1].Objects[0].Object, got.Object); diff != "" {
		t.Errorf("the manifest (-want +got):\n%s", diff)
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := hub.New(hub.Options{}); err == nil {
		t.Error("New without anything: no error")
	}
}

func TestSummary(t *testing.T) {
	s := hub.Summary{Files: 3, Clusters: 2, Objects: 8, Took: 1234 * time.Millisecond, Updated: 4567 * time.Microsecond,
		Deleted: 89 * time.Microsecond,
		Sent:    []time.Duration{time.Millisecond, 2 * time.Millisecond, 30 * time.Millisecond}}
	want := "3 files for 2 clusters: 8 objects applied and reported, one work updated, one deleted, in 1.2 s.\n" +
		"From sent to reported: 2.0 ms at the median, 30 ms at most; the update took 4.6 ms, the deletion 0.1 ms."
	if diff := cmp.Diff(want, s.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
