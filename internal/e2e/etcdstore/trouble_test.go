// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/etcdstore"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// counter is a writer of numbered batches. Odd batches are large. The keys left and right always have
// the same number.
type counter struct {
	store  work.SharedStore
	before func() // is called before each batch
	failed int
	last   int // acknowledged
}

// pairs returns an error if content has a part of a counter's batch.
func pairs(content map[string]string) error {
	if content["left"] != content["right"] {
		return fmt.Errorf("left is %q and right is %q", content["left"], content["right"])
	}
	return nil
}

// count writes the batches of n, and repeats those that fail.
func (c *counter) count(t *testing.T, n int) {
	t.Helper()
	for range n {
		if c.before != nil {
			c.before()
		}
		number := fmt.Sprint(c.last + 1)
		batch := []work.Change{set("left", number), {Key: "missing"}}
		if c.last%2 == 0 {
			batch = append(batch, records(200, 100)...)
		}
		batch = append(batch, set("right", number))
		for began := time.Now(); ; {
			err := c.store.Apply(t.Context(), batch)
			if err == nil {
				break
			}
			c.failed++
			if time.Since(began) > limit {
				t.Errorf("batch %s: %v", number, err)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		c.last++
	}
}

// endsAt waits until the follower has the last batch of a counter.
func (f *follower) endsAt(t *testing.T, c *counter) {
	t.Helper()
	if got := f.agrees(t, c.store)["left"]; got != fmt.Sprint(c.last) {
		t.Errorf("the store has batch %s, the last acknowledged one is %d", got, c.last)
	}
}

// TestServerIsKilled: etcd is killed with SIGKILL again and again, and restarted. No acknowledged
// batch is lost, and a follower continues without reading the content again.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	c := &counter{store: etcd.open(etcdstore.Options{})}
	f := follow(t, etcd.open(etcdstore.Options{}), pairs)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 5 {
			time.Sleep(time.Duration(200+rand.IntN(300)) * time.Millisecond)
			etcd.process.Kill()
			etcd.start()
		}
	}()
	for running := true; running; {
		c.count(t, 5)
		select {
		case <-done:
			running = false
		default:
		}
	}
	f.endsAt(t, c)
	if f.wholes() != 1 || f.lastErr() != nil {
		t.Errorf("the follower received the content %d times: %v", f.wholes(), f.lastErr())
	}
	t.Logf("%d batches, %d attempts failed", c.last, c.failed)
}

// TestServerIsSuspended: etcd does not answer. Writes, Load and Follow return ErrUnreachable within
// their timeout. After that all continue.
func TestServerIsSuspended(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	c := &counter{store: etcd.open(quick)}
	f := follow(t, etcd.open(quick), pairs)
	c.count(t, 3)
	f.endsAt(t, c)
	etcd.process.Freeze()
	for what, call := range map[string]func() error{
		"Apply": func() error { return c.store.Apply(t.Context(), []work.Change{set("a", "1")}) },
		"Load":  func() error { return c.store.Load(t.Context(), func(string, []byte) error { return nil }) },
		"Open": func() error {
			_, err := etcdstore.Open(t.Context(), etcdstore.Options{Endpoints: []string{etcd.url}, Timeout: time.Second})
			return err
		},
	} {
		began := time.Now()
		err := call()
		if took := time.Since(began); !errors.Is(err, etcdstore.ErrUnreachable) || took > limit {
			t.Errorf("%s after %s: %v", what, took, err)
		}
		t.Logf("%s: %v", what, err)
	}
	e2etest.Eventually(t, "Follow", func() error {
		if err := f.lastErr(); !errors.Is(err, etcdstore.ErrUnreachable) {
			return fmt.Errorf("its error is %s", fmt.Sprint(err))
		}
		return nil
	})
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.store.Apply(short, []work.Change{set("a", "1")}); !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, etcdstore.ErrUnreachable) {
		t.Errorf("Apply with a context that ends first: %v", err)
	}
	etcd.process.Thaw()
	c.count(t, 3)
	f.endsAt(t, c)
}

// TestCompactedFollowerFollowsAgain: etcd compacts changes that a disconnected follower has not
// received. Follow returns ErrBehind, and the next call of Follow gives the whole content.
func TestCompactedFollowerFollowsAgain(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	proxy := tcpproxy.Start(t, etcd.addr)
	c := &counter{store: etcd.open(etcdstore.Options{})}
	// With a short timeout, Follow would end because etcd is unreachable.
	f := follow(t, openStore(t, "http://"+proxy.Addr(), etcdstore.Options{}), pairs)
	c.count(t, 4)
	f.endsAt(t, c)
	proxy.Block()
	proxy.Cut()
	c.count(t, 4)
	etcd.compact()
	c.count(t, 4)
	proxy.Unblock()
	f.endsAt(t, c)
	if err := f.lastErr(); !errors.Is(err, work.ErrBehind) || f.wholes() != 2 {
		t.Errorf("the follower received the content %d times: %v", f.wholes(), err)
	}
	t.Log(f.lastErr())
}

// TestIdleFollowerResumes: a follower without changes loses its connection after other programs have
// changed etcd, and etcd has compacted these changes. It resumes, because it did not miss a change.
func TestIdleFollowerResumes(t *testing.T) {
	t.Parallel()
	etcd := startServer(t, "--watch-progress-notify-interval=1s")
	proxy := tcpproxy.Start(t, etcd.addr)
	c := &counter{store: etcd.open(etcdstore.Options{})}
	f := follow(t, openStore(t, "http://"+proxy.Addr(), etcdstore.Options{}), pairs)
	c.count(t, 2)
	f.endsAt(t, c)
	admin := etcd.admin()
	for range 10 {
		if _, err := admin.Put(t.Context(), "/other", "x"); err != nil {
			t.Fatal(err)
		}
	}
	// The follower receives the progress, which no call can show. So does another watch.
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	progress := admin.Watch(ctx, "/missing", clientv3.WithProgressNotify())
	for range 5 {
		if r := <-progress; !r.IsProgressNotify() {
			t.Fatalf("the watch received %+v: %v", r, r.Err())
		}
	}
	etcd.compact()
	proxy.Cut()
	c.count(t, 2)
	f.endsAt(t, c)
	if err := f.lastErr(); err != nil || f.wholes() != 1 {
		t.Errorf("the follower received the content %d times: %v", f.wholes(), err)
	}
}

// compact removes all earlier revisions.
func (s *server) compact() {
	s.t.Helper()
	admin := s.admin()
	now, err := admin.Get(s.t.Context(), "x")
	if err == nil {
		_, err = admin.Compact(s.t.Context(), now.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		s.t.Error(err)
	}
}

// TestMaintenanceUnderLoad: etcd is compacted and defragmented again and again while batches are
// written, read and followed. No batch is lost, and no call of Load fails.
func TestMaintenanceUnderLoad(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	admin := etcd.admin()
	c := &counter{store: etcd.open(etcdstore.Options{})}
	reader := etcd.open(etcdstore.Options{})
	f := follow(t, reader, pairs)
	write(t, c.store, records(2000, 1500)...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.count(t, 100)
	}()
	loads := 0
	for running := true; running; loads++ {
		etcd.compact()
		if _, err := admin.Defragment(t.Context(), etcd.url); err != nil {
			t.Error(err)
		}
		content := map[string]string{}
		if err := reader.Load(t.Context(), func(key string, value []byte) error {
			content[key] = short(value)
			return nil
		}); err != nil {
			t.Errorf("Load: %v", err)
		} else if err := pairs(content); err != nil {
			t.Error(err)
		}
		select {
		case <-done:
			running = false
		default:
		}
	}
	f.endsAt(t, c)
	t.Logf("%d loads, the follower received the content %d times", loads, f.wholes())
}

// TestServerHasNoSpace: over its quota etcd refuses writes and answers reads. Writes and Open name
// the alarm. After the operator has compacted, defragmented and disarmed it, writes continue.
func TestServerHasNoSpace(t *testing.T) {
	t.Parallel()
	etcd := startServer(t, "--quota-backend-bytes=16777216")
	admin := etcd.admin()
	s := etcd.open(etcdstore.Options{})
	f := follow(t, s, nil)
	large := set("large", strings.Repeat("x", 900<<10))
	var err error
	n := 0
	for ; err == nil && n < 100; n++ { // values of all sizes, so the quota is exceeded at any step
		err = s.Apply(t.Context(), []work.Change{large, set("n", fmt.Sprint(n)), set("m", strings.Repeat("y", 200<<10))})
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) || !strings.Contains(err.Error(), "NOSPACE") {
		t.Fatalf("after %d batches: %v", n, err)
	}
	t.Log(err)
	f.agrees(t, s)
	again := etcd.open(etcdstore.Options{}) // Open and reads work
	if err := again.Apply(t.Context(), []work.Change{set("a", "1")}); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("Apply: %v", err)
	}
	etcd.compact()
	if _, err = admin.Defragment(t.Context(), etcd.url); err == nil {
		_, err = admin.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Apply(t.Context(), []work.Change{set("a", "1")}); err != nil {
		t.Errorf("Apply after the alarm: %v", err)
	}
	if got := f.agrees(t, s); got["a"] != "1" {
		t.Errorf("content: %v", got)
	}
}

// TestLostResponses: connections break while requests and responses are in transit. Writers repeat
// what failed, followers resume. No batch is seen in parts, and no acknowledged one is lost.
func TestLostResponses(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	proxy := tcpproxy.Start(t, etcd.addr)
	c := &counter{store: openStore(t, "http://"+proxy.Addr(), quick)}
	f := follow(t, openStore(t, "http://"+proxy.Addr(), etcdstore.Options{}), pairs)
	proxy.Delay(5 * time.Millisecond)
	c.before = func() { time.AfterFunc(time.Duration(rand.IntN(40))*time.Millisecond, proxy.Cut) }
	c.count(t, 60)
	f.endsAt(t, c)
	t.Logf("%d batches, %d attempts failed, the follower received the content %d times: %v", c.last, c.failed, f.wholes(),
		f.lastErr())
	if c.failed == 0 {
		t.Error("no attempt failed")
	}
}

// TestLostResponseOfAcceptedBatch: etcd accepts a batch, and the response is lost. The write returns
// an error, the batch is there, and a repetition under the same condition succeeds.
func TestLostResponseOfAcceptedBatch(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	proxy := tcpproxy.Start(t, etcd.addr)
	s, direct := openStore(t, "http://"+proxy.Addr(), etcdstore.Options{}), etcd.open(quick)
	for name, batch := range map[string][]work.Change{
		"small": {set("a", "small")}, "large": append(records(500, 10), set("a", "large")),
	} {
		var err error
		for delay := time.Second; err == nil; delay *= 3 { // in each direction
			if delay > limit {
				t.Fatalf("%s: the write returned nil without a response", name)
			}
			write(t, direct, set("writer", "one"), set("a", "before"))
			write(t, s, set("b", "the connection is there again"))
			proxy.Delay(delay)
			result := make(chan error, 1)
			go func() { result <- s.ApplyIf(t.Context(), leaderOne, batch) }()
			e2etest.Eventually(t, "accept", func() error {
				if got := load(t, direct)["a"]; got != name {
					return fmt.Errorf("a is %q", got)
				}
				return nil
			})
			proxy.Cut() // before the response arrives, unless the machine is busy
			proxy.Delay(0)
			err = <-result
		}
		t.Logf("%s: %v", name, err)
		e2etest.Eventually(t, "repeat", func() error { return s.ApplyIf(t.Context(), leaderOne, batch) })
		if got := load(t, direct)["a"]; got != name {
			t.Errorf("a is %q", got)
		}
	}
}

// TestLateBatchIsRefused: a write fails because its request is in transit for long. When the request
// arrives, etcd refuses it: later batches have been acknowledged meanwhile.
func TestLateBatchIsRefused(t *testing.T) {
	t.Parallel()
	const transit = 15 * time.Second
	etcd := startServer(t)
	proxy := tcpproxy.Start(t, etcd.addr)
	o := quick
	o.Endpoints = []string{"http://" + proxy.Addr(), etcd.url, strings.Replace(etcd.url, "127.0.0.1", "localhost", 1)}
	s := openStore(t, "", o) // it uses the endpoints by turns
	for range len(o.Endpoints) {
		write(t, s, set("a", "0"))
	}
	proxy.Delay(transit)
	failed, last := 0, ""
	for n := 1; failed < 2 || last == ""; n++ {
		last = fmt.Sprint(n)
		if err := s.Apply(t.Context(), []work.Change{set("a", last)}); err != nil {
			failed, last = failed+1, ""
		}
	}
	direct := etcd.open(etcdstore.Options{})
	for late := time.After(transit + quick.Timeout); ; {
		if got := load(t, direct)["a"]; got != last {
			t.Fatalf("a is %q, the last acknowledged batch has %q", got, last)
		}
		select {
		case <-late:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}
