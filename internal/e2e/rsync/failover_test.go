// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

const (
	ttl      = 3 * time.Second
	contexts = 24
)

// fleet holds three engines in separate processes, and the servers of their store. A proxy is
// between each engine and each server.
type fleet struct {
	t        *testing.T
	servers  servers
	judge    *judge
	user     *rsync.Engine
	clusters string
	engines  []*process
	proxies  [][]*tcpproxy.Proxy
	names    []string
	events   []atomic.Uint64 // for each context, the number of queued events
}

func newFleet(t *testing.T, servers servers) *fleet {
	t.Helper()
	f := &fleet{t: t, servers: servers, clusters: t.TempDir(), events: make([]atomic.Uint64, contexts)}
	for _, c := range []string{"c1", "c2"} {
		if err := os.Mkdir(filepath.Join(f.clusters, "edge+"+c), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f.judge = newJudge(t, servers.store(t, ""))
	var err error
	if f.user, err = rsync.New(servers.store(t, ""), fake.New(), rsync.Options{Name: "user"}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		f.engines, f.proxies, f.names = append(f.engines, nil), append(f.proxies, nil), append(f.names, "")
		f.start(i, 1)
	}
	return f
}

// start starts an engine. Its name identifies the run.
func (f *fleet) start(i, run int) {
	f.t.Helper()
	f.proxies[i] = nil
	var addresses []string
	for _, address := range f.servers.addresses() {
		p := tcpproxy.Start(f.t, address)
		f.proxies[i] = append(f.proxies[i], p)
		addresses = append(addresses, p.Addr())
	}
	f.names[i] = fmt.Sprintf("engine%d.%d", i, run)
	f.engines[i] = startProcess(f.t, f.names[i], f.clusters, f.servers.endpoints(addresses))
}

// load instantiates all contexts, each again after it is done, until stop is called.
func (f *fleet) load() (stop func()) {
	f.t.Helper()
	for i := range contexts {
		b := appcontext.NewBuilder(fmt.Sprint("id", i))
		for _, c := range []string{"c1", "c2"} {
			b.App("web").Resource("edge", c, manifest(fmt.Sprint("x", i)))
		}
		c, err := b.Build()
		if err != nil {
			f.t.Fatal(err)
		}
		if err := f.user.Create(f.t.Context(), c); err != nil {
			f.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Minute)
	over := make(chan struct{})
	var users sync.WaitGroup
	for i := range contexts {
		users.Go(func() {
			for n := 1; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				if err := f.once(ctx, i, n); err != nil {
					f.t.Errorf("context %d, event %d: %v", i, n, err)
					return
				}
				f.events[i].Store(uint64(n))
			}
		})
	}
	return sync.OnceFunc(func() {
		close(over)
		users.Wait()
		cancel()
	})
}

// once queues one event and waits for it. If the store does not answer, it tries again with the
// same key.
func (f *fleet) once(ctx context.Context, i, n int) error {
	for {
		ref, err := f.user.Instantiate(ctx, fmt.Sprint("id", i), rsync.IdempotencyKey(fmt.Sprint(n)))
		if err == nil {
			_, err = f.user.Wait(ctx, ref)
		}
		if err == nil || ctx.Err() != nil || errors.As(err, new(*rsync.EventError)) {
			return err
		}
	}
}

func manifest(name string) []byte {
	return fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %q\n  namespace: default\n", name)
}

// TestFailover: of three engines under load, one after the other is killed, frozen beyond its
// lease, and disconnected from the store. Other engines take over its contexts within its lease and
// a second (eight times that here, because other tests use the machine). No write of a stale owner
// is accepted, and no event is lost or processed twice.
func TestFailover(t *testing.T) { testFailover(t, startEtcd(t, 3)) }

// TestFailoverOnPostgreSQL is TestFailover with a store in PostgreSQL.
func TestFailoverOnPostgreSQL(t *testing.T) { testFailover(t, startPostgres(t)) }

func testFailover(t *testing.T, servers servers) {
	f := newFleet(t, servers)
	stop := f.load()
	t.Cleanup(stop)
	for i := range f.engines {
		f.owns(i)
	}
	for _, fault := range []struct {
		how         string
		engine      int
		begin, mend func(i int)
	}{
		{"killed", 0, func(i int) { f.engines[i].kill() }, func(i int) { f.start(i, 2) }},
		{"frozen", 1, func(i int) { f.engines[i].signal(syscall.SIGSTOP) },
			func(i int) { f.engines[i].signal(syscall.SIGCONT) }},
		{"partitioned, in silence", 2, func(i int) { f.each(i, (*tcpproxy.Proxy).Stall) },
			func(i int) { f.each(i, (*tcpproxy.Proxy).Resume) }},
		{
			"partitioned, refused", 1,
			func(i int) { f.each(i, (*tcpproxy.Proxy).Block); f.each(i, (*tcpproxy.Proxy).Cut) },
			func(i int) { f.each(i, (*tcpproxy.Proxy).Unblock) },
		},
	} {
		owned := f.owns(fault.engine)
		before, unknown := f.engines[fault.engine].late()
		name, began := f.names[fault.engine], time.Now()
		fault.begin(fault.engine)
		var took time.Duration
		for _, id := range owned {
			waitFor(t, id+" to be taken over from an engine that is "+fault.how, func() bool {
				at, ok := f.judge.takenOver(id, name, began)
				took = max(took, at.Sub(began))
				return ok
			})
		}
		if took > 8*(ttl+time.Second) {
			t.Errorf("%s: a context was taken over after %s", fault.how, took)
		}
		time.Sleep(time.Until(began.Add(2 * ttl))) // well beyond its lease, while the others work
		fenced, moreUnknown := f.engines[fault.engine].late()
		fault.mend(fault.engine)
		f.owns(fault.engine) // it has its share again
		if fault.how != "killed" {
			fenced, moreUnknown = f.engines[fault.engine].late()
		}
		t.Logf("%s: %d contexts taken over, the last after %s (lease %s); then %d writes refused for the lease that was "+
			"over, %d without an answer",
			fault.how, len(owned), took.Round(time.Millisecond), ttl, fenced-before, moreUnknown-unknown)
	}
	// All of these engines notice in time that their lease has expired. An engine that does not
	// notice it continues to write.
	unaware := startProcess(t, "unaware", f.clusters,
		servers.endpoints(servers.addresses()), engineUnaware+"=1")
	waitFor(t, "writes of an engine that does not know that its lease is over", func() bool {
		fenced, _ := unaware.late()
		return fenced >= 5
	})
	unaware.kill()
	stop()
	for i := range contexts {
		status, err := f.user.Status(t.Context(), fmt.Sprint("id", i))
		if err != nil {
			t.Fatal(err)
		}
		if want := f.events[i].Load(); status.Transitions != 2*want || uint64(len(status.Queue)) != want {
			t.Errorf("context %d had %d events, %d of them in its queue, and changed its state %d times", i, want,
				len(status.Queue), status.Transitions)
		}
		for _, e := range status.Queue {
			if e.Status != rsync.Done {
				t.Errorf("event %d of context %d is %s", e.Seq, i, e.Status)
			}
		}
		for _, c := range []string{"c1", "c2"} {
			if _, err := os.Stat(filepath.Join(f.clusters, "edge+"+c, fmt.Sprint("ConfigMap-x", i))); err != nil {
				t.Error(err)
			}
		}
	}
	f.judge.verdict(t)
}

// owns waits until an engine works on several contexts, and returns them.
func (f *fleet) owns(i int) (owned []string) {
	f.t.Helper()
	waitFor(f.t, f.names[i]+" to have work", func() bool {
		owned = f.judge.ownedBy(f.names[i])
		return len(owned) > 1
	})
	return owned
}

func (f *fleet) each(i int, do func(*tcpproxy.Proxy)) {
	for _, p := range f.proxies[i] {
		do(p)
	}
}

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if t.Failed() || time.Now().After(end) {
			t.Fatalf("waited three minutes for %s", what)
		}
	}
}

// TestLeaderLost: when etcd's leader is lost, all events are still done, and none twice.
func TestLeaderLost(t *testing.T) {
	etcd := startEtcd(t, 3)
	testServerLost(t, etcd, func() { etcd.stop(etcd.leader()) })
}

// TestPostgreSQLCrashes: when the server crashes and restarts, all events are still done once.
func TestPostgreSQLCrashes(t *testing.T) {
	db := startPostgres(t)
	testServerLost(t, db, func() {
		db.server.Kill()
		db.server.Restart()
	})
}

func testServerLost(t *testing.T, servers servers, lose func()) {
	f := newFleet(t, servers)
	stop := f.load()
	t.Cleanup(stop)
	for i := range f.engines {
		f.owns(i)
	}
	lose()
	before := make([]uint64, contexts)
	for i := range before {
		before[i] = f.events[i].Load()
	}
	for i := range before {
		waitFor(t, "each context to go on", func() bool { return f.events[i].Load() > before[i]+3 })
	}
	stop()
	for i := range contexts {
		status, err := f.user.Status(t.Context(), fmt.Sprint("id", i))
		if err != nil {
			t.Fatal(err)
		}
		if want := f.events[i].Load(); status.Transitions != 2*want {
			t.Errorf("context %d had %d events and changed its state %d times", i, want, status.Transitions)
		}
	}
}
