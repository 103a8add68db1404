// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

var manyClusters = flag.Int("rsync.clusters", 1000, "how many clusters TestLargeContext has in one app context")

// crew holds engines on one store. Each has its own client, which counts its calls.
type crew struct {
	t        *testing.T
	servers  servers
	prefix   string
	clusters *fake.Clusters
	user     *rsync.Engine
	views    []*storetest.Faults
	stops    []func()
}

func newCrew(t *testing.T, servers servers, engines int) *crew {
	t.Helper()
	c := &crew{t: t, servers: servers, prefix: fmt.Sprint("/crew", engines), clusters: fake.New()}
	var err error
	if c.user, err = rsync.New(servers.store(t, c.prefix), c.clusters, rsync.Options{Name: "user"}); err != nil {
		t.Fatal(err)
	}
	for range engines {
		c.join()
	}
	c.settled()
	return c
}

// join starts an engine that ends with the test.
func (c *crew) join() {
	c.t.Helper()
	view := storetest.NewFaults(c.servers.store(c.t, c.prefix), nil)
	engine, err := rsync.New(view, c.clusters, rsync.Options{Name: fmt.Sprint("engine", len(c.views))})
	if err != nil {
		c.t.Fatal(err)
	}
	c.views, c.stops = append(c.views, view), append(c.stops, start(c.t, engine))
	<-engine.Ready()
}

// start starts an engine, and returns a function that ends it. The end of the test ends it too.
func start(t *testing.T, engine *rsync.Engine) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func (c *crew) counts() (sum storetest.Counts) {
	for _, v := range c.views {
		sum = sum.Plus(v.Counts())
	}
	return sum
}

// settled waits until the engines have sent no request to the store for a second.
func (c *crew) settled() {
	c.t.Helper()
	last, since := c.counts(), time.Now()
	waitFor(c.t, "the engines to be idle", func() bool {
		if now := c.counts(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > time.Second
	})
}

// create stores a context with an app of one object on each of some clusters.
func (c *crew) create(id string, clusters ...string) {
	c.t.Helper()
	b := appcontext.NewBuilder(id)
	for _, name := range clusters {
		b.App("web").Resource("edge", name, manifest("x-"+id))
	}
	spec, err := b.Build()
	if err == nil {
		err = c.user.Create(c.t.Context(), spec)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *crew) done(ref rsync.EventRef, err error) {
	c.t.Helper()
	if err == nil {
		_, err = c.user.Wait(c.t.Context(), ref)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestEventCostsEtcdTheSameWithManyEngines counts the requests of 1 to 16 engines to a real etcd
// for the same events.
func TestEventCostsEtcdTheSameWithManyEngines(t *testing.T) { testEventCosts(t, startEtcd(t, 1)) }

// TestEventCostsPostgreSQLTheSameWithManyEngines counts the requests to a real PostgreSQL.
func TestEventCostsPostgreSQLTheSameWithManyEngines(t *testing.T) {
	testEventCosts(t, startPostgres(t))
}

func testEventCosts(t *testing.T, servers servers) {
	const contexts = 40
	var one storetest.Counts
	for _, engines := range []int{1, 2, 8, 16} {
		t.Run(fmt.Sprint(engines), func(t *testing.T) {
			c := newCrew(t, servers, engines)
			for i := range contexts {
				c.create(fmt.Sprint("id", i), "c1")
			}
			before := c.counts()
			for i := range contexts {
				c.done(c.user.Instantiate(t.Context(), fmt.Sprint("id", i)))
				c.done(c.user.Terminate(t.Context(), fmt.Sprint("id", i)))
			}
			c.settled()
			got := c.counts().Minus(before)
			t.Logf("%d engines, %d events: %+v", engines, 2*contexts, got)
			if engines == 1 {
				one = got
			}
			for what, n := range map[string][2]int{
				"reads": {got.Gets + got.Ranges, one.Gets + one.Ranges}, "keys read": {got.Keys, one.Keys},
				"transactions": {got.Txns, one.Txns},
			} {
				if n[0]*10 > n[1]*11 || n[0]*10 < n[1]*9 {
					t.Errorf("%d engines: %d %s, and one engine %d", engines, n[0], what, n[1])
				}
			}
		})
	}
}

// TestJoinAmongWaitingContextsOnEtcd: an engine joins seven engines with 300 contexts in progress.
// It reads the list of active contexts, and one key of each context of its share. The other engines
// read nothing.
func TestJoinAmongWaitingContextsOnEtcd(t *testing.T) {
	const waiting = 300
	c := newCrew(t, startEtcd(t, 1), 7)
	c.clusters.Cluster("edge", "c1").SetMode(fake.ModeUnreachable)
	var refs []rsync.EventRef
	for i := range waiting {
		id := fmt.Sprint("id", i)
		c.create(id, "c1")
		ref, err := c.user.Instantiate(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	c.settled()
	before := c.counts()
	c.join()
	c.settled()
	joined := c.counts()
	c.stops[7]()
	c.settled()
	left := c.counts()
	t.Logf("joined: %+v; left: %+v", joined.Minus(before), left.Minus(joined))
	for what, got := range map[string]storetest.Counts{"joins": joined.Minus(before), "leaves": left.Minus(joined)} {
		if got.Gets+got.Ranges > waiting/4 || got.Keys > waiting+waiting/4 || got.Txns > 1 {
			t.Errorf("when an engine %s: %+v", what, got)
		}
	}
	c.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
	for _, ref := range refs {
		c.done(ref, nil)
	}
}

// TestLargeContext: one context with an app on 1,000 clusters, or on -rsync.clusters, on a real etcd with its default
// limits, with 1 and with 16 engines.
func TestLargeContext(t *testing.T) {
	testLargeContext(t, func() servers { return startEtcd(t, 1) })
}

// TestLargeContextOnPostgreSQL is TestLargeContext with a store in PostgreSQL.
func TestLargeContextOnPostgreSQL(t *testing.T) {
	testLargeContext(t, func() servers { return startPostgres(t) })
}

func testLargeContext(t *testing.T, newServers func() servers) {
	names := make([]string, *manyClusters)
	for i := range names {
		names[i] = fmt.Sprint("cluster", i)
	}
	for _, engines := range []int{1, 16} {
		t.Run(fmt.Sprint(engines), func(t *testing.T) {
			c := newCrew(t, newServers(), engines)
			before := c.counts()
			began := time.Now()
			lap := func(what string) {
				now := c.counts()
				t.Logf("%d engines, %d clusters: %s in %s, the engines asked %+v",
					engines, len(names), what, time.Since(began).Round(time.Millisecond), now.Minus(before))
				// One read of the inventory for each cluster. More reads would be repeats, because
				// the store did not answer in time.
				if n := now.Ranges + now.Gets - before.Ranges - before.Gets; n > len(names)+20 {
					t.Errorf("%s took %d reads for %d clusters", what, n, len(names))
				}
				began, before = time.Now(), now
			}
			have := func(want int) {
				t.Helper()
				status, err := c.user.Status(t.Context(), "fleet")
				if err != nil || len(status.Clusters) != len(names) {
					t.Fatalf("a status of %d clusters: %v", len(names), err)
				}
				lap("Status")
				for _, name := range names {
					if n := len(c.clusters.Cluster("edge", name).Objects()); n != want {
						t.Fatalf("%s has %d objects, want %d", name, n, want)
					}
				}
				began = time.Now()
			}
			c.create("fleet", names...)
			lap("Create")
			c.done(c.user.Instantiate(t.Context(), "fleet"))
			lap("Instantiate")
			have(1)
			c.done(c.user.Terminate(t.Context(), "fleet"))
			lap("Terminate")
			have(0)
			if err := c.user.Delete(t.Context(), "fleet"); err != nil {
				t.Fatal(err)
			}
			lap("Delete")
			result, err := c.servers.store(t, c.prefix).Range(t.Context(), "/")
			if err != nil || len(result.KVs) != engines {
				t.Errorf("%d keys are left, want the %d engines: %v", len(result.KVs), engines, err)
			}
		})
	}
}
