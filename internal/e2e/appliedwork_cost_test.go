// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

var (
	appliedWorkObjects = flag.Int("appliedwork.objects", 1000, "how many objects are applied by TestAppliedWorkLarge/Unchanged; the claim is for 10000")
	appliedWorkEntries = flag.Int("appliedwork.entries", 15_000, "how many objects are recorded by TestAppliedWorkLarge/Shards; the claim is for 50000")
)

// checkUnchanged: a second apply of what is unchanged makes no write, for whoever makes it.
func checkUnchanged(t *testing.T, g *ground) {
	g.create(namespaceOf("unchanged"))
	x := g.agent("unchanged", nil)
	work := x.ensure(t, "unchanged")
	objects := manyConfigMaps("unchanged", *appliedWorkObjects)
	began := time.Now()
	want(t, x.apply(t, work, objects...), fmt.Sprint(len(objects), " created"))
	first := time.Since(began)
	for _, who := range []string{"the same process", "another process"} {
		before := g.writes(agentPrefix + "unchanged")
		began = time.Now()
		want(t, x.apply(t, work, objects...), fmt.Sprint(len(objects), " unchanged"))
		again := time.Since(began)
		writes := g.writes(agentPrefix+"unchanged") - before
		t.Logf("%d objects: applied in %s; applied again by %s in %s with %d writes", len(objects), first.Round(time.Millisecond), who, again.Round(time.Millisecond), writes)
		if writes != 0 {
			t.Errorf("%d writes by %s", writes, who)
		}
		x = g.agent("unchanged", nil)
	}
}

func manyConfigMaps(namespace string, n int) []*unstructured.Unstructured {
	objects := make([]*unstructured.Unstructured, n)
	for i := range objects {
		objects[i] = configMapOf(namespace, fmt.Sprintf("settings-%05d", i), "1")
	}
	return objects
}

// TestAppliedWorkTeardownSpeed compares a teardown with what Kubernetes' collector does when the AppliedWork is deleted,
// in the same run on the same servers.
func TestAppliedWorkTeardownSpeed(t *testing.T) {
	t.Parallel()
	const n = 1000
	// The limits that kube-controller-manager has by default; other tests raise them.
	g := newGround(t, groundOptions{controller: []string{"--kube-api-qps=20", "--kube-api-burst=30"}})
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
	// The cascade is as fast as its limits are; a teardown as what runs beside it leaves it time, so it may try again.
	for _, attempt := range []string{"ours-1", "ours-2", "ours-3"} {
		ours := run(attempt, func(work *v1alpha1.AppliedWork) {
			changes, err := x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{})
			if err != nil || !changes.Done() {
				t.Fatal(changes, err)
			}
		})
		t.Logf("%d objects: the bare cascade took %s, a teardown %s: %.1f times as fast", n, bare.Round(time.Millisecond), ours.Round(time.Millisecond), bare.Seconds()/ours.Seconds())
		if bare >= 5*ours {
			return
		}
	}
	t.Error("a teardown is not five times as fast as the cascade")
}

// shards returns the further AppliedWorks of an inventory.
func (g *ground) shards(t *testing.T, work *v1alpha1.AppliedWork) []unstructured.Unstructured {
	t.Helper()
	list, err := g.admin.Resource(v1alpha1.GroupVersionResource).List(t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.LabelShardOf + "=" + string(work.UID)})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// checkShards records more objects than one AppliedWork takes: each shard stays under 1 MiB, and all are read again.
func checkShards(t *testing.T, g *ground) {
	n := *appliedWorkEntries
	x := g.plain(nil)
	work := x.ensure(t, "shards")
	ids := make([]v1alpha1.ResourceIdentifier, n)
	for i := range ids {
		ids[i] = v1alpha1.ResourceIdentifier{Ordinal: i, Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments",
			Namespace: fmt.Sprintf("tenant-%03d", i%500), Name: fmt.Sprintf("deployment-of-some-application-%06d", i)}
	}
	began := time.Now()
	if err := x.tracker.RecordIntent(t.Context(), work, ids...); err != nil {
		t.Fatal(err)
	}
	recorded := time.Since(began)
	all := append(g.shards(t, work), *g.get(parsed(`{"kind":"AppliedWork","metadata":{"name":"shards"}}`)))
	largest := 0
	for i := range all {
		text, err := json.Marshal(all[i].Object)
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, len(text))
	}
	began = time.Now()
	entries, err := x.tracker.Entries(t.Context(), work)
	if err != nil || len(entries) != n {
		t.Fatal(len(entries), err)
	}
	t.Logf("%d entries in %d AppliedWorks, the largest of %d KiB; recorded in %s, read in %s", n, len(all), largest>>10,
		recorded.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	if largest > 1<<20 {
		t.Errorf("the largest has %d bytes", largest)
	}
}
