// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// many is the number of watches in the tests of interruptions, and mostDials the limit of their
// connections.
const (
	many      = 1000
	mostDials = 14
)

// createSecrets creates secrets s0, s1, ….
func createSecrets(client *writer, namespace string, n int) {
	client.t.Helper()
	var writers sync.WaitGroup
	for part := range 8 {
		writers.Go(func() {
			for i := part; i < n; i += 8 {
				client.setSecret(namespace, fmt.Sprint("s", i), "1")
			}
		})
	}
	writers.Wait()
}

// watchMany watches secrets s0, s1, …, each for a separate watcher.
func watchMany(w *watcher, namespace string, n int) {
	w.t.Helper()
	for i := range n {
		if err := w.AddWatcher(policyID(namespace, fmt.Sprint("p", i)), secretID(namespace, fmt.Sprint("s", i))); err != nil {
			w.t.Fatal(err)
		}
	}
	for i := range n {
		w.synced(policyID(namespace, fmt.Sprint("p", i)))
	}
}

// settled waits for the expected number of reconciles.
func (w *watcher) settled(want int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d reconciles", want), func() error {
		if got := w.total(); got < want {
			return fmt.Errorf("there were %d", got)
		}
		return nil
	})
	w.quiet(500 * time.Millisecond)
	if got := w.total(); got != want {
		w.t.Errorf("%d reconciles, want %d", got, want)
	}
}

// restarts waits until all watches were started again.
func (w *watcher) restarts() {
	w.t.Helper()
	w.eventually("all watches were interrupted", func() error {
		for _, s := range w.Status() {
			if s.Restarts == 0 {
				return fmt.Errorf("%s was not", s.Object)
			}
		}
		return nil
	})
}

// TestWatcherServerRestart: an API server that restarts without changes causes no reconcile and few
// connections.
func TestWatcherServerRestart(t *testing.T) {
	cluster := kube.Start(t, kube.Options{})
	client := newWriter(t, cluster)
	createSecrets(client, "default", many)
	w := startWatcher(t, cluster.Config(), dynamicwatcher.Options{}, nil)
	begin := time.Now()
	watchMany(w, "default", many)
	t.Logf("%d watches in %v, %d connections", many, time.Since(begin), w.dials.Load())
	if n := w.dials.Load(); n > mostDials {
		t.Errorf("%d connections for %d watches", n, many)
	}
	w.settled(many)

	before := w.dials.Load()
	cluster.KillAPIServer()
	begin = time.Now()
	cluster.StartAPIServer()
	w.restarts()
	w.active()
	t.Logf("all resumed %v after the start, %d attempts to connect", time.Since(begin), w.dials.Load()-before)
	w.settled(many)
	if open := w.open.Load(); open > mostDials {
		t.Errorf("%d connections are open", open)
	}

	// The watches still report changes.
	client.setSecret("default", "s7", "2")
	w.eventuallyCount(policyID("default", "p7"), 2)
	client.deleteSecret("default", "s8")
	w.eventuallyCount(policyID("default", "p8"), 2)
	if got := w.last(policyID("default", "p8")); got != dynamicwatcher.TriggerDeleted {
		t.Errorf("the last reconcile is for %s", got)
	}
	w.settled(many + 2)
	w.stop() // TestWatcherStopSpeed checks its duration
	client.eventuallySingleWatches("secrets", 0)
}

// TestWatcherDisconnect: after an interruption of many watches, each object that changed meanwhile
// causes a reconcile, and the others cause none.
func TestWatcherDisconnect(t *testing.T) {
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns := client.namespace("disconnect")
	createSecrets(client, ns, many)
	config := cluster.Config()
	proxy := tcpproxy.Start(t, strings.Trim(strings.TrimPrefix(config.Host, "https:"), "/"))
	config.Host = "https://" + proxy.Addr()
	w := startWatcher(t, config, dynamicwatcher.Options{}, nil)
	watchMany(w, ns, many)
	w.settled(many)

	proxy.Block()
	proxy.Cut()
	w.restarts()
	client.setSecret(ns, "s1", "2")
	client.setSecret(ns, "s2", "2")
	client.setSecret(ns, "s2", "3")
	client.deleteSecret(ns, "s3")
	client.deleteSecret(ns, "s4")
	client.setSecret(ns, "s4", "1") // the same content, another object
	before := w.dials.Load()
	proxy.Unblock()
	w.active()
	w.settled(many + 4)
	for name, want := range map[string]dynamicwatcher.TriggerType{
		"p1": dynamicwatcher.TriggerModified, "p2": dynamicwatcher.TriggerModified, "p3": dynamicwatcher.TriggerDeleted,
		"p4": dynamicwatcher.TriggerAdded,
	} {
		if n, got := w.count(policyID(ns, name)), w.last(policyID(ns, name)); n != 2 || got != want {
			t.Errorf("%s: %d reconciles, the last for %s, want %s", name, n, got, want)
		}
	}
	if links := proxy.Links(); links > mostDials {
		t.Errorf("%d connections are open", links)
	}
	t.Logf("%d connections, %d attempts", proxy.Links(), w.dials.Load()-before)
}

// TestWatcherForgottenHistory: watches continue after etcd and the API server have forgotten the
// last seen version.
func TestWatcherForgottenHistory(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t, kube.Options{})
	client := newWriter(t, cluster)
	createSecrets(client, "default", 20)
	w := startWatcher(t, cluster.Config(), dynamicwatcher.Options{}, nil)
	watchMany(w, "default", 20)
	w.settled(20)
	cluster.Forget()
	w.restarts()
	w.active()
	w.settled(20)
	client.setSecret("default", "s7", "2")
	w.eventuallyCount(policyID("default", "p7"), 2)
}
