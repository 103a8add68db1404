// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/etcdstore"
	"github.com/spokewire/sdk-go/cloudevents/work/storetest"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// TestConformance: the store meets the requirements of all stores, with its limits and with the
// least ones.
func TestConformance(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	var n atomic.Int64
	for name, o := range map[string]etcdstore.Options{
		"default limits": {}, "least limits": {MaxRequestBytes: 512 << 10, MaxTxnOps: 8},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(*testing.T) storetest.Opener {
				o.Prefix = fmt.Sprintf("/test%d", n.Add(1))
				return func(t *testing.T) (work.Store, func()) {
					s := etcd.open(o)
					return s, func() {
						if err := s.Close(); err != nil {
							t.Error(err)
						}
					}
				}
			})
		})
	}
}

// TestReplicas: several connections meet the requirements of a store that replicas share.
func TestReplicas(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	storetest.RunReplicas(t, func(*testing.T) work.SharedStore { return etcd.open(etcdstore.Options{}) })
}

// TestServerWithLowerLimits: the error names the option to set, and with it the batch is accepted.
func TestServerWithLowerLimits(t *testing.T) {
	t.Parallel()
	etcd := startServer(t, "--max-request-bytes=600000", "--max-txn-ops=16")
	for option, batch := range map[string][]work.Change{
		"Options.MaxTxnOps": records(100, 10), "Options.MaxRequestBytes": records(2000, 1500),
	} {
		err := etcd.open(etcdstore.Options{}).Apply(t.Context(), batch)
		if err == nil || !strings.Contains(err.Error(), option) {
			t.Errorf("a batch of %d records: %v", len(batch), err)
		}
		s := etcd.open(etcdstore.Options{MaxRequestBytes: 512 << 10, MaxTxnOps: 16})
		if err := s.Apply(t.Context(), batch); err != nil {
			t.Errorf("a batch of %d records with limits: %v", len(batch), err)
		}
	}
}

// TestSmallBatchIsOneTransaction: a batch that fits into a request increases etcd's revision by 1.
func TestSmallBatchIsOneTransaction(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	s, admin := etcd.open(etcdstore.Options{}), etcd.admin()
	revision := func() int64 {
		r, err := admin.Get(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		return r.Header.Revision
	}
	write(t, s, set("first", "1")) // with the key of this Store
	for _, batch := range [][]work.Change{
		{set("a", "1")},
		{set("a", "1"), {Key: "b"}},
		records(100, 1500),
		records(256, 1500),
		records(3000, 100),
		{set("large", strings.Repeat("x", 128<<10)), set("b", strings.Repeat("x", 128<<10))},
	} {
		before := revision()
		write(t, s, batch...)
		if n := revision() - before; n != 1 {
			t.Errorf("a batch of %d records is %d transactions", len(batch), n)
		}
	}
}

// records returns n records of a size.
func records(n, size int) []work.Change {
	out := make([]work.Change, n)
	for i := range out {
		out[i] = set(fmt.Sprintf("work/cluster%d/%d", i%100, i), strings.Repeat("v", size))
	}
	return out
}

// TestConcurrentBatchesAreAtomic: several processes write batches of all sizes. All records of a
// batch have the same number. Readers and followers never see two numbers.
func TestConcurrentBatchesAreAtomic(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	equal := func(content map[string]string) error {
		first := ""
		for key, value := range content {
			if strings.HasPrefix(key, "pad") {
				continue
			}
			if first == "" {
				first = value
			}
			if value != first {
				return fmt.Errorf("the content has records of batch %s and, under %s, of %s", first, key, value)
			}
		}
		return nil
	}
	const keys = 150
	a := etcd.open(etcdstore.Options{})
	var followers []*follower
	for range 2 {
		followers = append(followers, follow(t, etcd.open(etcdstore.Options{}), equal))
	}
	var group sync.WaitGroup
	for writer := range 3 {
		s := etcd.open(etcdstore.Options{})
		random := rand.New(rand.NewPCG(uint64(writer), 1))
		group.Go(func() {
			for i := range 12 {
				var batch []work.Change
				for k := range keys {
					batch = append(batch, set(fmt.Sprint("key", k), fmt.Sprintf("%d-%d", writer, i)))
				}
				if random.IntN(2) == 0 { // three parts
					for p := range 3 {
						batch = append(batch, set(fmt.Sprint("pad", p), strings.Repeat(fmt.Sprint(i%10), 800<<10)))
					}
				}
				if err := s.Apply(t.Context(), batch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		if err := equal(load(t, a)); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range followers {
		f.agrees(t, a)
		if err := f.lastErr(); err != nil || f.wholes() != 1 {
			t.Errorf("a follower received the content %d times: %v", f.wholes(), err)
		}
	}
	if keys := left(t, etcd.admin(), etcdstore.DefaultPrefix); len(keys) > 0 {
		t.Errorf("etcd has %q after all batches", keys)
	}
}

// TestLargeRecordLeavesNoChunks: after a large record was replaced by a small one or removed, also
// by another process, no chunks remain.
func TestLargeRecordLeavesNoChunks(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	admin := etcd.admin()
	big := set("big", strings.Repeat("x", 2<<20))
	count := func() int64 {
		r, err := admin.Get(t.Context(), etcdstore.DefaultPrefix+"record/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		return r.Count
	}
	one, two := etcd.open(etcdstore.Options{}), etcd.open(etcdstore.Options{})
	write(t, one, big)
	if n := count(); n != 1+16 {
		t.Fatalf("a record of 2 MiB has %d keys", n)
	}
	for _, condition := range []work.Change{set("big", "x"), {Key: "big"}} {
		if err := one.ApplyIf(t.Context(), condition, nil); !errors.Is(err, work.ErrCondition) {
			t.Errorf("ApplyIf with another value of a large record: %v", err)
		}
	}
	if err := two.ApplyIf(t.Context(), big, []work.Change{set("a", "1")}); err != nil {
		t.Errorf("ApplyIf with the value of a large record: %v", err)
	}
	write(t, one, set("big", "small"))
	if n := count(); n != 2 {
		t.Errorf("after a small value there are %d keys, want 2", n)
	}
	write(t, one, big)
	write(t, one, set("big", strings.Repeat("x", 200<<10)))
	if n := count(); n != 2+2 {
		t.Errorf("after a value of two chunks there are %d keys, want 4", n)
	}
	write(t, two, set("big", "small")) // it has not read the chunks
	if got := load(t, two)["big"]; got != "small" {
		t.Errorf("the value is %q", got)
	}
	write(t, two, set("big", "smaller")) // after Load it has
	if n := count(); n != 2 {
		t.Errorf("after a small value of another process there are %d keys, want 2", n)
	}
	write(t, one, big)
	write(t, two, work.Change{Key: "big"})
	if n := count(); n != 1 {
		t.Errorf("after the removal there are %d keys, want 1", n)
	}
}

// TestForeignDeletionReachesFollowers: an operator deletes a record with etcdctl, and then the
// prefix. Followers receive both, and then an error. Writes fail.
func TestForeignDeletionReachesFollowers(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	s, admin := etcd.open(etcdstore.Options{}), etcd.admin()
	write(t, s, set("a", "1"), set("b", "2"), set("c", "3"))
	f := follow(t, etcd.open(quick), nil)
	if _, err := admin.Delete(t.Context(), etcdstore.DefaultPrefix+"record/a"); err != nil {
		t.Fatal(err)
	}
	f.agrees(t, s)
	if _, err := admin.Delete(t.Context(), etcdstore.DefaultPrefix, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	e2etest.Eventually(t, "the follower", func() error {
		if err := f.lastErr(); !errors.Is(err, etcdstore.ErrForeign) {
			return fmt.Errorf("its error is %s", fmt.Sprint(err))
		}
		return nil
	})
	if err := s.Apply(t.Context(), []work.Change{set("a", "1")}); !errors.Is(err, etcdstore.ErrForeign) {
		t.Errorf("Apply to a removed store: %v", err)
	}
}
