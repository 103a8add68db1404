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

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

var appliedWorkObjects = flag.Int("appliedwork.objects", 1000,
	"how many objects are applied by TestAppliedWorkLarge/Unchanged; the claim is for 10000")

// checkUnchanged: a second apply of unchanged objects makes no write, by the same or another
// process.
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
		t.Logf("%d objects: applied in %s; applied again by %s in %s with %d writes", len(objects),
			first.Round(time.Millisecond), who, again.Round(time.Millisecond), writes)
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

// shards returns the additional AppliedWorks of an inventory.
func (g *ground) shards(t *testing.T, work *v1alpha1.AppliedWork) []unstructured.Unstructured {
	t.Helper()
	list, err := g.admin.Resource(v1alpha1.GroupVersionResource).List(t.Context(),
		metav1.ListOptions{LabelSelector: v1alpha1.LabelShardOf + "=" + string(work.UID)})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// checkShards records more objects than fit into one AppliedWork. Each shard stays under 1 MiB, and
// all are read back.
func checkShards(t *testing.T, g *ground) { g.shardsOf(t, 15_000) }

func (g *ground) shardsOf(t *testing.T, n int) {
	x := g.plain(nil)
	work := x.ensure(t, "shards")
	ids := make([]v1alpha1.ResourceIdentifier, n)
	for i := range ids {
		ids[i] = v1alpha1.ResourceIdentifier{Ordinal: i, Group: "apps", Version: "v1", Kind: "Deployment",
			Resource:  "deployments",
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
