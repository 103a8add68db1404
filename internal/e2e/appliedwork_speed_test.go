// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package e2e_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// TestAppliedWorkSpeed is what time and size are claimed for. It runs alone, and without the race detector, which takes most
// of the time of a client.
func TestAppliedWorkSpeed(t *testing.T) {
	// The limits that kube-controller-manager has by default; other tests raise them.
	g := newGround(t, groundOptions{controller: []string{"--kube-api-qps=20", "--kube-api-burst=30"}})
	t.Run("Teardown", func(t *testing.T) { checkTeardownSpeed(t, g) })
	t.Run("Shards", func(t *testing.T) { g.shardsOf(t, 50_000) })
}

// checkTeardownSpeed compares a teardown with what Kubernetes' collector does when the AppliedWork is deleted, in the same
// run on the same servers.
func checkTeardownSpeed(t *testing.T, g *ground) {
	const n = 1000
	x := g.plain(nil)
	run := func(name string, end func(*v1alpha1.AppliedWork)) time.Duration {
		g.create(namespaceOf(name))
		work := x.ensure(t, name)
		x.apply(t, work, manyConfigMaps(name, n)...)
		entries, err := x.tracker.Entries(t.Context(), work)
		if err != nil {
			t.Fatal(err)
		}
		work.Status.AppliedResources = entries
		began := time.Now()
		end(work)
		if err := x.collector.WaitGone(t.Context(), work); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	bare := run("bare", func(work *v1alpha1.AppliedWork) {
		if err := g.admin.Resource(v1alpha1.GroupVersionResource).Delete(t.Context(), work.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	ours := run("ours", func(work *v1alpha1.AppliedWork) {
		changes, err := x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{})
		if err != nil || !changes.Done() {
			t.Fatal(changes, err)
		}
	})
	t.Logf("%d objects: the bare cascade took %s, a teardown %s: %.1f times as fast", n, bare.Round(time.Millisecond), ours.Round(time.Millisecond), bare.Seconds()/ours.Seconds())
	if bare < 5*ours {
		t.Error("a teardown is not five times as fast as the cascade")
	}
}
