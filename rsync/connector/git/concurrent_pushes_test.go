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

	"github.com/spokewire/sdk-go/internal/testing/gitserver"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/git"
)

func class(t *testing.T, err, want error) {
	t.Helper()
	if got := connector.ClassOf(err); !errors.Is(got, want) {
		t.Errorf("%v, want class %v", err, want)
	}
}

// persist applies until it succeeds, as the engine does.
func persist(t *testing.T, c connector.Connector, text string) {
	for range 100 {
		err := c.Apply(t.Context(), batch(text))
		if err == nil {
			return
		}
		if !errors.Is(connector.ClassOf(err), connector.ErrRetryable) {
			t.Errorf("Apply of %s: %v", text, err)
			return
		}
	}
	t.Errorf("Apply of %s never succeeded", text)
}

// TestRivals: two engines with twenty clusters each, and another git client, push to one branch.
// Every object arrives once.
func TestRivals(t *testing.T) {
	const clusters, rounds, commits = 20, 3, 20
	for _, way := range []string{"file", "https"} {
		t.Run(way, func(t *testing.T) {
			s := ways[way](t, gitserver.Options{})
			var running sync.WaitGroup
			for range 2 {
				connectors := newConnectors(t, s.at, git.Options{})
				for i := range clusters {
					c := openCluster(t, connectors, appcontext.ClusterID{Provider: "edge", Name: fmt.Sprint("c", i)})
					running.Go(func() {
						for round := range rounds {
							persist(t, c, fmt.Sprintf("a=%d b=%d", round, round))
						}
						if states, err := c.Get(t.Context(), batch("a b c")); err != nil || !states[0].Exists || !states[1].Exists ||
							states[2].Exists {
							t.Errorf("Get: %+v, %v", states, err)
						}
					})
				}
			}
			for i := range commits {
				s.server.Commit(fmt.Sprint("rival ", i), map[string]string{fmt.Sprint("rival/", i): fmt.Sprint(i)})
			}
			running.Wait()
			s.server.Check()
			files, rivals := s.server.Files(), 0
			for i := range clusters {
				for _, name := range []string{"a", "b"} {
					file := fmt.Sprintf("edge+c%d/shop/ConfigMap/%s.yaml", i, name)
					if files[file] != string(manifest(name, fmt.Sprint(rounds-1))) {
						t.Errorf("%s has %q", file, files[file])
					}
				}
			}
			for _, subject := range s.server.Subjects() {
				if strings.HasPrefix(subject, "rival ") {
					rivals++
				}
			}
			if len(files) != 1+2*clusters+commits || rivals != commits {
				t.Errorf("%d files and %d commits of the rival", len(files), rivals)
			}
		})
	}
}

// TestOnePushForMany: batches that arrive during a push are pushed together in the next push.
func TestOnePushForMany(t *testing.T) {
	const clusters = 20
	var pushes, looks atomic.Int32
	held := make(chan struct{})
	s := ways["http"](t, gitserver.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "git-receive-pack") && pushes.Add(1) == 1 {
				<-held
			}
			looks.Add(1)
			next.ServeHTTP(w, r)
		})
	}})
	connectors := newConnectors(t, s.at, git.Options{})
	var running sync.WaitGroup
	first := openCluster(t, connectors, appcontext.ClusterID{Provider: "edge", Name: "first"})
	running.Go(func() { persist(t, first, "a=1") })
	await(t, func() bool { return pushes.Load() == 1 })
	if err := first.Probe(t.Context()); err != nil {
		t.Errorf("Probe while a push is under way: %v", err)
	}
	var waiting atomic.Int32
	for i := range clusters {
		c := openCluster(t, connectors, appcontext.ClusterID{Provider: "edge", Name: fmt.Sprint("c", i)})
		running.Go(func() {
			if err := c.Apply(watched{t.Context(), &waiting}, batch("a=1 b=1")); err != nil {
				t.Error(err)
			}
		})
	}
	await(t, func() bool { return waiting.Load() == clusters })
	close(held)
	running.Wait()
	if n := pushes.Load(); n != 2 {
		t.Errorf("%d pushes for %d batches, want 2", n, clusters+1)
	}
	if n := len(s.server.Subjects()); n != clusters+2 {
		t.Errorf("%d commits, want one for each batch", n)
	}
	s.server.Check()
	looks.Store(0)
	for i := range clusters {
		c := openCluster(t, connectors, appcontext.ClusterID{Provider: "edge", Name: fmt.Sprint("c", i)})
		if states, err := c.Get(t.Context(), batch("a")); err != nil || !states[0].Exists {
			t.Errorf("Get: %+v, %v", states, err)
		}
	}
	if n := looks.Load(); n != clusters {
		t.Errorf("%d requests for %d Gets of what is known, want one each", n, clusters)
	}
}

// watched is a context that counts its waiting calls.
type watched struct {
	context.Context
	waiting *atomic.Int32
}

// Done is called when a call has been queued.
func (w watched) Done() <-chan struct{} {
	w.waiting.Add(1)
	return w.Context.Done()
}

func await(t *testing.T, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come to that")
		}
	}
}

// TestLostAnswer: the server accepts a push, and the connection breaks before its answer.
func TestLostAnswer(t *testing.T) {
	var lose atomic.Bool
	s := ways["http"](t, gitserver.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "git-receive-pack") && lose.Load() {
				next.ServeHTTP(discard{http.Header{}}, r)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	}})
	c := open(t, s.at, git.Options{})
	apply(t, c, "a=1")
	for _, rival := range []bool{false, true} {
		lose.Store(true)
		before := s.server.Tip()
		class(t, c.Apply(t.Context(), batch(fmt.Sprintf("a=2%v", rival))), connector.ErrUnreachable)
		if s.server.Tip() == before {
			t.Fatal("the server did not take the push")
		}
		lose.Store(false)
		if rival {
			s.server.Commit("rival", map[string]string{"x": "y"})
		}
		before = s.server.Tip()
		apply(t, c, fmt.Sprintf("a=2%v", rival))
		if s.server.Tip() != before {
			t.Error("what was there already was committed again")
		}
	}
	s.server.Check()
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// TestHookRefusesPush: a hook refuses a push. If it refuses one batch of many, the others are
// committed.
func TestHookRefusesPush(t *testing.T) {
	for _, way := range []string{"file", "http", "ssh"} {
		t.Run(way, func(t *testing.T) {
			s := ways[way](t, gitserver.Options{})
			s.server.Hook("pre-receive", `read old new ref
echo "the secret of the hook" >&2
! git diff --name-only "$old" "$new" | grep -q 'c3/'`)
			connectors := newConnectors(t, s.at, git.Options{})
			var running sync.WaitGroup
			for i := range 6 {
				c := openCluster(t, connectors, appcontext.ClusterID{Provider: "edge", Name: fmt.Sprint("c", i)})
				running.Go(func() {
					err := c.Apply(t.Context(), batch("a=1"))
					if i != 3 {
						if err != nil {
							t.Errorf("Apply on c%d: %v", i, err)
						}
						return
					}
					class(t, err, connector.ErrTerminal)
					if !strings.Contains(err.Error(), "pre-receive hook declined") || strings.Contains(err.Error(), "secret") {
						t.Errorf("the error is %v", err)
					}
				})
			}
			running.Wait()
			if got := slices.Sorted(maps.Keys(s.server.Files())); len(got) != 6 ||
				slices.ContainsFunc(got, func(f string) bool { return strings.Contains(f, "c3") }) {
				t.Errorf("files are %v", got)
			}
			s.server.Check()
		})
	}
}

// TestHooksAfterPush: hooks run to their end, even if they are slow and write output.
func TestHooksAfterPush(t *testing.T) {
	eachWay(t, gitserver.Options{}, func(t *testing.T, s served) {
		s.server.Hook("post-receive",
			`i=0; while [ $i -lt 2000 ]; do echo "a line that nobody reads"; i=$((i+1)); done; git update-ref refs/heads/done main`)
		c := open(t, s.at, git.Options{})
		apply(t, c, "a=1")
		await(t, func() bool { return s.server.Git("for-each-ref", "refs/heads/done") != "" })
	})
}

// TestServerStopsAnswering: a server that stops answering delays no call beyond its deadline.
func TestServerStopsAnswering(t *testing.T) {
	for _, way := range []string{"https", "ssh"} {
		t.Run(way, func(t *testing.T) {
			s := ways[way](t, gitserver.Options{})
			c := open(t, s.at, git.Options{})
			apply(t, c, "a=1")
			s.proxy.Stall()
			calls := map[string]func(context.Context) error{
				"Apply": func(ctx context.Context) error { return c.Apply(ctx, batch("a=2")) },
				"Get":   func(ctx context.Context) error { _, err := c.Get(ctx, batch("a")); return err },
				"Probe": c.Probe,
			}
			for name, call := range calls {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				began := time.Now()
				err := call(ctx)
				cancel()
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("%s took %v", name, took)
				}
				class(t, err, connector.ErrUnreachable)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v, want also that the time is over", name, err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			if err := c.Apply(ctx, batch("a=2")); !errors.Is(err, context.Canceled) {
				t.Errorf("Apply that is cancelled: %v", err)
			}
			s.proxy.Resume()
			s.proxy.Cut()
			apply(t, c, "a=3")
		})
	}
}
