// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

func identifier(group, version, kind, resource, namespace, name string) v1alpha1.ResourceIdentifier {
	return v1alpha1.ResourceIdentifier{Group: group, Version: version, Kind: kind, Resource: resource,
		Namespace: namespace, Name: name}
}

func configMap(name string) v1alpha1.ResourceIdentifier {
	return identifier("", "v1", "ConfigMap", "configmaps", "ns", name)
}

func entry(id v1alpha1.ResourceIdentifier, uid types.UID) v1alpha1.AppliedResourceMeta {
	return v1alpha1.AppliedResourceMeta{ResourceIdentifier: id, UID: uid}
}

func TestDiff(t *testing.T) {
	type ids = []v1alpha1.ResourceIdentifier
	type entries = []v1alpha1.AppliedResourceMeta
	old, bumped := identifier("example.com", "v1", "Tenant", "tenants", "ns", "a"),
		identifier("example.com", "v2", "Tenant", "tenants", "ns", "a")
	bumped.Ordinal = 7
	kindless := identifier("apps", "v1", "", "deployments", "ns", "web")
	deployment := identifier("apps", "v1", "Deployment", "deployments", "ns", "web")
	tests := []struct {
		name, reason string
		recorded     entries
		desired      ids
		want         appliedwork.Plan
	}{
		{name: "nothing", reason: "nothing comes of nothing"},
		{name: "first", reason: "an object without a record is added", desired: ids{configMap("a")},
			want: appliedwork.Plan{Add: ids{configMap("a")}}},
		{name: "same", reason: "the recorded UID is kept", recorded: entries{entry(configMap("a"), "1")},
			desired: ids{configMap("a")},
			want:    appliedwork.Plan{Keep: entries{entry(configMap("a"), "1")}}},
		{name: "removed", reason: "an object that is not desired is stale",
			recorded: entries{entry(configMap("a"), "1"), entry(configMap("b"), "")},
			desired:  ids{configMap("c")}, want: appliedwork.Plan{Add: ids{configMap("c")},
				Stale: entries{entry(configMap("a"), "1"), entry(configMap("b"), "")}}},
		{name: "version", reason: "a bumped apiVersion or another ordinal must not delete the live object",
			recorded: entries{entry(old, "1")},
			desired:  ids{bumped}, want: appliedwork.Plan{Keep: entries{entry(bumped, "1")}}},
		{name: "group", reason: "another group is another object",
			recorded: entries{entry(identifier("a.io", "v1", "T", "ts", "", "x"), "1")},
			desired:  ids{identifier("b.io", "v1", "T", "ts", "", "x")},
			want: appliedwork.Plan{Add: ids{identifier("b.io", "v1", "T", "ts", "", "x")},
				Stale: entries{entry(identifier("a.io", "v1", "T", "ts", "", "x"), "1")}}},
		{name: "namespace", reason: "the same name elsewhere is another object",
			recorded: entries{entry(identifier("", "v1", "ConfigMap", "configmaps", "other", "a"), "1")},
			desired:  ids{configMap("a")}, want: appliedwork.Plan{Add: ids{configMap("a")},
				Stale: entries{entry(identifier("", "v1", "ConfigMap", "configmaps", "other", "a"), "1")}}},
		{name: "twice desired", reason: "it is one object", desired: ids{configMap("a"), configMap("a")},
			want: appliedwork.Plan{Add: ids{configMap("a")}}},
		{name: "twice recorded", reason: "the entry with a UID counts", recorded: entries{entry(old, ""), entry(bumped, "1")},
			desired: ids{old},
			want:    appliedwork.Plan{Keep: entries{entry(old, "1")}}},
		{name: "twice recorded and stale", reason: "it is deleted once",
			recorded: entries{entry(old, "1"), entry(bumped, "")},
			want:     appliedwork.Plan{Stale: entries{entry(old, "1")}}},
		{name: "no kind", reason: "the enhancement's own example records none", recorded: entries{entry(kindless, "1")},
			desired: ids{deployment},
			want:    appliedwork.Plan{Keep: entries{entry(deployment, "1")}}},
		{name: "no kind, stale", reason: "and nor does that keep it", recorded: entries{entry(kindless, "1")},
			want: appliedwork.Plan{Stale: entries{entry(kindless, "1")}}},
		{name: "with and without kind", reason: "both are of the object that is desired",
			recorded: entries{entry(kindless, "1"), entry(deployment, "1")},
			desired:  ids{deployment}, want: appliedwork.Plan{Keep: entries{entry(deployment, "1")}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := appliedwork.Diff(test.recorded, test.desired)
			if d := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("%s: %s", test.reason, d)
			}
		})
	}
}

// TestDiffProperties checks that every recorded object is either kept or stale, and that a desired
// object is never stale. The order and the version do not change the result.
func TestDiffProperties(t *testing.T) {
	id := rapid.Custom(func(t *rapid.T) v1alpha1.ResourceIdentifier {
		return v1alpha1.ResourceIdentifier{
			Ordinal: rapid.IntRange(0, 3).Draw(t, "ordinal"), Group: rapid.SampledFrom([]string{"", "a"}).Draw(t, "group"),
			Version:   rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "version"),
			Kind:      rapid.SampledFrom([]string{"K", "L"}).Draw(t, "kind"),
			Namespace: rapid.SampledFrom([]string{"", "n"}).Draw(t, "namespace"),
			Name:      rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		desired := rapid.SliceOf(id).Draw(t, "desired")
		recorded := rapid.SliceOf(rapid.Custom(func(t *rapid.T) v1alpha1.AppliedResourceMeta {
			return entry(id.Draw(t, "id"), types.UID(rapid.SampledFrom([]string{"", "1"}).Draw(t, "uid")))
		})).Draw(t, "recorded")
		plan := appliedwork.Diff(recorded, desired)
		wanted, known, verdict := map[appliedwork.Key]bool{}, map[appliedwork.Key]bool{}, map[appliedwork.Key]int{}
		for _, d := range desired {
			wanted[appliedwork.KeyOf(d)] = true
		}
		for _, r := range recorded {
			known[appliedwork.KeyOf(r.ResourceIdentifier)] = true
		}
		for _, k := range plan.Keep {
			key := appliedwork.KeyOf(k.ResourceIdentifier)
			verdict[key]++
			if !wanted[key] || !known[key] {
				t.Fatalf("kept %v", k)
			}
		}
		for _, a := range plan.Add {
			key := appliedwork.KeyOf(a)
			verdict[key]++
			if !wanted[key] || known[key] {
				t.Fatalf("added %v", a)
			}
		}
		for _, s := range plan.Stale {
			key := appliedwork.KeyOf(s.ResourceIdentifier)
			verdict[key]++
			if wanted[key] || !known[key] {
				t.Fatalf("stale %v", s)
			}
		}
		for key := range wanted {
			known[key] = true
		}
		for key := range known {
			if verdict[key] != 1 {
				t.Fatalf("%s has %d verdicts", key, verdict[key])
			}
		}
	})
}

func BenchmarkDiff(b *testing.B) {
	for _, n := range []int{1, 1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var recorded []v1alpha1.AppliedResourceMeta
			var desired []v1alpha1.ResourceIdentifier
			for i := range n {
				id := configMap(fmt.Sprintf("settings-of-some-application-%06d", i))
				recorded = append(recorded, entry(id, types.UID(fmt.Sprint(i))))
				id.Name = fmt.Sprintf("settings-of-some-application-%06d", i+n/10) // a tenth is stale, and a tenth is new
				desired = append(desired, id)
			}
			b.ReportAllocs()
			for b.Loop() {
				if plan := appliedwork.Diff(recorded, desired); len(plan.Keep)+len(plan.Stale) != n {
					b.Fatal(len(plan.Keep), len(plan.Stale))
				}
			}
		})
	}
}
