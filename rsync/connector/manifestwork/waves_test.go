// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/testing/agenttest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
	"github.com/spokewire/sdk-go/rsync/internal/wavetest"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// jobs makes the agent report Jobs as unfinished until the test ends them.
type jobs struct {
	cluster *agenttest.Cluster
	mu      sync.Mutex
	ended   map[string]string // JobComplete or JobFailed, by "Job shop/name"
}

func newJobs(cluster *agenttest.Cluster) *jobs {
	j := &jobs{cluster: cluster, ended: map[string]string{}}
	cluster.Report(j.report)
	return j
}

func (j *jobs) report(object string, m *workv1.ManifestCondition) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if end := j.ended[object]; end != "" {
		yes := "True"
		m.StatusFeedbacks.Values = []workv1.FeedbackValue{{Name: end, Value: workv1.FieldValue{
			Type: workv1.String, String: &yes,
		}}}
	}
}

// end ends a Job. With an empty end, the Job runs again.
func (j *jobs) end(name, end string) {
	j.mu.Lock()
	j.ended["Job shop/"+name] = end
	j.mu.Unlock()
	j.cluster.Report(j.report)
}

// TestWaves tests hooks and waves over a real broker. A hook is deleted after it has succeeded, and
// before it runs again. A wave waits for a Job of the wave before. A hook that fails is deleted and
// fails the app.
func TestWaves(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	source := newSource(t, transport(t, broker.Addr()))
	cluster := agenttest.NewCluster()
	runAgent(t, transport(t, broker.Addr()), cluster)
	jobs := newJobs(cluster)
	connectors, err := manifestwork.New(source.Clientset().WorkV1(), manifestwork.Options{
		Reachable: func(context.Context, appcontext.ClusterID) error { return source.Healthy() },
	})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := rsync.New(memstore.New(memstore.Options{}), connectors, rsync.Options{
		PollInterval: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	process(t, engine.Start)
	for id, image := range map[string]string{"v1": "one", "v2": "two"} {
		if err := engine.Create(t.Context(),
			wavetest.Context(t, id, cluster1, image, appcontext.HookDeletePolicySucceeded)); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(want ...string) {
		t.Helper()
		eventually(t, "the objects", func() string {
			var got []string
			for object := range cluster.Objects() {
				_, name, _ := strings.Cut(object, "/")
				got = append(got, name)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				status, err := engine.Status(t.Context(), "v1")
				return fmt.Sprintf("there is %v, want %v: %+v, %v", got, want, status, err)
			}
			return ""
		})
	}
	waitsFor := func(id, name string) {
		t.Helper()
		eventually(t, "the status", func() string {
			status, err := engine.Status(t.Context(), id)
			if err != nil {
				return err.Error()
			}
			if web := status.Cluster("web", cluster1); web == nil || web.Reason != rsync.ReasonNotReady ||
				!strings.Contains(web.Message, name) {
				return fmt.Sprintf("%+v", web)
			}
			return ""
		})
	}
	wait := func(ref rsync.EventRef, err error) error {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err = engine.Wait(ctx, ref)
		return err
	}
	ref, err := engine.Instantiate(t.Context(), "v1")
	if err != nil {
		t.Fatal(err)
	}
	waitsFor("v1", "migrate")
	shows("migrate")
	jobs.end("migrate", "JobComplete")
	waitsFor("v1", "seed")
	shows("early", "seed")
	jobs.end("seed", "JobComplete")
	waitsFor("v1", "check")
	shows("check", "early", "late", "seed")
	jobs.end("check", "JobComplete")
	if err := wait(ref, nil); err != nil {
		t.Fatal(err)
	}
	want := "create Job shop/migrate, delete Job shop/migrate, create Job shop/seed, create ConfigMap shop/early, " +
		"create ConfigMap shop/late, create Job shop/check"
	if got := strings.Join(cluster.Calls(), ", "); got != want {
		t.Errorf("Instantiate: the agent did %s, want %s", got, want)
	}
	before := len(cluster.Calls())
	jobs.end("check", "")
	ref, err = engine.Update(t.Context(), "v1", "v2") // the update changes only the hook
	if err != nil {
		t.Fatal(err)
	}
	waitsFor("v2", "check")
	jobs.end("check", "JobFailed")
	if err := wait(ref, nil); err == nil || !strings.Contains(err.Error(), "HookFailed") ||
		!strings.Contains(err.Error(), "check") {
		t.Errorf("after the hook has failed: %v", err)
	}
	want = "delete Job shop/check, create Job shop/check, delete Job shop/check"
	if got := strings.Join(cluster.Calls()[before:], ", "); got != want {
		t.Errorf("Update: the agent did %s, want %s", got, want)
	}
	shows("early", "late", "seed")
	for _, id := range []string{"v2", "v1"} { // v1 still owns its objects, because the update has failed
		if err := wait(engine.Terminate(t.Context(), id)); err != nil {
			t.Fatal(err)
		}
	}
	shows()
	if problems := cluster.Problems(); len(problems) > 0 {
		t.Errorf("works that no agent should get: %v", problems)
	}
}
