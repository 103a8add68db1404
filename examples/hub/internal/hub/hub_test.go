// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/dynamicwatcher/values"
	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/hub"
	"github.com/spokewire/sdk-go/examples/hub/internal/spokes"
	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/examples/internal/login"
	"github.com/spokewire/sdk-go/internal/testing/agenttest"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/revisions"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 2 * time.Minute

// objects is a fake of the objects on the cluster of the hub: one Secret with one value.
type objects struct {
	mu    sync.Mutex
	value string
	read  func() // called with each read

	watched map[string]bool // applications
}

func (o *objects) set(value string, read func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.value, o.read = value, read
}

// Value implements [values.Reader].
func (o *objects) Value(ref values.Ref) (string, error) {
	o.mu.Lock()
	value, read := o.value, o.read
	o.mu.Unlock()
	if read != nil {
		read()
	}
	if value == "" {
		return "", &values.MissingError{Ref: ref, Problem: "not found"}
	}
	return value, nil
}

// Read implements [hub.Objects].
func (o *objects) Read(ctx context.Context, application string, read func(values.Reader) error) error {
	o.mu.Lock()
	o.watched[application] = true
	o.mu.Unlock()
	err := read(o)
	return errors.Join(err, ctx.Err())
}

// Forget implements [hub.Objects].
func (o *objects) Forget(application string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.watched, application)
	return nil
}

// shaky is a store with a number of reads that fail.
type shaky struct {
	*memstore.Store
	failures atomic.Int32
}

var errShaky = errors.New("the store does not answer")

// Range implements [store.Data].
func (s *shaky) Range(ctx context.Context, prefix string) (store.RangeResult, error) {
	if s.failures.Add(-1) >= 0 {
		return store.RangeResult{}, errShaky
	}
	return s.Store.Range(ctx, prefix)
}

// fixture is a hub with a store that survives restarts, and with agents of in-memory clusters on
// its bus.
type fixture struct {
	t        testing.TB
	dir      string // the folder of documents, or ""
	store    *shaky
	bus      *memory.Bus
	works    string // the file
	clusters map[string]*agenttest.Cluster
	objects  *objects
	beat     time.Duration
	records  records
	// strangers are returned by Options.Strangers.
	strangers map[string]string
	revoked   string               // a cluster
	memory    int                  // the limit, or 0 for a high one
	check     func(cluster string) // called with each check, or nil
	standby   func()               // called before the hub starts, or nil
	rollouts  *revisions.Manager
	*hub.Hub
	settled chan struct{} // closed when the hub has settled
	stop    func()
}

// newFixture returns a fixture with a running hub.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := fixtureOf(t)
	f.start()
	return f
}

func fixtureOf(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{
		t: t, store: &shaky{Store: memstore.New(memstore.Options{})}, bus: memory.New(),
		works: filepath.Join(t.TempDir(), "works.db"),
		beat:  time.Minute, clusters: map[string]*agenttest.Cluster{}, objects: &objects{watched: map[string]bool{}},
	}
	for _, name := range []string{"c1", "c2"} {
		f.clusters[name] = agenttest.NewCluster()
		f.agent(name)
	}
	return f
}

// agent runs the agent of a cluster until stop is called or the test ends.
func (f *fixture) agent(name string) (stop func()) {
	f.t.Helper()
	a, err := work.NewAgent(f.bus.Transport(), work.AgentOptions{ClusterName: name, Sources: []string{"hub"},
		InitialSyncTimeout: 100 * time.Millisecond})
	if err != nil {
		f.t.Fatal(err)
	}
	cluster := f.clusters[name]
	return f.run(a.Start, func(ctx context.Context) error { return agenttest.Run(ctx, cluster, a.Clientset(), name) })
}

// run runs functions until stop is called or the test ends.
func (f *fixture) run(all ...func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, run := range all {
		group.Go(func() {
			if err := run(ctx); err != nil {
				f.t.Error(err)
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
	f.t.Cleanup(stop)
	return stop
}

// start runs a hub until stop is called.
func (f *fixture) start() {
	f.t.Helper()
	must := func(err error) {
		f.t.Helper()
		if err != nil {
			f.t.Fatal(err)
		}
	}
	webhooks, err := caller.New(caller.Options{AllowedHosts: []string{"127.0.0.1"}})
	must(err)
	works, err := boltstore.Open(f.works, boltstore.Options{})
	must(err)
	clusters, err := spokes.Open(spokes.Options{
		Transport: f.bus.Transport(), SourceID: "hub", Store: works, Interpreter: webhooks,
		Changed: func() { f.WorksChanged() },
	})
	must(err)
	f.rollouts, err = revisions.New(f.store.Store, clusters, revisions.Options{Prefix: "/hub/", Engine: rsync.Options{
		Backoff: rsync.Backoff{Base: time.Millisecond}, ProbeInterval: 10 * time.Millisecond,
	}})
	must(err)
	log := logging.New(io.MultiWriter(f.t.Output(), &f.records), logging.Options{})
	settled := make(chan struct{})
	declared := sync.OnceFunc(func() { close(settled) }) // each Complete declares again
	f.settled = settled
	f.Hub = hub.New(hub.Options{
		Actions: &login.History{Store: f.store, Key: "/hub/actions/", Changed: func() {}},
		Store:   f.store, Rollouts: f.rollouts, Health: clusters.Health, Webhooks: webhooks, Objects: f.objects,
		Dir: f.dir, MaxMemory: cmp.Or(f.memory, 1<<30), Check: checked(clusters.Check, f.check),
		LastReports: clusters.LastReports, Beat: f.beat, Source: "hub",
		Strangers: func() map[string]string { return f.strangers },
		Revoked:   func(cluster string) bool { return cluster == f.revoked },
		Settled:   func(context.Context) error { declared(); return nil },
		Forget:    func(context.Context, string) error { return nil }, Log: log, Changed: func() {},
	})
	if f.standby != nil {
		f.standby()
	}
	start := func(ctx context.Context) error { return errors.Join(clusters.Start(ctx), works.Close()) }
	f.stop = f.run(start, clusters.Health.Start, webhooks.Start, f.rollouts.Start, f.Start)
	select {
	case <-f.Loaded():
	case <-time.After(patience):
		f.t.Fatal("the hub does not load its documents")
	}
}

// put decodes a document and puts it.
func (f *fixture) put(ctx context.Context, text string) error {
	f.t.Helper()
	d, err := document.DecodeOne([]byte("apiVersion: hub.spokewire.io/v1alpha1\n" + text))
	if err != nil {
		f.t.Fatal(err)
	}
	_, err = f.Apply(ctx, d)
	return err
}

// shop puts an application with a ConfigMap that has the value of the Secret, and places it on c1.
func (f *fixture) shop() {
	f.t.Helper()
	for _, text := range []string{shop("{{ fromSecret `n` `s` `k` }}"), "kind: Cluster\nmetadata: {name: c1}\n",
		everywhere} {
		if err := f.put(f.t.Context(), text); err != nil {
			f.t.Fatal(err)
		}
	}
}

func shop(value string) string {
	return "kind: Application\nmetadata: {name: shop}\nspec:\n  parts:\n  - name: main\n    manifests:\n" +
		"    - template: |\n        {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: x}, data: {v: \"" +
		value + "\"}}\n"
}

const everywhere = "kind: Placement\nmetadata: {name: p}\nspec: {applications: [shop], clusters: {selector: {}}}\n"

// has waits until a cluster has the ConfigMap with a value, or no ConfigMap if want is empty.
func (f *fixture) has(cluster, want string) {
	f.t.Helper()
	got := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		_, got, _ = strings.Cut(f.clusters[cluster].Objects()["ConfigMap x/a"], `"v":"`)
		if got = strings.TrimSuffix(got, `"}`); got == want {
			return
		}
	}
	f.t.Fatalf("%s has %q, want %q", cluster, got, want)
}

// is waits until the application has settled, and checks its status.
func (f *fixture) is(want, reason string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	if err := f.Settled(ctx, "shop"); err != nil {
		f.t.Fatal(err)
	}
	for _, a := range f.State(ctx).Applications {
		if got := fmt.Sprintf("%s %s", a.Sync, a.Health); got != want || !strings.Contains(a.Reason, reason) {
			f.t.Errorf("it is %s: %s; want %s: %s", got, a.Reason, want, reason)
		}
	}
}

// TestValueMakesInvalidYAML checks that a value that makes invalid YAML holds up only its application. The hub
// still starts.
func TestValueMakesInvalidYAML(t *testing.T) {
	f := newFixture(t)
	f.objects.set("one", nil)
	f.shop()
	f.has("c1", "one")
	f.objects.set(`secret"value`, nil)
	if err := f.Changed(t.Context(), "shop", "the Secret has changed"); err != nil {
		t.Fatal(err)
	}
	held := func() {
		t.Helper()
		f.is("OutOfSync Degraded", "its output is not valid YAML")
		if state := fmt.Sprint(f.State(t.Context())); strings.Contains(state, "secret") {
			t.Errorf("the value shows: %s", state)
		}
	}
	held()
	if err := f.put(t.Context(), "kind: Cluster\nmetadata: {name: c2}\n"); err != nil { // an unrelated change
		t.Fatal(err)
	}
	f.has("c2", "one")
	held()
	f.stop()
	f.start()
	held()
	f.has("c1", "one")
	var wrong *document.Error
	if err := f.put(t.Context(), shop("x{{ fromSecret `n` `s` `k` }}")); !errors.As(err, &wrong) {
		t.Errorf("another document that does not render: %v", err)
	}
	f.objects.set("two", nil)
	if err := f.Changed(t.Context(), "shop", "the Secret has changed"); err != nil {
		t.Fatal(err)
	}
	f.has("c1", "two")
	f.is("Synced Healthy", "")
}

// TestValueMakesInvalidObject checks that a value that makes an invalid object holds up its whole application,
// and that the value is not shown.
func TestValueMakesInvalidObject(t *testing.T) {
	f := newFixture(t)
	f.objects.set("one", nil)
	labelled := strings.Replace(shop("{{ fromSecret `n` `s` `k` }}"), "namespace: x",
		"namespace: x, labels: {l: \"{{ fromSecret `n` `s` `k` }}\"}", 1)
	for _, text := range []string{labelled, "kind: Cluster\nmetadata: {name: c1}\n", everywhere} {
		if err := f.put(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	f.has("c1", "one")
	f.objects.set("s3 cr3t", nil)
	if err := f.Changed(t.Context(), "shop", "the Secret has changed"); err != nil {
		t.Fatal(err)
	}
	f.is("OutOfSync Degraded", "spec.parts[0].manifests[0].template: for the cluster c1: ConfigMap x/a: metadata.labels: "+
		"FieldValueInvalid (the details may contain values of Secrets")
	if state := fmt.Sprint(f.State(t.Context())); strings.Contains(state, "cr3t") {
		t.Errorf("the value shows: %s", state)
	}
	f.has("c1", "one")
	f.objects.set("two", nil)
	if err := f.Changed(t.Context(), "shop", "the Secret has changed"); err != nil {
		t.Fatal(err)
	}
	f.has("c1", "two")
	f.is("Synced Healthy", "")
}

// barrier blocks calls of wait until many calls have arrived.
type barrier struct {
	many    int
	mu      sync.Mutex
	arrived int
	all     chan struct{}
}

func (b *barrier) wait(t *testing.T) {
	b.mu.Lock()
	all := b.all
	if b.arrived++; b.arrived == b.many {
		close(all)
		b.arrived, b.all = 0, make(chan struct{})
	}
	b.mu.Unlock()
	select {
	case <-all:
	case <-time.After(patience):
		t.Error("some application does not read while others wait")
	}
}

// TestConcurrentReads checks that applications read their values concurrently, even if only few of
// them can be rendered at a time.
func TestConcurrentReads(t *testing.T) {
	f := newFixture(t)
	must := func(text string) {
		t.Helper()
		if err := f.put(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for i := range runtime.GOMAXPROCS(0) + 2 {
		name := fmt.Sprintf("shop%d", i)
		names = append(names, name)
		must(strings.NewReplacer("name: shop", "name: "+name, "name: a,", "name: "+name+",").Replace(
			shop("{{ fromSecret `n` `s` `k` }}")))
	}
	must(strings.Replace(everywhere, "shop", strings.Join(names, ", "), 1))
	all := &barrier{many: len(names), all: make(chan struct{})}
	f.objects.set("one", func() { all.wait(t) })
	must("kind: Cluster\nmetadata: {name: c1}\n") // a change
	if err := f.put(t.Context(), shop("{{ if }}")); err == nil {
		t.Error("it is not refused")
	}
	f.stop()
	f.start()
	f.objects.set("one", nil)
}

// TestDisconnectedClient checks that a change is made completely or not at all, also if the client disconnects.
func TestDisconnectedClient(t *testing.T) {
	f := newFixture(t)
	f.objects.set("one", nil)
	f.shop()
	f.has("c1", "one")
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	if err := f.put(gone, "kind: Cluster\nmetadata: {name: c2}\n"); !errors.Is(err, context.Canceled) ||
		f.Documents().Document(document.ClusterKind, "c2") != nil {
		t.Errorf("a change of somebody who is gone: %v", err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	f.objects.set("one", hangUp) // during the change
	if err := f.put(ctx, "kind: Cluster\nmetadata: {name: c2}\n"); err != nil {
		t.Error(err)
	}
	f.has("c2", "one")
	f.is("Synced Healthy", "")
	if err := f.Delete(t.Context(), document.Key{Kind: document.PlacementKind, Name: "p"}); err != nil {
		t.Fatal(err)
	}
	f.has("c1", "")
}

// TestValueChangesWhileDocumentsAreRefused checks that a value that changes while documents are refused is applied,
// although no watch reports it.
func TestValueChangesWhileDocumentsAreRefused(t *testing.T) {
	f := newFixture(t)
	f.objects.set("one", nil)
	f.shop()
	f.has("c1", "one")
	f.objects.set("two", nil)
	if err := f.put(t.Context(), shop("{{ .Cluster.Labels.none }}")); err == nil {
		t.Error("it is not refused")
	}
	f.has("c1", "two")
	other := strings.NewReplacer("name: shop", "name: other", "{{ fromSecret", "{{ if }}{{ fromSecret").Replace(
		shop("{{ fromSecret `n` `s` `k` }}"))
	if err := f.put(t.Context(), other); err == nil {
		t.Error("it is not refused")
	}
	if len(f.objects.watched) != 1 {
		t.Errorf("watched for %v", f.objects.watched)
	}
}
