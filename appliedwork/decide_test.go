// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

var (
	ours = metav1.OwnerReference{APIVersion: "multicluster.x-k8s.io/v1alpha1", Kind: "AppliedWork", Name: "w",
		UID: "us"}
	theirs = metav1.OwnerReference{APIVersion: "multicluster.x-k8s.io/v1alpha1", Kind: "AppliedWork", Name: "v",
		UID: "them"}
	dead = metav1.OwnerReference{APIVersion: "multicluster.x-k8s.io/v1alpha1", Kind: "AppliedWork", Name: "w",
		UID: "dead"}
	// kinds other than ours are never dead
	foreign = metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "dead"}
)

func live(uid types.UID, deleting bool, references ...metav1.OwnerReference) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	obj.SetName("a")
	obj.SetUID(uid)
	obj.SetOwnerReferences(references)
	if deleting {
		obj.SetDeletionTimestamp(&metav1.Time{})
		obj.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	}
	return obj
}

func isDead(uid types.UID) bool { return uid == "dead" }

func TestDecideDeletion(t *testing.T) {
	listed := func(uid types.UID, applied, terminating bool) []appliedwork.Owner {
		return []appliedwork.Owner{{Name: "v", UID: uid, Applied: applied, Terminating: terminating}}
	}
	tests := []struct {
		name, reason string
		live         *unstructured.Unstructured
		entry        types.UID
		listed       []appliedwork.Owner
		policy       appliedwork.Policy
		want         appliedwork.Decision
	}{
		{name: "ours", reason: "the plain case", live: live("1", false, ours), entry: "1", want: appliedwork.Delete},
		{name: "ours, not confirmed", reason: "a create with a lost answer", live: live("1", false, ours),
			want: appliedwork.Delete},
		{name: "ours, another UID", reason: "re-created with our reference: ours", live: live("2", false, ours), entry: "1",
			want: appliedwork.Delete},
		{name: "absent", reason: "nothing to do", entry: "1", want: appliedwork.Gone},
		{name: "absent, not confirmed", reason: "it was never made", want: appliedwork.Gone},
		{name: "absent, orphan", reason: "a policy changes nothing", entry: "1", policy: appliedwork.PolicyOrphan,
			want: appliedwork.Gone},
		{name: "reference removed", reason: "a user took it over", live: live("1", false), entry: "1",
			want: appliedwork.Release},
		{name: "reference removed, deleting", reason: "the same", live: live("1", true), entry: "1",
			want: appliedwork.Release},
		{name: "never ours", reason: "somebody else created it before us", live: live("1", false), want: appliedwork.Retain},
		{name: "replaced", reason: "deleted and made again by somebody else", live: live("2", false), entry: "1",
			want: appliedwork.Retain},
		{name: "replaced, deleting", reason: "not ours to wait for", live: live("2", true), entry: "1",
			want: appliedwork.Retain},
		{name: "another work's", reason: "no reference to us", live: live("2", false, theirs), entry: "1",
			want: appliedwork.Retain},
		{name: "older incarnation's", reason: "a reference is a UID, not a name", live: live("1", false, dead),
			want: appliedwork.Retain},
		{name: "handed over", reason: "another work owns it too", live: live("1", false, ours, theirs), entry: "1",
			want: appliedwork.Release},
		{name: "handed over, deleting", reason: "only our reference goes", live: live("1", true, ours, theirs), entry: "1",
			want: appliedwork.Release},
		{name: "dead co-owner", reason: "an AppliedWork that is gone has no claim", live: live("1", false, ours, dead),
			entry: "1", want: appliedwork.Delete},
		{name: "foreign co-owner", reason: "alive as far as we know", live: live("1", false, ours, foreign), entry: "1",
			want: appliedwork.Release},
		{name: "intent of another", reason: "it is about to adopt it", live: live("1", false, ours), entry: "1",
			listed: listed("them", false, false), want: appliedwork.Release},
		{name: "applied by another", reason: "an earlier object of the name: it is about to adopt this one",
			live: live("1", false, ours), entry: "1", listed: listed("them", true, false), want: appliedwork.Release},
		{name: "intent of one that ends", reason: "no claim", live: live("1", false, ours), entry: "1",
			listed: listed("them", false, true), want: appliedwork.Delete},
		{name: "listed by ourselves", reason: "that is the entry at hand", live: live("1", false, ours), entry: "1",
			listed: listed("us", true, false), want: appliedwork.Delete},
		{name: "orphan", reason: "the policy says so", live: live("1", false, ours), entry: "1",
			policy: appliedwork.PolicyOrphan, want: appliedwork.Release},
		{name: "orphan, deleting", reason: "our reference goes anyhow", live: live("1", true, ours), entry: "1",
			policy: appliedwork.PolicyOrphan, want: appliedwork.Release},
		{name: "deleting", reason: "an entry stays until its object is gone", live: live("1", true, ours), entry: "1",
			want: appliedwork.Wait},
		{name: "deleting, not confirmed", reason: "the same", live: live("1", true, ours), want: appliedwork.Wait},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			owners := appliedwork.Owners{Self: "us", Listed: test.listed, Dead: isDead}
			if got := appliedwork.DecideDeletion(test.live, entry(configMap("a"), test.entry), owners,
				test.policy); got != test.want {
				t.Errorf("%s, want %s: %s", got, test.want, test.reason)
			}
		})
	}
}

// TestDecideDeletionForEveryInput tests every combination of inputs against the documented rules.
// It states the rules in another order: by the requirements of each decision.
func TestDecideDeletionForEveryInput(t *testing.T) {
	n := 0
	booleans := []bool{false, true}
	for _, exists := range booleans {
		for _, referenced := range booleans {
			for _, traces := range [][]types.UID{nil, {"us"}, {"them"}} {
				for _, recorded := range []types.UID{"", "1", "2"} {
					for _, other := range [][]metav1.OwnerReference{nil, {theirs}, {dead}, {foreign}} {
						for _, listed := range [][]appliedwork.Owner{
							nil, {{UID: "us"}}, {{UID: "them"}}, {{UID: "them", Applied: true, Object: "1"}},
							{{UID: "them", Applied: true, Object: "2"}}, {{UID: "them", Terminating: true}},
						} {
							for _, deleting := range booleans {
								for _, policy := range []appliedwork.Policy{"", appliedwork.PolicyDelete, appliedwork.PolicyOrphan} {
									n++
									checkDecision(t, situation{exists, referenced, deleting, traces, recorded, other, listed, policy})
								}
							}
						}
					}
				}
			}
		}
	}
	if n != 2*2*3*3*4*6*2*3 {
		t.Error(fmt.Sprint(n, " combinations"))
	}
}

type situation struct {
	exists, referenced, deleting bool
	traces                       []types.UID // UIDs of AppliedWorks, in annotations
	recorded                     types.UID
	other                        []metav1.OwnerReference
	listed                       []appliedwork.Owner
	policy                       appliedwork.Policy
}

func checkDecision(t *testing.T, s situation) {
	t.Helper()
	var obj *unstructured.Unstructured
	if s.exists {
		references := s.other
		if s.referenced {
			references = append([]metav1.OwnerReference{ours}, s.other...)
		}
		obj = live("1", s.deleting, references...)
		for _, uid := range s.traces {
			obj.SetAnnotations(map[string]string{v1alpha1.AnnotationAppliedHashPrefix + string(uid): "hash"})
		}
	}
	traceOf := func(uid types.UID) bool { return slices.Contains(s.traces, uid) }
	claimed := len(s.other) > 0 && s.other[0].UID != "dead" || len(s.other) > 0 && s.other[0].Kind == "Deployment"
	if len(s.listed) > 0 && s.listed[0].UID == "them" && !s.listed[0].Terminating {
		letGo := s.listed[0].Object == "1" && !traceOf("them") && (len(s.other) == 0 || s.other[0].UID != "them")
		claimed = claimed || !letGo
	}
	free := s.referenced && !claimed && s.policy != appliedwork.PolicyOrphan
	known := s.recorded == "1" || traceOf("us")
	want := map[bool]appliedwork.Decision{!s.exists: appliedwork.Gone}[true]
	for decision, holds := range map[appliedwork.Decision]bool{
		appliedwork.Delete:  s.exists && free && !s.deleting,
		appliedwork.Wait:    s.exists && free && s.deleting,
		appliedwork.Release: s.exists && (s.referenced && !free || !s.referenced && known),
		appliedwork.Retain:  s.exists && !s.referenced && !known,
	} {
		if holds {
			want = decision
		}
	}
	owners := appliedwork.Owners{Self: "us", Listed: s.listed, Dead: isDead}
	entry := v1alpha1.AppliedResourceMeta{ResourceIdentifier: configMap("a"), UID: s.recorded}
	if got := appliedwork.DecideDeletion(obj, entry, owners, s.policy); got != want {
		t.Errorf("%+v: %s, want %s", s, got, want)
	}
}
