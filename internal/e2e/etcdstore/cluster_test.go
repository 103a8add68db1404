// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/etcdstore"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// startMembers starts a cluster of three servers.
func startMembers(t *testing.T) (members []*server, urls []string) {
	t.Helper()
	var peers, initial []string
	for i := range 3 {
		peers = append(peers, "http://"+daemon.FreeAddr(t).String())
		initial = append(initial, fmt.Sprintf("m%d=%s", i, peers[i]))
	}
	for i, peer := range peers {
		s := prepareServer(t, "http", fmt.Sprint("--name=m", i), "--listen-peer-urls="+peer,
			"--initial-advertise-peer-urls="+peer, "--initial-cluster="+strings.Join(initial, ","))
		members, urls = append(members, s), append(urls, s.url)
		s.start()
	}
	return members, urls
}

// leader returns the index of the member that leads, according to one of the others.
func leader(t *testing.T, members []*server) int {
	t.Helper()
	found := -1
	e2etest.Eventually(t, "an election", func() error {
		for i, m := range members {
			if !m.process.Running() {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			status, err := m.admin().Status(ctx, m.url)
			cancel()
			if err == nil && status.Leader == status.Header.MemberId {
				found = i
				return nil
			}
		}
		return errors.New("no member leads")
	})
	return found
}

// TestMembersFail: the leading member of etcd is killed or suspended, in turn. Writes continue, and a
// follower receives them. Without a quorum, writes and Follow return ErrUnreachable. After that both
// continue.
func TestMembersFail(t *testing.T) {
	t.Parallel()
	members, urls := startMembers(t)
	o := etcdstore.Options{Endpoints: urls, Timeout: 5 * time.Second}
	c := &counter{store: openStore(t, "", o)}
	f := follow(t, openStore(t, "", o), pairs)
	c.count(t, 4)
	for round := range 4 {
		m := members[leader(t, members)]
		if round%2 == 0 {
			m.process.Kill()
		} else {
			m.process.Freeze()
		}
		c.count(t, 4)
		f.endsAt(t, c)
		if round%2 == 0 {
			m.start()
		} else {
			m.process.Thaw()
		}
	}
	t.Logf("%d batches, %d attempts failed, the follower received the content %d times: %v", c.last, c.failed, f.wholes(),
		f.lastErr())
	members[0].process.Kill()
	members[1].process.Kill()
	err := c.store.Apply(t.Context(), []work.Change{set("a", "1")})
	if !errors.Is(err, etcdstore.ErrUnreachable) {
		t.Errorf("Apply without a quorum: %v", err)
	}
	t.Log(err)
	e2etest.Eventually(t, "Follow without a quorum", func() error {
		if err := f.lastErr(); !errors.Is(err, etcdstore.ErrUnreachable) {
			return fmt.Errorf("the error is %s", fmt.Sprint(err))
		}
		return nil
	})
	members[0].start()
	members[1].start()
	c.count(t, 4)
	f.endsAt(t, c)
}

// TestRestoredBackup: etcd returns to an older state. A follower that is not stopped receives it.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	c := &counter{store: etcd.open(quick)}
	// Follow must not end while etcd restarts. It reads the revision this often.
	f := follow(t, etcd.open(etcdstore.Options{Timeout: 15 * time.Second}), pairs)
	c.count(t, 4)
	f.endsAt(t, c)
	etcd.process.Kill()
	backup := filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(etcd.folder)); err != nil {
		t.Fatal(err)
	}
	etcd.start()
	c.count(t, 40)
	f.endsAt(t, c)
	etcd.process.Kill()
	if err := errors.Join(os.RemoveAll(etcd.folder), os.CopyFS(etcd.folder, os.DirFS(backup))); err != nil {
		t.Fatal(err)
	}
	etcd.start()
	if got := f.agrees(t, c.store)["left"]; got != "4" {
		t.Errorf("the store has batch %s, the backup has 4", got)
	}
	if err := f.lastErr(); !errors.Is(err, work.ErrBehind) {
		t.Errorf("Follow returned %v", err)
	}
	t.Log(f.lastErr())
}

// TestDamagedRecordsAreReported: records that another program has changed are errors with their
// keys, in Load and in Follow.
func TestDamagedRecordsAreReported(t *testing.T) {
	t.Parallel()
	etcd := startServer(t)
	s, admin := etcd.open(etcdstore.Options{}), etcd.admin()
	write(t, s, set("small", "1"), set("large", strings.Repeat("x", 1<<20)))
	record := func(key string) string { return etcdstore.DefaultPrefix + "record/" + key }
	for key, value := range map[string]string{
		record("small"): "?", record("large\x00000003"): "cut", record("large"): "s 1 1 00 ",
		etcdstore.DefaultPrefix + "pending": "v\x05",
	} {
		old, err := admin.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		f := follow(t, s, nil)
		if _, err := admin.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(strings.TrimSuffix(key, "\x00000003"), record(""))
		err = s.Load(t.Context(), func(string, []byte) error { return nil })
		if !errors.Is(err, etcdstore.ErrDamaged) || !strings.Contains(err.Error(), name) {
			t.Errorf("Load with a damaged %q: %v", key, err)
		}
		e2etest.Eventually(t, "Follow", func() error {
			if err := f.lastErr(); name != "large" && !errors.Is(err, etcdstore.ErrDamaged) {
				return fmt.Errorf("with a damaged %q it returned %s", key, fmt.Sprint(err))
			}
			return nil
		})
		repair := clientv3.OpDelete(key)
		if len(old.Kvs) > 0 {
			repair = clientv3.OpPut(key, string(old.Kvs[0].Value))
		}
		if _, err := admin.Do(t.Context(), repair); err != nil {
			t.Fatal(err)
		}
		if got := load(t, s); got["small"] != "1" || len(got) != 2 {
			t.Errorf("after the repair of %q: %v", key, got)
		}
	}
}
