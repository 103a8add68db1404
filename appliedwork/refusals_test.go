// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

func condition(t *testing.T, api *fakeAPI, kind string) *metav1.Condition {
	t.Helper()
	e := &evicted{t: t, api: api}
	return meta.FindStatusCondition(e.main().Status.Conditions, kind)
}

// TestRefusalIsACondition: a refused call sets its condition to False. It does not leave the
// condition of the last successful call.
func TestRefusalIsACondition(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, func(o *appliedwork.Options) { o.MaxShardBytes, o.MaxShards = 1<<10, 1 })
	applier, pruner := appliedwork.NewApplier(tracker), appliedwork.NewPruner(tracker)
	a := manifest("a", "1")
	apply := func(objects ...*unstructured.Unstructured) error {
		_, err := applier.Apply(t.Context(), work, objects, appliedwork.ApplyOptions{})
		return err
	}
	many := []*unstructured.Unstructured{a}
	for _, name := range strings.Split("bcdefghijk", "") {
		many = append(many, manifest(name, "1"))
	}
	for _, test := range []struct {
		condition, reason string
		call              func() error
	}{
		{v1alpha1.ConditionApplied, "Duplicate", func() error { return apply(a, a) }},
		{v1alpha1.ConditionApplied, "InventoryTooLarge", func() error { return apply(many...) }},
		{v1alpha1.ConditionPruned, "EmptyDesired", func() error {
			_, err := pruner.Prune(t.Context(), work, nil, appliedwork.PruneOptions{})
			return err
		}},
	} {
		if err := apply(a); err != nil {
			t.Fatal(err)
		}
		if _, err := pruner.Prune(t.Context(), work, []*unstructured.Unstructured{a}, appliedwork.PruneOptions{}); err != nil {
			t.Fatal(err)
		}
		if c := condition(t, api, test.condition); c == nil || c.Status != metav1.ConditionTrue {
			t.Fatalf("%s: %+v", test.condition, c)
		}
		err := test.call()
		if c := condition(t, api, test.condition); err == nil || c.Status != metav1.ConditionFalse || c.Reason != test.reason || c.Message == "" {
			t.Errorf("%v: %+v, want reason %s", err, c, test.reason)
		}
		before := len(api.writes)
		_ = test.call()
		if n := len(api.writes) - before; n > 0 {
			t.Errorf("%s again: %v", test.reason, api.writes[before:])
		}
	}
}

// TestRefusalBySize: the API server returns an internal error for an object that is too large for
// etcd. The refusal is certain, so it leaves no entry. Other internal errors have an unknown
// outcome.
func TestRefusalBySize(t *testing.T) {
	for _, test := range []struct {
		message string
		entries int
	}{
		{"etcdserver: request is too large", 0},
		{"rpc error: code = ResourceExhausted desc = trying to send message larger than max (2600653 vs. 2097152)", 0},
		{"etcdserver: request timed out", 1},
	} {
		api := newFakeAPI()
		tracker, work := newTracker(t, api, nil)
		api.refuse = func(request *http.Request, _ []byte) *metav1.Status {
			if request.Method != http.MethodPost {
				return nil
			}
			return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: test.message}
		}
		objects := []*unstructured.Unstructured{manifest("a", "1")}
		_, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, objects, appliedwork.ApplyOptions{})
		entries, listErr := tracker.Entries(t.Context(), work)
		if err == nil || listErr != nil || len(entries) != test.entries {
			t.Errorf("%v: %v, %v, want %d entries", err, entries, listErr, test.entries)
		}
	}
}

// TestLongMessage: a shortened message is still valid text, so the stored message equals the
// compared message.
func TestLongMessage(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	for _, name := range []string{strings.Repeat("ü", 600), "x" + strings.Repeat("ü", 600)} {
		nameless := object(`{"kind":"Part","metadata":{"name":%q}}`, name) // no apiVersion
		apply := func() {
			if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{nameless}, appliedwork.ApplyOptions{}); !errors.Is(err, appliedwork.ErrInvalidObject) {
				t.Fatal(err)
			}
		}
		apply()
		before := len(api.writes)
		apply()
		if n := len(api.writes) - before; n > 0 {
			t.Errorf("%d writes for the same refusal", n)
		}
	}
}

// TestStringData: a Secret is sent in the form that the API server stores, so an unchanged Secret
// compares as equal.
func TestStringData(t *testing.T) {
	api := newFakeAPI()
	api.kinds["v1"].APIResources = append(api.kinds["v1"].APIResources, metav1.APIResource{Name: "secrets", Kind: "Secret", Namespaced: true})
	tracker, work := newTracker(t, api, nil)
	secret := object(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"s"},"data":{"a":"YQ=="},"stringData":{"b":"secret-b"}}`)
	bad := object(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"bad"},"stringData":{"b":{"secret-c":"secret-d"}}}`)
	changes, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{secret, bad}, appliedwork.ApplyOptions{})
	if changes.String() != "1 created, 1 failed" || !errors.Is(err, appliedwork.ErrInvalidObject) || strings.Contains(err.Error(), "secret-") {
		t.Errorf("%v, %v: the error must not have what is in it", changes, err)
	}
	stored := &unstructured.Unstructured{Object: api.objects["/api/v1/namespaces/shop/secrets/s"]}
	data, _, _ := unstructured.NestedStringMap(stored.Object, "data")
	if data["a"] != "YQ==" || data["b"] != base64.StdEncoding.EncodeToString([]byte("secret-b")) || stored.Object["stringData"] != nil {
		t.Errorf("%v", stored.Object)
	}
	if _, there, _ := unstructured.NestedMap(secret.Object, "stringData"); !there {
		t.Error("the caller's object was changed")
	}
}

// TestRulesOfEntriesWithoutAResource: an orphaning rule names a resource. It also applies to an
// entry without a resource.
func TestRulesOfEntriesWithoutAResource(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{manifest("a", "1")}, appliedwork.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	entries, err := tracker.Entries(t.Context(), work)
	if err != nil {
		t.Fatal(err)
	}
	entries[0].Resource = ""
	if err := tracker.RecordApplied(t.Context(), work, entries...); err != nil {
		t.Fatal(err)
	}
	policies := appliedwork.Policies{Default: appliedwork.PolicySelectivelyOrphan, Orphans: []appliedwork.OrphanRule{{Resource: "configmaps", Namespace: "shop", Name: "a"}}}
	changes, err := appliedwork.NewCollector(tracker).Teardown(t.Context(), work, appliedwork.TeardownOptions{Policies: policies})
	if err != nil || changes.String() != "1 released" || api.count("configmaps") != 1 {
		t.Errorf("%v, %v", changes, err)
	}
}
