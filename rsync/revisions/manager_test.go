// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package revisions_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/revisions"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// fixture is a manager with clusters in memory and a store that survives restarts.
type fixture struct {
	t        *testing.T
	store    *memstore.Store
	clusters *fake.Clusters
	options  revisions.Options
	*revisions.Manager
	stop func()

	part string // the name of the part in targets

	mu   sync.Mutex
	said []string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, store: memstore.New(memstore.Options{}), clusters: fake.New(), part: "main"}
	f.options = revisions.Options{Keep: 3, Engine: rsync.Options{
		Backoff: rsync.Backoff{Base: time.Millisecond}, ProbeInterval: 10 * time.Millisecond,
	}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(strings.Join(f.said, ""))
		}
	})
	return f
}

// Write adds a record of the log.
func (f *fixture) Write(record []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, string(record))
	return len(record), nil
}

// open opens a manager, which is not started.
func (f *fixture) open() {
	f.t.Helper()
	var err error
	if f.Manager, err = revisions.New(f.store, f.clusters, f.options); err != nil {
		f.t.Fatal(err)
	}
}

// start runs a manager until stop is called.
func (f *fixture) start() {
	f.t.Helper()
	f.open()
	f.run()
}

// run runs the open manager until stop is called.
func (f *fixture) run() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(),
		textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(f)))))
	var group sync.WaitGroup
	group.Go(func() {
		if err := f.Start(ctx); err != nil {
			f.t.Error(err)
		}
	})
	f.stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
	f.t.Cleanup(f.stop)
}

// target returns a target on the clusters with an object for each word. "a=1" is a ConfigMap, and
// "pre-delete!a=1" is a Job as a hook.
func (f *fixture) target(content string, clusters ...string) revisions.Target {
	f.t.Helper()
	b := appcontext.NewBuilder("any")
	app := b.App(f.part)
	for _, cluster := range clusters {
		app.Cluster("hub", cluster)
	}
	for field := range strings.FieldsSeq(content) {
		name, value, _ := strings.Cut(field, "=")
		kind := `"v1","kind":"ConfigMap"`
		hook, job, hooked := strings.Cut(name, "!")
		if hooked {
			kind, name = `"batch/v1","kind":"Job"`, job
		} else {
			hook = ""
		}
		manifest := fmt.Appendf(nil, `{"apiVersion":%s,"metadata":{"name":%q,"namespace":"x"},"data":{"v":%q}}`,
			kind, name, value)
		for _, cluster := range clusters {
			app.Hook(appcontext.Hook(hook), "hub", cluster, manifest)
		}
	}
	c, err := b.Build()
	if err != nil {
		f.t.Fatal(err)
	}
	return revisions.Target{Content: &revisions.Content{Apps: c.Apps, Source: content}, Cause: content}
}

func (f *fixture) settle() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	if err := f.Settled(ctx, "shop"); err != nil {
		f.t.Fatal(err)
	}
}

// has checks the objects on a cluster: "a=1 b=2".
func (f *fixture) has(cluster, want string) {
	f.t.Helper()
	if got := f.objects(cluster); got != want {
		f.t.Fatalf("%s has %q, want %q", cluster, got, want)
	}
}

func (f *fixture) objects(cluster string) string {
	var all []string
	for o, manifest := range f.clusters.Cluster("hub", cluster).Objects() {
		_, value, _ := strings.Cut(manifest, `"v":"`)
		value, _, _ = strings.Cut(value, `"`)
		all = append(all, o.Name+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// revisions returns the numbers of the kept revisions, and the wanted number.
func (f *fixture) revisions() string {
	f.t.Helper()
	all, wanted, err := f.Revisions(f.t.Context(), "shop")
	if err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for _, r := range all {
		out = append(out, fmt.Sprint(r.Number))
	}
	return fmt.Sprintf("%s, wanted %d", strings.Join(out, " "), wanted)
}

func TestLife(t *testing.T) {
	f := newFixture(t)
	f.start()
	for _, step := range []struct {
		content   string
		clusters  []string
		revision  int
		want      string // on c1
		revisions string
	}{
		{"a=1 b=1", []string{"c1"}, 0, "a=1 b=1", "1, wanted 1"},
		{"a=1 b=1", []string{"c1"}, 0, "a=1 b=1", "1, wanted 1"},
		{"a=2 c=2", []string{"c1", "c2"}, 0, "a=2 c=2", "1 2, wanted 2"},
		{"a=1 b=1", []string{"c1"}, 1, "a=1 b=1", "1 2, wanted 1"},         // a rollback
		{"a=1 b=1", []string{"c2"}, 1, "", "1 2 3, wanted 3"},              // the same content on another cluster
		{"a=4", []string{"c1", "c2"}, 0, "a=4", "2 3 4, wanted 4"},         // the first one is deleted
		{"a=2 c=2", []string{"c1", "c2"}, 0, "a=2 c=2", "3 4 5, wanted 5"}, // not a rollback, but a new revision
		{"a=2 c=2", nil, 0, "", "4 5 6, wanted 6"},
		{"a=7", []string{"c1"}, 0, "a=7", "5 6 7, wanted 7"},
	} {
		target := f.target(step.content, step.clusters...)
		target.Revision = step.revision
		f.Set("shop", target)
		f.settle()
		f.has("c1", step.want)
		if got := f.revisions(); got != step.revisions {
			t.Fatalf("%s: revisions %s, want %s", step.content, got, step.revisions)
		}
		if s, _ := f.Status("shop"); s.State != revisions.Deployed {
			t.Errorf("%+v", s)
		}
		f.stop()
		f.start()
		f.Set("shop", target)
		f.settle()
	}
	f.Set("shop", revisions.Target{})
	f.settle()
	f.has("c1", "")
	f.has("c2", "")
	for _, prefix := range []string{"/revisions/", "/context/", "/rsync/index/", "/rsync/spec/"} {
		if left, err := f.store.Range(t.Context(), prefix); err != nil || len(left.KVs) > 0 {
			t.Errorf("left in the store: %v, %v", left.KVs, err)
		}
	}
	if names, err := f.Applications(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
}

// TestCoalesce checks that only the newest of the targets that are set during an update is applied.
// The others never reach a cluster.
func TestCoalesce(t *testing.T) {
	f := newFixture(t)
	f.start()
	c1 := f.clusters.Cluster("hub", "c1")
	f.Set("shop", f.target("a=0", "c1"))
	f.settle()
	c1.SetMode(fake.ModeUnreachable)
	f.Set("shop", f.target("a=1", "c1"))
	f.until("it is under way", func() bool {
		s, _ := f.Status("shop")
		return s.State == revisions.Rolling &&
			s.Revision == 2
	})
	for n := range 100 {
		f.Set("shop", f.target(fmt.Sprintf("a=%d", n+2), "c1"))
	}
	c1.SetMode(fake.ModeWorks)
	f.settle()
	f.has("c1", "a=101")
	if got := f.revisions(); got != "1 2 3, wanted 3" {
		t.Errorf("revisions %s", got)
	}
}

func (f *fixture) until(what string, holds func() bool) {
	f.t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

// TestPatience checks that an unreachable cluster delays updates of other clusters only for a
// limited time. It is updated when it returns.
func TestPatience(t *testing.T) {
	f := newFixture(t)
	f.options.Patience = 20 * time.Millisecond
	f.start()
	f.Set("shop", f.target("a=0 b=0", "c1", "c2"))
	f.settle()
	c2 := f.clusters.Cluster("hub", "c2")
	c2.SetMode(fake.ModeUnreachable)
	for n := range 5 {
		f.Set("shop", f.target(fmt.Sprintf("a=%d c%d=1", n+1, n+1), "c1", "c2"))
		want := fmt.Sprintf("a=%d c%d=1", n+1, n+1)
		f.until("c1 has "+want, func() bool { return strings.Contains(f.objects("c1"), fmt.Sprintf("a=%d ", n+1)) })
	}
	f.has("c2", "a=0 b=0")
	c2.SetMode(fake.ModeWorks)
	f.settle()
	f.has("c1", "a=5 c5=1")
	f.has("c2", "a=5 c5=1")
	c2.SetMode(fake.ModeUnreachable)
	f.Set("shop", f.target("a=6", "c1", "c2"))
	f.until("it is under way", func() bool { return strings.Contains(f.objects("c1"), "a=6") })
	f.Set("shop", revisions.Target{}) // a removal does not wait for the update
	f.until("c1 is empty", func() bool { return f.objects("c1") == "" })
	c2.SetMode(fake.ModeWorks)
	f.settle()
	f.has("c2", "")
}

// refused returns a manager with an application on c1. The cluster refuses all further requests.
func refused(t *testing.T, content string) (*fixture, *fake.Cluster) {
	t.Helper()
	f := newFixture(t)
	f.start()
	f.Set("shop", f.target(content, "c1"))
	f.settle()
	c1 := f.clusters.Cluster("hub", "c1")
	c1.SetMode(fake.ModeRefusing)
	return f, c1
}

// TestRefused checks that a revision that a cluster refuses is retried, and can be rolled back.
func TestRefused(t *testing.T) {
	f, c1 := refused(t, "a=0 b=0")
	f.Set("shop", f.target("a=1 c=1", "c1"))
	f.until("it has failed", func() bool {
		s, _ := f.Status("shop")
		return s.State == revisions.Failed && strings.Contains(s.Message, "refused")
	})
	c1.SetMode(fake.ModeWorks)
	f.settle() // retried
	f.has("c1", "a=1 c=1")
	c1.SetMode(fake.ModeRefusing)
	f.Set("shop", f.target("a=2 d=2", "c1"))
	f.until("it has failed", func() bool { s, _ := f.Status("shop"); return s.State == revisions.Failed })
	c1.SetMode(fake.ModeWorks)
	back := f.target("a=0 b=0", "c1")
	back.Revision = 1
	f.Set("shop", back)
	f.settle()
	f.has("c1", "a=0 b=0")
}

// TestRestartDuringEvent checks that an event in progress at the end of the process is not queued twice, and
// that the next target is applied.
func TestRestartDuringEvent(t *testing.T) {
	f := newFixture(t)
	f.start()
	f.Set("shop", f.target("a=0", "c1"))
	f.settle()
	c1 := f.clusters.Cluster("hub", "c1")
	c1.SetMode(fake.ModeUnreachable)
	f.Set("shop", f.target("a=1", "c1"))
	f.until("it is under way", func() bool { s, _ := f.Status("shop"); return s.Revision == 2 })
	f.until("the engine has it", func() bool {
		s, err := f.Engine().Status(t.Context(), revisions.ContextID("shop", 2))
		return err == nil && len(s.Queue) == 1
	})
	f.stop()
	f.start()
	f.Set("shop", f.target("a=1", "c1"))
	c1.SetMode(fake.ModeWorks)
	f.settle()
	f.has("c1", "a=1")
	s, err := f.Engine().Status(t.Context(), revisions.ContextID("shop", 2))
	if err != nil || len(s.Queue) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestRestartAfterResume checks that a failed rollout that was resumed starts again in the next
// process.
func TestRestartAfterResume(t *testing.T) {
	f, c1 := refused(t, "a=0")
	target := f.target("a=1", "c1")
	target.Rollout = &rsync.Rollout{ProgressDeadline: time.Second}
	f.Set("shop", target)
	f.until("it has failed", func() bool { s, _ := f.Status("shop"); return s.State == revisions.Failed })
	c1.SetMode(fake.ModeWorks)
	if err := f.Resume(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	f.stop()
	f.start()
	f.Set("shop", target)
	f.settle()
	f.has("c1", "a=1")
}

// TestResumeFirstRollout checks that the failed first rollout of an application can be resumed, with and
// without the automatic rollback.
func TestResumeFirstRollout(t *testing.T) {
	for name, back := range map[string]bool{"stays": false, "goes back": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start()
			c1 := f.clusters.Cluster("hub", "c1")
			c1.Intercept(func(v fake.Verb, _ connector.Batch) error {
				if v == fake.VerbApply {
					return &connector.Error{Class: connector.ErrTerminal, Err: errors.New("denied")}
				}
				return nil
			})
			target := f.target("a=1", "c1")
			target.Rollout = &rsync.Rollout{RollbackOnFailure: back}
			f.Set("shop", target)
			f.until("it has failed", func() bool { s, _ := f.Status("shop"); return s.State == revisions.Failed })
			f.until("the rollback is done", func() bool {
				s, err := f.Engine().Status(t.Context(), revisions.ContextID("shop", 1))
				return err == nil && len(s.Queue) > 0 && s.Queue[len(s.Queue)-1].Status.Final() && (len(s.Queue) == 2) == back
			})
			c1.Intercept(nil)
			if err := f.Resume(t.Context(), "shop"); err != nil {
				t.Fatal(err)
			}
			f.settle()
			f.has("c1", "a=1")
		})
	}
}

// TestLive checks that Live returns the revisions that may have objects on clusters. A revision
// without objects is live once an event that applies it is queued.
func TestLive(t *testing.T) {
	f := newFixture(t)
	f.start()
	f.Set("shop", f.target("a=1", "c1"))
	f.settle()
	f.Set("shop", f.target("a=2", "c1"))
	f.settle()
	live := func(want ...string) {
		t.Helper()
		contexts, err := f.Live(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range contexts {
			got = append(got, c.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v are live, not %v", got, want)
		}
	}
	first, second := revisions.ContextID("shop", 1), revisions.ContextID("shop", 2)
	live(second)
	f.stop()
	f.open() // not started: the process ended before the event began
	if _, err := f.Engine().Rollback(t.Context(), second, first); err != nil {
		t.Fatal(err)
	}
	live(first, second)
}

// TestReached checks that Applications returns the rendering of an application that is deployed,
// and no rendering from the start of the next event.
func TestReached(t *testing.T) {
	f := newFixture(t)
	f.start()
	first := f.target("a=1", "c1")
	digest := func(want string) {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			found, err := f.Applications(t.Context())
			if got, ok := found["shop"]; err == nil && ok && got == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%v, %v; want %q", found, err, want)
			}
		}
	}
	f.Set("shop", first)
	f.settle()
	digest(first.Content.Digest())
	f.stop()
	f.clusters.Cluster("hub", "c1").SetMode(fake.ModeUnreachable)
	f.start()
	f.Set("shop", first)
	f.settle()
	digest(first.Content.Digest())
	f.Set("shop", f.target("a=2", "c1"))
	digest("")
}

func TestContextID(t *testing.T) {
	for _, name := range []string{"shop", "a.b"} {
		if application, number, ok := revisions.ParseContextID(revisions.ContextID(name, 12)); application != name ||
			number != 12 || !ok {
			t.Errorf("%s %d %v", application, number, ok)
		}
	}
	for _, id := range []string{"", "shop", "shop.x"} {
		if _, _, ok := revisions.ParseContextID(id); ok {
			t.Errorf("%q is taken for one of ours", id)
		}
	}
}
