// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package e2e_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// TestAppliedWorkSpeed measures the claimed times and sizes. It runs alone and without the race
// detector, which uses most of the time of a client.
//
// A teardown by a client with high limits is compared with the garbage collector after the
// AppliedWork is deleted. One comparison is on the same servers, with the collector's default
// limits. There it waits nearly all the time for these limits, and the shards are recorded
// meanwhile. The other comparison is on separate servers without these limits.
func TestAppliedWorkSpeed(t *testing.T) {
	const n = 1000
	bareEnd := func(g *ground) func(*v1alpha1.AppliedWork) error {
		return func(work *v1alpha1.AppliedWork) error {
			return g.admin.Resource(v1alpha1.GroupVersionResource).Delete(t.Context(), work.Name, metav1.DeleteOptions{})
		}
	}
	var lifted time.Duration
	t.Run("Lifted", func(t *testing.T) {
		g := newGround(t, groundOptions{controller: []string{"--kube-api-qps=100000", "--kube-api-burst=100000"}})
		lifted = <-g.timed(t, g.plain(nil), "lifted", n, bareEnd(g))
	})
	// The default limits of kube-controller-manager. Other tests raise them.
	g := newGround(t, groundOptions{controller: []string{"--kube-api-qps=20", "--kube-api-burst=30"}})
	x := g.plain(nil)
	ours := <-g.timed(t, x, "ours", n, func(work *v1alpha1.AppliedWork) error {
		changes, err := x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{})
		if err == nil && !changes.Done() {
			err = fmt.Errorf("it is not done: %s", changes)
		}
		return err
	})
	bare := g.timed(t, x, "bare", n, bareEnd(g))
	t.Run("Shards", func(t *testing.T) { g.shardsOf(t, 50_000) })
	took := <-bare
	t.Logf("%d objects: the bare cascade took %s, a teardown %s: %.1f times as fast", n, took.Round(time.Millisecond),
		ours.Round(time.Millisecond), took.Seconds()/ours.Seconds())
	t.Logf("the bare cascade with its limits lifted took %s: %.1f times as long as the teardown",
		lifted.Round(time.Millisecond), lifted.Seconds()/ours.Seconds())
	if took < 5*ours {
		t.Error("a teardown is not five times as fast as the cascade")
	}
}

// timed applies n objects and ends their work. It returns the time until all objects are gone.
func (g *ground) timed(
	t *testing.T, x tools, name string, n int, end func(*v1alpha1.AppliedWork) error,
) <-chan time.Duration {
	t.Helper()
	g.create(namespaceOf(name))
	work := x.ensure(t, name)
	x.apply(t, work, manyConfigMaps(name, n)...)
	entries, err := x.tracker.Entries(t.Context(), work)
	if err != nil {
		t.Fatal(err)
	}
	work.Status.AppliedResources = entries
	took := make(chan time.Duration, 1)
	go func() {
		began := time.Now()
		if err := errors.Join(end(work), x.collector.WaitGone(t.Context(), work)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		took <- time.Since(began)
	}()
	return took
}
