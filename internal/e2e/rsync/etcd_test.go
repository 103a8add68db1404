// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package rsync_test runs the engine of package rsync and its stores on real servers: etcd, which
// it starts in the process, and PostgreSQL.
package rsync_test

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/etcdstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// cluster holds etcd servers.
type cluster struct {
	t       testing.TB
	members []*embed.Etcd
	urls    []string
	stopped []bool
}

func freeURL(t testing.TB) url.URL {
	t.Helper()
	return url.URL{Scheme: "http", Host: daemon.FreeAddr(t).String()}
}

// startEtcd starts a cluster of n members that ends with the test. The options change the
// configuration of each member.
func startEtcd(t testing.TB, n int, options ...func(*embed.Config)) *cluster {
	t.Helper()
	c := &cluster{t: t, stopped: make([]bool, n)}
	configs := make([]*embed.Config, n)
	var initial []string
	for i := range configs {
		config := embed.NewConfig()
		config.Name = fmt.Sprint("m", i)
		config.Dir = filepath.Join(t.TempDir(), config.Name)
		config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		client, peer := freeURL(t), freeURL(t)
		config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
		config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
		config.UnsafeNoFsync = true
		for _, o := range options {
			o(config)
		}
		c.urls = append(c.urls, client.String())
		initial = append(initial, config.Name+"="+peer.String())
		configs[i] = config
	}
	for _, config := range configs {
		config.InitialCluster = strings.Join(initial, ",")
		member, err := embed.StartEtcd(config)
		if err != nil {
			t.Fatal(err)
		}
		c.members = append(c.members, member)
	}
	t.Cleanup(func() {
		for i := range c.members {
			c.stop(i)
		}
	})
	for _, member := range c.members {
		select {
		case <-member.Server.ReadyNotify():
		case <-time.After(time.Minute):
			t.Fatal("etcd is not ready after a minute")
		}
	}
	return c
}

func (c *cluster) stop(i int) {
	if !c.stopped[i] {
		c.stopped[i] = true
		c.members[i].Close()
	}
}

// leader returns the index of the leading member.
func (c *cluster) leader() int {
	for i, m := range c.members {
		if m.Server.MemberID() == m.Server.Leader() {
			return i
		}
	}
	c.t.Fatal("there is no leader")
	return -1
}

func (c *cluster) client(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.urls, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
		DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// store returns a store with its own client, with all keys below a prefix.
func (c *cluster) store(t testing.TB, prefix string) store.Store {
	t.Helper()
	s, err := etcdstore.New(c.client(t), etcdstore.Options{Prefix: prefix, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (c *cluster) addresses() (out []string) {
	for _, u := range c.urls {
		out = append(out, strings.TrimPrefix(u, "http://"))
	}
	return out
}

func (c *cluster) endpoints(addresses []string) (out []string) {
	for _, a := range addresses {
		out = append(out, "http://"+a)
	}
	return out
}

// TestConformance: the store in etcd meets the same requirements as the store in memory.
func TestConformance(t *testing.T) {
	t.Parallel()
	etcd := startEtcd(t, 1)
	var n atomic.Int64
	storetest.Run(t, func(t *testing.T) store.Store {
		return etcd.store(t, fmt.Sprintf("/test%d", n.Add(1)))
	})
}
