// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/testing/gitserver"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/git"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// journal collects the logs of all levels.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *journal) add(_, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(&l.text, line)
}

// String returns all lines.
func (l *journal) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start runs an engine until the end of the test, and returns its log.
func start(t *testing.T, connectors connector.Connectors, options rsync.Options) (*rsync.Engine, *journal) {
	t.Helper()
	engine, err := rsync.New(memstore.New(memstore.Options{}), connectors, options)
	if err != nil {
		t.Fatal(err)
	}
	lines := &journal{}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(),
		funcr.New(lines.add, funcr.Options{Verbosity: 9})))
	ended := make(chan error, 1)
	go func() { ended <- engine.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
	return engine, lines
}

// create stores a context of one app in the form "c1 a=1 b=2; c2 a=1".
func create(t *testing.T, engine *rsync.Engine, id, text string) {
	t.Helper()
	b := appcontext.NewBuilder(id)
	app := b.App("app")
	for part := range strings.SplitSeq(text, ";") {
		fields := strings.Fields(part)
		app.Cluster("edge", fields[0])
		for _, r := range batch(strings.Join(fields[1:], " ")).Resources {
			app.Resource("edge", fields[0], r.Manifest)
		}
	}
	c, err := b.Build()
	if err == nil {
		err = engine.Create(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// done returns a function that waits for an event and returns the status of its context.
func done(t *testing.T, engine *rsync.Engine) func(rsync.EventRef, error) (*rsync.Status, error) {
	return func(ref rsync.EventRef, err error) (*rsync.Status, error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return engine.Wait(ctx, ref)
	}
}

// TestEngineLife runs the life of a context, while a rival pushes and answers are lost.
func TestEngineLife(t *testing.T) {
	var requests atomic.Int32
	s := ways["https"](t, gitserver.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "git-receive-pack") && requests.Add(1)%3 == 1 {
				next.ServeHTTP(discard{http.Header{}}, r)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	}})
	engine, lines := start(t, newConnectors(t, s.at, git.Options{}), rsync.Options{
		ProbeInterval: 200 * time.Millisecond, PollInterval: 20 * time.Millisecond,
		Backoff: rsync.Backoff{Base: 10 * time.Millisecond},
	})
	create(t, engine, "v1", "c1 a=1 b=1; c2 a=1")
	create(t, engine, "v2", "c1 b=2 c=2; c2 a=1 d=2")
	wait := done(t, engine)
	step := func(name, want string, ref rsync.EventRef, err error) {
		t.Helper()
		s.server.Commit("rival", map[string]string{"rival": name})
		if _, err := wait(ref, err); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for file, text := range s.server.Files() {
			if rest, ok := strings.CutPrefix(file, "edge+"); ok && !strings.HasSuffix(file, ".gitkeep") {
				_, value, _ := strings.Cut(text, "key: ")
				cluster, _, _ := strings.Cut(rest, "/")
				got = append(got, cluster+"/"+strings.TrimSuffix(file[strings.LastIndex(file, "/")+1:], ".yaml")+"="+
					strings.Trim(value, "\"}\n"))
			}
		}
		slices.Sort(got)
		if text := strings.Join(got, " "); text != want {
			t.Errorf("after %s there is %q, want %q", name, text, want)
		}
	}
	ctx := t.Context()
	ref, err := engine.Instantiate(ctx, "v1")
	step("instantiate", "c1/a=1 c1/b=1 c2/a=1", ref, err)
	ref, err = engine.Update(ctx, "v1", "v2")
	step("update", "c1/b=2 c1/c=2 c2/a=1 c2/d=2", ref, err)
	ref, err = engine.Rollback(ctx, "v2", "v1")
	step("rollback", "c1/a=1 c1/b=1 c2/a=1", ref, err)
	ref, err = engine.Terminate(ctx, "v1")
	step("terminate", "", ref, err)
	s.server.Check()
	// One commit for each of: Instantiate, each phase of the two updates on a cluster that it
	// changes, and Terminate.
	counts := map[string]int{}
	for _, subject := range s.server.Subjects() {
		counts[subject]++
	}
	want := map[string]int{
		"The beginning": 1, "rival": 4,
		"Apply 2 objects of v1/app on edge+c1": 2, "Apply 1 object of v1/app on edge+c2": 1,
		"Apply 2 objects of v2/app on edge+c1": 1, "Apply 1 object of v2/app on edge+c2": 1,
		"Delete 1 object of v1/app on edge+c1": 1, "Delete 1 object of v2/app on edge+c1": 1,
		"Delete 1 object of v2/app on edge+c2":  1,
		"Delete 2 objects of v1/app on edge+c1": 1, "Delete 1 object of v1/app on edge+c2": 1,
	}
	if !maps.Equal(counts, want) {
		t.Errorf("commits are %v, want %v", counts, want)
	}
	if text := lines.String() + s.server.Git("log", "--format=fuller", "-p", "main"); strings.Contains(text,
		s.at.Auth.Password) || !strings.Contains(text, "v1") {
		t.Errorf("the log and the commits have the password, or nothing: %s", text)
	}
}

// TestEnginePushFails: a push that fails, or a manifest that cannot be pushed, fails the event. The
// status of that cluster has the reason.
func TestEnginePushFails(t *testing.T) {
	const limit = 1000
	s := ways["https"](t, gitserver.Options{})
	other := ways["file"](t, gitserver.Options{})
	connectors, err := git.New(map[string]git.Repository{"edge+c1": s.at, "edge+c2": other.at},
		git.Options{MaxManifestBytes: limit})
	if err != nil {
		t.Fatal(err)
	}
	engine, lines := start(t, connectors, rsync.Options{MaxRetries: 2, Backoff: rsync.Backoff{Base: time.Millisecond}})
	wait := done(t, engine)
	id := "shop"
	fails := func(reason rsync.Reason, text string) {
		t.Helper()
		ref, err := engine.Instantiate(t.Context(), id)
		_, err = wait(ref, err)
		var failure *rsync.EventError
		if !errors.As(err, &failure) || failure.Reason != reason || !strings.Contains(failure.Message, text) {
			t.Fatalf("%v, want reason %s with %q", err, reason, text)
		}
		status, err := engine.Status(t.Context(), id)
		if err != nil || status.State != rsync.InstantiateFailed {
			t.Errorf("the context is %v, %v", status, err)
		}
		c1, c2 := status.Cluster("app", edge1), status.Cluster("app", appcontext.ClusterID{Provider: "edge", Name: "c2"})
		if c1 == nil || c2 == nil || c1.Phase != rsync.PhaseFailed || c1.Reason != reason ||
			!strings.Contains(c1.Message, text) || c2.Phase != rsync.PhaseDone {
			t.Errorf("the clusters are %+v and %+v", c1, c2)
		}
	}
	create(t, engine, "shop", "c1 a=1; c2 a=1")
	s.server.Hook("pre-receive", "exit 1")
	fails(rsync.ReasonRefused, "pre-receive hook declined")
	s.server.Hook("pre-receive", "")
	s.block()
	fails(rsync.ReasonUnreachable, "")
	s.mend()
	s.server.Git("branch", "-m", "main", "other")
	fails(rsync.ReasonRefused, "there is no such branch")
	s.server.Git("branch", "-m", "other", "main")
	ref, err := engine.Instantiate(t.Context(), "shop")
	if _, err := wait(ref, err); err != nil {
		t.Error(err)
	}
	id = "large"
	create(t, engine, id, "c1 a=1 b="+strings.Repeat("x", limit)+"; c2 a=1")
	fails(rsync.ReasonRefused, "ConfigMap shop/b: the manifest has")
	if strings.Contains(lines.String(), s.at.Auth.Password) {
		t.Error("the log has the password")
	}
}
