// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// checkHelpers: the CRD prunes our additional fields, and every helper still works.
func checkHelpers(t *testing.T, g *ground) {
	g.create(namespaceOf("upstream"))
	x := g.agent("upstream", func(o *appliedwork.Options) { o.MaxShardBytes = 1 << 10 })
	g.keepsUpstreamObjects(t, x)
	work := x.ensure(t, "upstream")
	var objects []*unstructured.Unstructured
	for i := range 12 {
		objects = append(objects, configMapOf("upstream", fmt.Sprint("a-", i), "1"))
	}
	want(t, x.apply(t, work, objects...), "12 created")
	want(t, x.apply(t, work, objects...), "12 unchanged")
	works := append(g.shards(t, work), *g.get(parsed(`{"kind":"AppliedWork","metadata":{"name":"upstream"}}`)))
	if len(works) < 2 {
		t.Errorf("%d AppliedWorks, want shards", len(works))
	}
	for i := range works {
		status, _ := works[i].Object["status"].(map[string]any)
		if len(status) > 1 {
			t.Errorf("the CRD kept %v", status)
		}
		if text, err := json.Marshal(status); err != nil || len(text) > 1<<10 {
			t.Errorf("a shard of %d bytes, %v", len(text), err)
		}
	}
	before := g.writes(agentPrefix + "upstream")
	want(t, x.apply(t, work, objects...), "12 unchanged")
	if after := g.writes(agentPrefix + "upstream"); after != before {
		t.Errorf("%d writes for what is unchanged", after-before)
	}
	changes, err := x.pruner.Prune(t.Context(), work, objects[:6], appliedwork.PruneOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, changes, "6 deleted")
	if evicted, err := x.collector.Evict(t.Context(), work, appliedwork.EvictOptions{}); err != nil ||
		evicted.Remaining == 0 {
		t.Errorf("%+v, %v", evicted, err)
	}
	if err := x.collector.CancelEviction(t.Context(), work); err != nil {
		t.Error(err)
	}
	if report, err := x.collector.Audit(t.Context(), work, appliedwork.AuditOptions{}); err != nil ||
		len(report.Untracked)+len(report.Missing)+len(report.Foreign) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if changes, err = x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{}); err != nil ||
		!changes.Done() {
		t.Errorf("%v, %v", changes, err)
	}
	g.eventuallyGone(t, append(objects, parsed(`{"kind":"AppliedWork","metadata":{"name":"upstream"}}`))...)
	if shards := g.shards(t, work); len(shards) > 0 {
		t.Errorf("%d shards are left", len(shards))
	}
}

// keepsUpstreamObjects stores the objects of work-api's own documentation, and reads them through a Tracker.
func (g *ground) keepsUpstreamObjects(t *testing.T, x tools) {
	t.Helper()
	content, err := os.ReadFile("../../appliedwork/testdata/upstream.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct{ Objects []map[string]any }
	if err := json.Unmarshal(content, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, o := range vectors.Objects {
		obj := &unstructured.Unstructured{Object: o}
		stored := g.create(obj)
		if obj.Object["status"] != nil {
			stored.Object["status"] = obj.Object["status"]
			if stored, err = g.at(obj).UpdateStatus(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		var typed v1alpha1.AppliedWork
		text, _ := json.Marshal(stored.Object)
		if err := json.Unmarshal(text, &typed); err != nil {
			t.Fatal(err)
		}
		entries, err := x.tracker.Entries(t.Context(), &typed)
		if err != nil || len(entries) != len(typed.Status.AppliedResources) {
			t.Errorf("%s: %v, %v", typed.Name, entries, err)
		}
		if d := cmp.Diff(obj.Object["status"], stored.Object["status"], numbers); d != "" {
			t.Errorf("%s: %s", typed.Name, d)
		}
		if err := g.at(obj).Delete(t.Context(), obj.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// numbers compares numbers by value: one decoder makes floats of all numbers, the other integers.
var numbers = cmp.FilterValues(func(a, b any) bool { return number(a) && number(b) },
	cmp.Comparer(func(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }))

func number(v any) bool {
	switch v.(type) {
	case float64, int64:
		return true
	}
	return false
}
