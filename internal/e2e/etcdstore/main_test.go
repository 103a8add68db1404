// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package etcdstore_test runs the store of works in etcd on real servers, and with writers in
// separate processes.
package etcdstore_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/etcdstore"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

func TestMain(m *testing.M) {
	if os.Getenv(writerEndpoint) != "" {
		os.Exit(writerProcess())
	}
	goleak.VerifyTestMain(m)
}

// server is a process of etcd.
type server struct {
	t       testing.TB
	program string
	args    []string
	url     string
	addr    string
	folder  string
	process *daemon.Daemon
}

// startServer starts etcd. It ends with the test.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	return newServer(t, "http", args...)
}

func newServer(t testing.TB, scheme string, args ...string) *server {
	t.Helper()
	peer := "http://" + daemon.FreeAddr(t).String()
	s := prepareServer(t, scheme, append([]string{
		"--name=m", "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=m=" + peer,
	}, args...)...)
	s.start()
	if scheme == "http" {
		e2etest.Eventually(t, "start etcd", func() error {
			_, err := s.admin().Get(t.Context(), "x")
			return err
		})
	}
	return s
}

// prepareServer returns a server that is not started.
func prepareServer(t testing.TB, scheme string, args ...string) *server {
	t.Helper()
	s := &server{
		t: t, program: kube.Program(t, "etcd"), addr: daemon.FreeAddr(t).String(),
		folder: filepath.Join(t.TempDir(), "etcd"),
	}
	s.url = scheme + "://" + s.addr
	s.args = append([]string{
		"--data-dir=" + s.folder, "--log-level=error", "--listen-client-urls=" + s.url, "--advertise-client-urls=" + s.url,
	}, args...)
	t.Cleanup(func() {
		if s.process != nil {
			s.process.Kill()
		}
	})
	return s
}

func (s *server) start() {
	s.t.Helper()
	var err error
	if s.process, err = daemon.Start(s.program, s.args...); err != nil {
		s.t.Fatal(err)
	}
	err = s.process.WaitReady(limit, func() error { // also without a certificate, or without the other members
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// admin returns a client of its own.
func (s *server) admin() *clientv3.Client {
	s.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.url}, DialTimeout: limit, Logger: zap.NewNop()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// open opens the store of the test.
func (s *server) open(o etcdstore.Options) *etcdstore.Store {
	s.t.Helper()
	return openStore(s.t, s.url, o)
}

func openStore(t testing.TB, url string, o etcdstore.Options) *etcdstore.Store {
	t.Helper()
	if o.Client == nil && len(o.Endpoints) == 0 {
		o.Endpoints = []string{url}
	}
	if o.Timeout == 0 {
		o.Timeout = limit // a loaded machine may be slow
	}
	store, err := etcdstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// quick are options for tests that wait for a timeout or a cleanup.
var quick = etcdstore.Options{Timeout: 2 * time.Second, CleanupInterval: 2 * time.Second}

// limit is how long a test waits for an effect.
const limit = time.Minute

func set(key, value string) work.Change { return work.Change{Key: key, Value: []byte(value)} }

// write applies changes until that succeeds.
func write(t testing.TB, s work.Store, changes ...work.Change) {
	t.Helper()
	e2etest.Eventually(t, "Apply", func() error { return s.Apply(t.Context(), changes) })
}

// short replaces long values by their length and sum, for readable differences.
func short(value []byte) string {
	if len(value) > 64 {
		return fmt.Sprintf("%d bytes, %x", len(value), sha256.Sum256(value))
	}
	return string(value)
}

// load returns the content of the store.
func load(t testing.TB, s work.Store) map[string]string {
	t.Helper()
	var out map[string]string
	e2etest.Eventually(t, "Load", func() error {
		out = map[string]string{}
		return s.Load(t.Context(), func(key string, value []byte) error {
			out[key] = short(value)
			return nil
		})
	})
	return out
}

// follower mirrors a store.
type follower struct {
	mu      sync.Mutex
	content map[string]string
	whole   int // number of times that it received the whole content
	batches int
	errs    []error
}

// follow mirrors a store until the test ends. Like a source it follows again after an error. check
// is called with the content after each batch.
func follow(t testing.TB, s work.SharedStore, check func(content map[string]string) error) *follower {
	t.Helper()
	f := &follower{content: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		position := ""
		for ctx.Err() == nil {
			err := s.Follow(ctx, position, nil, func(b work.Batch) error {
				f.mu.Lock()
				defer f.mu.Unlock()
				if position == "" {
					f.whole++
					f.content = map[string]string{}
				} else if len(b.Changes) > 0 {
					f.batches++
				}
				position = b.Position
				for _, c := range b.Changes {
					if c.Value == nil {
						delete(f.content, c.Key)
					} else {
						f.content[c.Key] = short(c.Value)
					}
				}
				if check == nil {
					return nil
				}
				if err := check(f.content); err != nil {
					t.Errorf("a follower: %v", err)
				}
				return nil
			})
			if errors.Is(err, work.ErrBehind) {
				position = ""
			}
			if err != nil {
				f.mu.Lock()
				f.errs = append(f.errs, err)
				f.mu.Unlock()
				time.Sleep(50 * time.Millisecond)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	e2etest.Eventually(t, "follow", func() error {
		if f.wholes() == 0 {
			return errors.New("it has not received the content")
		}
		return nil
	})
	return f
}

func (f *follower) wholes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.whole
}

func (f *follower) lastErr() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errs) == 0 {
		return nil
	}
	return f.errs[len(f.errs)-1]
}

func (f *follower) copy() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.content)
}

// agrees waits until a follower has the content of a store.
func (f *follower) agrees(t testing.TB, s work.Store) map[string]string {
	t.Helper()
	var want map[string]string
	e2etest.Eventually(t, "the follower and the store", func() error {
		want = load(t, s)
		if diff := cmp.Diff(want, f.copy()); diff != "" {
			return fmt.Errorf("content (-store +follower):\n%s", diff)
		}
		return nil
	})
	return want
}

// left returns the keys of etcd that only unfinished batches and removed values have.
func left(t testing.TB, c *clientv3.Client, prefix string) []string {
	t.Helper()
	var out []string
	for _, part := range []string{"pending", "stage/"} {
		r, err := c.Get(t.Context(), prefix+part, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range r.Kvs {
			out = append(out, string(kv.Key))
		}
	}
	return out
}
