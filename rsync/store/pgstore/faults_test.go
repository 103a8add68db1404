// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/pgstore"
)

// patience limits the time until an expected result on a busy machine.
const patience = time.Minute

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// engine is a Store behind a proxy, as an engine in a separate process has.
type engine struct {
	*pgstore.Store
	proxy *tcpproxy.Proxy
}

func newEngine(t *testing.T, server *postgres.Server, db string) engine {
	t.Helper()
	proxy := tcpproxy.Start(t, server.Addr())
	return engine{proxy: proxy, Store: open(t, pgstore.Options{
		ConnString: strings.Replace(db, server.Addr(), proxy.Addr(), 1), Timeout: 2 * time.Second,
	})}
}

// counter adds to a number in a key until ctx ends, as often as it can. After an error it reads
// whether the addition was executed.
func counter(ctx context.Context, s store.Store, key string, acknowledged *atomic.Int64) {
	var kv store.KeyValue
	known := false
	for ctx.Err() == nil {
		if !known {
			var err error
			if kv, err = s.Get(ctx, key); err != nil {
				continue
			}
		}
		n, _ := strconv.Atoi(string(kv.Value))
		next := []byte(strconv.Itoa(n + 1))
		result, err := s.Txn(ctx, []store.Compare{store.Unchanged(kv)}, []store.Op{store.Put(key, next)})
		known = err == nil && result.Succeeded
		if known {
			kv.Value, kv.ModRevision = next, result.Revision
			acknowledged.Store(int64(n + 1))
		}
	}
}

// TestFaultsLoseNothing: four clients of two engines add to four numbers, and a fifth and sixth
// client compete for another one. Meanwhile the server crashes, connections are cut with the
// answers in transit, one engine is black-holed, and the server refuses writes. Each number then
// has all acknowledged additions. A watch of each engine has each addition once and in order.
func TestFaultsLoseNothing(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	db := server.Database(t)
	engines := []engine{newEngine(t, server, db), newEngine(t, server, db)}
	observers := []*observer{observe(t, engines[0], 1), observe(t, engines[1], 1)}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	done := make([]atomic.Int64, 5)
	for i := range 6 {
		n := min(i, 4)
		clients.Go(func() { counter(ctx, engines[i%2], fmt.Sprint("/n/", n), &done[n]) })
	}
	progress := func(what string) {
		t.Helper()
		var before [5]int64
		for i := range before {
			before[i] = done[i].Load()
		}
		eventually(t, "all numbers to grow "+what, func() bool {
			for i := range before {
				if done[i].Load() < before[i]+5 {
					return false
				}
			}
			return true
		})
	}
	progress("at first")
	for range 3 {
		server.Kill()
		server.Restart()
		progress("after a crash of the server")
		for range 5 {
			engines[0].proxy.Cut()
			time.Sleep(20 * time.Millisecond)
		}
		progress("after cut connections")
	}
	engines[1].proxy.Stall()
	time.Sleep(3 * time.Second) // longer than the time limit of a call
	engines[1].proxy.Resume()
	progress("after a black hole")
	server.Restart("default_transaction_read_only = on")
	time.Sleep(time.Second)
	server.Restart("default_transaction_read_only = off")
	progress("after a read-only server")
	stop()
	clients.Wait()

	for i := range done {
		key := fmt.Sprint("/n/", i)
		kv, err := engines[0].Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		have, err := strconv.Atoi(string(kv.Value))
		if want := done[i].Load(); err != nil || int64(have) < want {
			t.Errorf("%s is %d, and %d additions were acknowledged: %v", key, have, want, err)
		}
		for n, o := range observers {
			eventually(t, fmt.Sprintf("watch %d to have %d additions to %s", n, have, key), func() bool {
				return o.last(key) >= have
			})
		}
		t.Logf("%s: %d additions", key, have)
	}
}

// observer checks the events of a watch.
type observer struct {
	t        *testing.T
	mu       sync.Mutex
	numbers  map[string]int
	revision int64
}

// observe watches the numbers of counters from a revision on.
func observe(t *testing.T, s store.Store, from int64) *observer {
	o := &observer{t: t, numbers: map[string]int{}}
	watch := s.Watch(t.Context(), "/n/", from)
	go func() {
		for message := range watch {
			o.see(message)
		}
	}()
	return o
}

func (o *observer) see(message store.Watched) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if message.Err != nil {
		o.t.Error(message.Err)
		return
	}
	for _, e := range message.Events {
		n, err := strconv.Atoi(string(e.KV.Value))
		if err != nil || n != o.numbers[e.KV.Key]+1 || e.KV.ModRevision <= o.revision {
			o.t.Errorf("%s: %q at %d after %d at %d: %v", e.KV.Key, e.KV.Value, e.KV.ModRevision,
				o.numbers[e.KV.Key], o.revision, err)
		}
		o.numbers[e.KV.Key] = n
	}
	o.revision = message.Revision
}

func (o *observer) last(key string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.numbers[key]
}

// TestEnginesTakeTurns: two engines write as fast as they can. Neither has more than three times
// the transactions of the other.
func TestEnginesTakeTurns(t *testing.T) {
	db := postgres.Start(t, postgres.Options{Sync: true}).Database(t)
	var done [2]atomic.Int64
	var clients sync.WaitGroup
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	const enough = 1000 // transactions
	for i := range done {
		s := open(t, pgstore.Options{ConnString: db})
		for n := range 3 - i {
			clients.Go(func() {
				for ctx.Err() == nil {
					key := fmt.Sprint("/n/", i, n)
					if _, err := s.Txn(ctx, nil, []store.Op{store.Put(key, nil)}); err == nil {
						if done[i].Add(1)+done[1-i].Load() >= enough {
							stop()
						}
					} else if ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		}
	}
	clients.Wait()
	one, two := done[0].Load(), done[1].Load()
	t.Logf("%d and %d transactions", one, two)
	if min(one, two) < 10 || max(one, two) > 3*min(one, two) {
		t.Errorf("one engine has %d transactions, and the other %d", one, two)
	}
}
