// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/gitserver"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/git"
	"github.com/spokewire/sdk-go/rsync/internal/wavetest"
)

// agent is a cluster that syncs the tip of the branch whenever its status is read. Its Jobs run
// until the test ends them.
type agent struct {
	server *gitserver.Server

	mu    sync.Mutex
	there map[string]string // manifests by kind/name
	ended map[string]string // Complete or Failed, by the Job's name
	calls []string
}

func newAgent() *agent { return &agent{there: map[string]string{}, ended: map[string]string{}} }

// sync deletes, creates and updates objects to match the files at the tip.
func (a *agent) sync() {
	tip := map[string]string{}
	for file, text := range a.server.Files() {
		if path := strings.Split(file, "/"); path[0] == edge1.String() && strings.HasSuffix(file, ".yaml") {
			kind, _, _ := strings.Cut(path[2], ".")
			tip[kind+"/"+strings.TrimSuffix(path[3], ".yaml")] = text
		}
	}
	for _, o := range slices.Sorted(maps.Keys(a.there)) {
		if _, ok := tip[o]; !ok {
			a.calls = append(a.calls, "delete "+o)
			delete(a.there, o)
		}
	}
	for _, o := range slices.Sorted(maps.Keys(tip)) {
		switch before, ok := a.there[o]; {
		case !ok:
			a.calls = append(a.calls, "create "+o)
		case before != tip[o]:
			a.calls = append(a.calls, "change "+o)
		}
		a.there[o] = tip[o]
	}
}

// status implements git.Options.Status.
func (a *agent) status(_ context.Context, _ connector.Batch, states []connector.State) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sync()
	for i := range states {
		s := &states[i]
		_, s.Exists = a.there[s.Kind+"/"+s.Name]
		s.Ready, s.Failed, s.Message = s.Exists, false, ""
		if s.Kind == "Job" && s.Exists {
			s.Ready, s.Failed = a.ended[s.Name] == "Complete", a.ended[s.Name] == "Failed"
		}
	}
	return nil
}

// end ends a Job. With an empty end, the Job runs again.
func (a *agent) end(name, end string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended[name] = end
}

func (a *agent) log() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls)
}

func (a *agent) objects() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.there))
}

// createWaves stores the context of package wavetest.
func createWaves(t *testing.T, engine *rsync.Engine, id, image string, migrate ...appcontext.HookDeletePolicy) {
	t.Helper()
	if err := engine.Create(t.Context(), wavetest.Context(t, id, edge1, image, migrate...)); err != nil {
		t.Fatal(err)
	}
}

// TestWaves tests hooks and waves with an Options.Status that reads the cluster. A hook is deleted
// after it has succeeded, and before it runs again. A wave waits for a Job of the wave before. A
// hook that fails is deleted and fails the app.
func TestWaves(t *testing.T) {
	s := ways["https"](t, gitserver.Options{})
	cluster := newAgent()
	cluster.server = s.server
	engine, _ := start(t, newConnectors(t, s.at, git.Options{Status: cluster.status}), rsync.Options{
		PollInterval: 20 * time.Millisecond,
	})
	wait := done(t, engine)
	createWaves(t, engine, "v1", "one", appcontext.HookDeletePolicySucceeded)
	createWaves(t, engine, "v2", "two", appcontext.HookDeletePolicySucceeded)
	waitsFor := func(id, name string, objects ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var last *rsync.ClusterStatus
		for change, err := range engine.Watch(ctx, id, 0) {
			if err != nil {
				t.Fatalf("%s does not wait for %s: %v, %+v", id, name, err, last)
			}
			if c := change.Cluster; c != nil {
				last = c
			}
			if last != nil && last.Reason == rsync.ReasonNotReady && strings.Contains(last.Message, name) {
				break
			}
		}
		if got := cluster.objects(); !slices.Equal(got, objects) {
			t.Errorf("while %s waits for %s there is %v, want %v", id, name, got, objects)
		}
	}
	ref, err := engine.Instantiate(t.Context(), "v1")
	if err != nil {
		t.Fatal(err)
	}
	waitsFor("v1", "migrate", "Job/migrate")
	cluster.end("migrate", "Complete")
	waitsFor("v1", "seed", "ConfigMap/early", "Job/seed")
	cluster.end("seed", "Complete")
	waitsFor("v1", "check", "ConfigMap/early", "ConfigMap/late", "Job/check", "Job/seed")
	cluster.end("check", "Complete")
	if _, err := wait(ref, nil); err != nil {
		t.Fatal(err)
	}
	want := "create Job/migrate, delete Job/migrate, create ConfigMap/early, create Job/seed, create ConfigMap/late, " +
		"create Job/check"
	before := cluster.log()
	if got := strings.Join(before, ", "); got != want {
		t.Errorf("Instantiate: the agent did %s, want %s", got, want)
	}
	cluster.end("check", "")
	ref, err = engine.Update(t.Context(), "v1", "v2") // the update changes only the hook
	if err != nil {
		t.Fatal(err)
	}
	waitsFor("v2", "check", "ConfigMap/early", "ConfigMap/late", "Job/check", "Job/seed")
	cluster.end("check", "Failed")
	if _, err := wait(ref, nil); err == nil || !strings.Contains(err.Error(), "HookFailed") ||
		!strings.Contains(err.Error(), "check") {
		t.Errorf("after the hook has failed: %v", err)
	}
	for _, id := range []string{"v2", "v1"} { // v1 still owns its objects, because the update has failed
		if _, err := wait(engine.Terminate(t.Context(), id)); err != nil {
			t.Fatal(err)
		}
	}
	want = "delete Job/check, create Job/check, delete Job/check, "
	if got := strings.Join(cluster.log()[len(before):], ", "); !strings.HasPrefix(got, want) {
		t.Errorf("Update: the agent did %s, want %s first", got, want)
	}
	if got := cluster.objects(); len(got) > 0 {
		t.Errorf("after Terminate there is %v", got)
	}
	s.server.Check()
}

// TestWavesWithoutStatus: without Options.Status, a wave and a hook wait for the commit of the
// objects before. A hook that would be deleted right after its commit is refused and not committed.
func TestWavesWithoutStatus(t *testing.T) {
	s := ways["file"](t, gitserver.Options{})
	engine, _ := start(t, newConnectors(t, s.at, git.Options{}), rsync.Options{PollInterval: 20 * time.Millisecond})
	wait := done(t, engine)
	createWaves(t, engine, "bad", "one", appcontext.HookDeletePolicySucceeded)
	_, err := wait(engine.Instantiate(t.Context(), "bad"))
	var failure *rsync.EventError
	if !errors.As(err, &failure) || failure.Reason != rsync.ReasonRefused || !strings.Contains(failure.Message,
		"migrate: deletePolicies: hook-succeeded needs git.Options.Status") {
		t.Errorf("a hook with hook-succeeded: %v", err)
	}
	if files := slices.Sorted(maps.Keys(s.server.Files())); !slices.Equal(files, []string{"README"}) {
		t.Errorf("after the refusal there is %v", files)
	}
	createWaves(t, engine, "good", "one", appcontext.HookDeletePolicyBeforeCreation, appcontext.HookDeletePolicyFailed)
	before := len(s.server.Subjects())
	if _, err := wait(engine.Instantiate(t.Context(), "good")); err != nil {
		t.Fatal(err)
	}
	subjects := s.server.Subjects()
	got := s.server.Git("log", "--reverse", "--format=", "--name-only", fmt.Sprintf("-%d", len(subjects)-before), "main")
	files := strings.Fields(got)
	for i, file := range files {
		files[i] = strings.TrimSuffix(file[strings.LastIndex(file, "/")+1:], ".yaml")
	}
	if got, want := strings.Join(files, " "), "migrate early seed late check"; got != want {
		t.Errorf("the files were committed in the order %s, want %s", got, want)
	}
}
