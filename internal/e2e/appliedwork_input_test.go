// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// TestAppliedWorkInput checks unexpected content of works. The checks share a cluster.
func TestAppliedWorkInput(t *testing.T) {
	t.Parallel()
	g := newGround(t, groundOptions{})
	g.create(namespaceOf("input"))
	for _, c := range []struct {
		name  string
		check func(*testing.T, *ground)
	}{
		{"Kinds", checkKinds}, {"SecretKeys", checkSecretKeys}, {"Odd", checkOdd}, {"NewVersion", checkNewVersion},
		{"DesiredOfCRD", checkDesiredOfCRD},
		{"Passes", checkPasses}, {"WaitWithCRD", checkWaitWithCRD}, {"CRDAgain", checkCRDAgain},
		{"OwnInventory", checkOwnInventory},
		{"NullFields", checkNullFields},
	} {
		t.Run(c.name, func(t *testing.T) {
			shared := *g
			shared.t = t
			c.check(t, &shared)
		})
	}
}

// manyKinds reads manifests of many kinds, one per line.
func manyKinds(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile("testdata/kinds.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for line := range strings.Lines(string(content)) {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON([]byte(line)); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		objects = append(objects, obj)
	}
	return objects
}

// checkKinds applies manifests of many kinds as people write them. Unchanged objects are reported
// as unchanged, and cost no write.
func checkKinds(t *testing.T, g *ground) {
	x := g.plain(nil)
	work, objects := x.ensure(t, "kinds"), manyKinds(t)
	want(t, x.apply(t, work, objects...), fmt.Sprint(len(objects), " created"))
	changes, writes := (*appliedwork.ChangeSet)(nil), 0
	for range 2 {
		before := writesOf(t, g, work)
		changes = x.apply(t, work, objects...)
		writes = writesOf(t, g, work) - before
		// A false or empty value that the server does not store is written once more, and is
		// unchanged from then on.
		if n := changes.Count(appliedwork.ActionConfigured); n > 3 {
			t.Errorf("%d objects configured: %v", n, changes)
		}
	}
	want(t, changes, fmt.Sprint(len(objects), " unchanged"))
	if writes != 0 {
		t.Errorf("%d writes for what is unchanged", writes)
	}
}

// writesOf counts the write requests of our helpers for a work.
func writesOf(t *testing.T, g *ground, work *v1alpha1.AppliedWork) int {
	t.Helper()
	content, err := os.ReadFile(g.audit)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(content), "fieldManager=appliedwork-"+string(work.UID)) +
		strings.Count(string(content), "/appliedworks/"+work.Name+"/status")
}

// checkSecretKeys: a key that is removed from stringData is removed from the Secret.
func checkSecretKeys(t *testing.T, g *ground) {
	x := g.plain(nil)
	work := x.ensure(t, "secret-keys")
	secret := func(texts string) *unstructured.Unstructured {
		return parsed(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"input","name":"keys"},"stringData":%s}`,
			rawJSON(texts))
	}
	want(t, x.apply(t, work, secret(`{"a":"1","b":"2"}`)), "1 created")
	want(t, x.apply(t, work, secret(`{"a":"1","b":"2"}`)), "1 unchanged")
	want(t, x.apply(t, work, secret(`{"a":"1"}`)), "1 configured")
	live, err := g.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("input").Get(
		t.Context(), "keys", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if data, _, _ := unstructured.NestedMap(live.Object, "data"); len(data) != 1 || data["a"] == nil {
		t.Errorf("keys %d", len(data))
	}
}

// rawJSON is JSON that %s formats unchanged.
type rawJSON string

// checkOdd: an object that cannot be applied is an error with the object and the reason, and leaves
// nothing behind.
func checkOdd(t *testing.T, g *ground) {
	x := g.plain(func(o *appliedwork.Options) { o.IntentGrace = time.Nanosecond })
	work := x.ensure(t, "odd")
	for _, test := range []struct{ manifest, want string }{
		{`{"apiVersion":"v1","kind":"List","items":[]}`, "give each of its items"},
		{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"../x","namespace":"input"}}`, "may not contain '/'"},
		{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"no/where"}}`, "may not contain '/'"},
		{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ünï<ö>","namespace":"input"}}`, "RFC 1123"},
		{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + strings.Repeat("a", 300) + `","namespace":"input"}}`,
			"no more than 253"},
		{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"nowhere"}}`,
			`namespaces "nowhere" not found`},
		{`{"apiVersion":"apps/v1beta1","kind":"Deployment","metadata":{"name":"x","namespace":"input"}}`,
			"does not serve version v1beta1 of Deployment.apps, but serves v1"},
		{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"input","labels":{"a":1}}}`,
			"metadata.labels"},
		{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"input","ownerReferences":"a"}}`,
			"metadata.ownerReferences"},
		{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"input","ownerReferences":[1]}}`,
			"metadata.ownerReferences"},
		{`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","namespace":"input"},"stringData":{"a":7}}`,
			"stringData is no map of strings"},
	} {
		changes, err := x.applier.Apply(t.Context(), work, []*unstructured.Unstructured{parsed("%s", rawJSON(test.manifest))},
			appliedwork.ApplyOptions{})
		if err == nil || !strings.Contains(err.Error(), test.want) || changes.String() != "1 failed" {
			t.Errorf("%s: %v, %v, want %q", test.manifest, changes, err, test.want)
		}
	}
	eventually(t, "no entry is left", func() error {
		changes, err := x.pruner.Prune(t.Context(), work, nil, appliedwork.PruneOptions{AllowEmpty: true})
		entries, entriesErr := x.tracker.Entries(t.Context(), work)
		if len(entries) > 0 || !changes.Done() {
			return fmt.Errorf("%v, %v, %w", changes.Entries, entries, errors.Join(err, entriesErr))
		}
		return errors.Join(err, entriesErr)
	})
}

func partCRD(group string, versions ...string) *unstructured.Unstructured {
	crd := parsed(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"parts.%[1]s"},
		"spec":{"group":"%[1]s","scope":"Namespaced","names":{"plural":"parts","singular":"part","kind":"Part","listKind":"PartList"}}}`, group)
	var list []any
	for i, v := range versions {
		list = append(list, map[string]any{"name": v, "served": true, "storage": i == 0,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}})
	}
	_ = unstructured.SetNestedSlice(crd.Object, list, "spec", "versions")
	return crd
}

func partOf(group, version, name string) *unstructured.Unstructured {
	return parsed(`{"apiVersion":"%s/%s","kind":"Part","metadata":{"namespace":"input","name":%q}}`, group, version, name)
}

// checkNewVersion: one apply of a work updates its CRD to a new version, with objects of that
// version.
func checkNewVersion(t *testing.T, g *ground) {
	x := g.plain(nil)
	work := x.ensure(t, "new-version")
	const group = "versions.example.com"
	want(t, x.apply(t, work, partCRD(group, "v1"), partOf(group, "v1", "p")), "2 created")
	changes := x.apply(t, work, partCRD(group, "v1", "v2"), partOf(group, "v2", "p"))
	if n := changes.Count(appliedwork.ActionConfigured); n != 2 {
		t.Errorf("%v", changes.Entries)
	}
}

// checkDesiredOfCRD: a work that loses the manifest of a CRD does not lose the CRD's objects that
// it still wants.
func checkDesiredOfCRD(t *testing.T, g *ground) {
	x := g.plain(nil)
	work := x.ensure(t, "desired-of-crd")
	const group = "desired.example.com"
	crd, part := partCRD(group, "v1"), partOf(group, "v1", "p")
	x.apply(t, work, crd, part)
	changes, err := x.pruner.Prune(t.Context(), work, []*unstructured.Unstructured{part}, appliedwork.PruneOptions{})
	var blocked *appliedwork.PruneBlockedError
	if !errors.As(err, &blocked) || blocked.Reason != appliedwork.BlockReasonCRDInUse || g.get(crd) == nil {
		t.Errorf("%v, %v", changes.Entries, err)
	}
	if changes, err = x.pruner.Prune(t.Context(), work, nil, appliedwork.PruneOptions{AllowEmpty: true}); err != nil {
		t.Errorf("%v, %v", changes.Entries, err)
	}
	g.eventuallyGone(t, crd)
}

// checkPasses: the loop of Teardown and WaitGone ends, although an object with a finalizer keeps
// its namespace until the next pass.
func checkPasses(t *testing.T, g *ground) {
	x := g.plain(nil)
	work := x.ensure(t, "passes")
	ns, held := namespaceOf("passes"), configMapOf("passes", "held", "1")
	held.SetFinalizers([]string{holdFinalizer})
	x.apply(t, work, ns, held)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	let := func() {
		if _, err := g.at(held).Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
	for pass := 0; ; pass++ {
		changes, err := x.collector.Teardown(ctx, work, appliedwork.TeardownOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if changes.Done() {
			break
		}
		if pass == 0 {
			want(t, changes, "2 pending")
			let()
		}
		if err := x.collector.WaitGone(ctx, work); err != nil {
			t.Fatal(err)
		}
	}
	g.eventuallyGone(t, ns, parsed(`{"kind":"AppliedWork","metadata":{"name":"passes"}}`))
}

// checkWaitWithCRD: only an AppliedWork is deleted, and then its CRD and the objects of the CRD are
// deleted.
func checkWaitWithCRD(t *testing.T, g *ground) {
	x := g.plain(nil)
	work := x.ensure(t, "wait-with-crd")
	const group = "wait.example.com"
	crd, part := partCRD(group, "v1"), partOf(group, "v1", "p")
	x.apply(t, work, crd, part, configMapOf("input", "wait", "1"))
	entries, err := x.tracker.Entries(t.Context(), work)
	if err != nil {
		t.Fatal(err)
	}
	work.Status.AppliedResources = entries
	if err := g.admin.Resource(v1alpha1.GroupVersionResource).Delete(t.Context(), work.Name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := x.collector.WaitGone(ctx, work); err != nil || g.get(crd) != nil ||
		g.get(configMapOf("input", "wait", "1")) != nil {
		t.Errorf("%v, CRD %v", err, g.get(crd) != nil)
	}
	// The state of a kind is unknown if it is not served and the work does not have its CRD.
	work.Status.AppliedResources = entries[1:2]
	if entries[1].Kind != "Part" {
		t.Fatalf("%v", entries)
	}
	var notServed *appliedwork.TypeNotServedError
	if err := x.collector.WaitGone(ctx, work); !errors.As(err, &notServed) {
		t.Error(err)
	}
}

// checkCRDAgain: when EnsureCRD returns, an AppliedWork can be created, even if the CRD was
// terminating.
func checkCRDAgain(t *testing.T, g *ground) {
	x := g.plain(nil)
	crds := g.admin.Resource(v1alpha1.CRDResource)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for i := range 5 {
		if err := crds.Delete(ctx, v1alpha1.CRDName, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := v1alpha1.EnsureCRD(ctx, crds); err != nil {
			t.Fatal(err)
		}
		if _, err := x.tracker.Ensure(ctx, fmt.Sprint("again-", i),
			v1alpha1.AppliedWorkSpec{WorkName: "w", WorkNamespace: "n"}); err != nil {
			t.Errorf("right after EnsureCRD: %v", err)
		}
	}
}

// checkOwnInventory: a work does not own its own AppliedWork or a shard of its AppliedWork.
func checkOwnInventory(t *testing.T, g *ground) {
	x := g.plain(nil)
	work := x.ensure(t, "own-inventory")
	self := func(name, labels string) *unstructured.Unstructured {
		return parsed(`{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"AppliedWork","metadata":{"name":%q,"labels":{%s}},
			"spec":{"workName":"own-inventory","workNamespace":"cluster1"}}`, name, labels)
	}
	a := configMapOf("input", "own-inventory", "1")
	policies := appliedwork.Policies{Adopted: appliedwork.PolicyDelete}
	shard := fmt.Sprintf("%q:%q", v1alpha1.LabelShardOf, work.UID)
	changes, err := x.applier.Apply(t.Context(), work, objects(self(work.Name, ""), self("a-shard", shard), a),
		appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionAlways, Policies: policies})
	if !errors.Is(err, appliedwork.ErrInvalidObject) || !strings.Contains(err.Error(), "own itself") {
		t.Error(err)
	}
	want(t, changes, "1 created, 2 failed")
	if live := g.get(self(work.Name, "")); appliedwork.IsOwnedBy(live, work.UID) {
		t.Errorf("it owns itself: %v", live.GetOwnerReferences())
	}
}

// checkNullFields: null values, as templates produce them, have the same result as with a direct
// create or apply.
func checkNullFields(t *testing.T, g *ground) {
	x := g.plain(nil)
	work := x.ensure(t, "null-fields")
	for i, c := range []struct{ kind, metadata, content string }{
		{"ConfigMap", `"labels":null`, `"data":{"a":"b"}`}, {"ConfigMap", `"annotations":null`, `"data":null`},
		{"ConfigMap", `"labels":{"a":null,"b":"c"}`, `"data":{"a":null}`},
		{"ConfigMap", `"annotations":{"a":null,"b":"c"}`, `"data":{}`},
		{"ConfigMap", `"ownerReferences":null,"finalizers":null`, `"data":{"a":"b"}`},
		{"Secret", `"labels":null`, `"data":null,"stringData":{"a":"b"}`},
		{"Secret", `"labels":null`, `"data":{"b":"MQ=="},"stringData":null`},
		{"Secret", `"labels":null`, `"data":{"b":null},"stringData":{"a":null}`},
		{"Gadget", `"labels":{"a":null}`, `"data":null`},
	} {
		version := map[string]string{"Gadget": "example.com/v1"}[c.kind]
		of := func(name string) *unstructured.Unstructured {
			return parsed(`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":"input","name":"null-%s-%d",%s},%s}`,
				cmp.Or(version, "v1"), c.kind, rawJSON(name), i, rawJSON(c.metadata), rawJSON(c.content))
		}
		client := g.at(of(""))
		if c.kind == "Secret" {
			client = g.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("input")
		}
		created, err := client.Create(t.Context(), of("created"),
			metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			t.Fatal(err)
		}
		applied, err := client.Apply(t.Context(), of("applied").GetName(), of("applied"),
			metav1.ApplyOptions{FieldManager: "kubectl"})
		if err != nil {
			t.Fatal(err)
		}
		ours := of("ours")
		want(t, x.apply(t, work, ours), "1 created")
		_ = x.apply(t, work, ours) // as for false and empty values
		want(t, x.apply(t, work, ours), "1 unchanged")
		live, err := client.Get(t.Context(), ours.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		annotations := live.GetAnnotations()
		delete(annotations, v1alpha1.AnnotationAppliedHashPrefix+string(work.UID))
		live.SetAnnotations(annotations)
		text := func(obj *unstructured.Unstructured) string {
			return fmt.Sprint("annotations ", obj.GetAnnotations(), ", labels ", obj.GetLabels(), ", data ", obj.Object["data"])
		}
		if text(live) != text(created) || text(live) != text(applied) {
			t.Errorf("%v: %s; created: %s; applied: %s", c, text(live), text(created), text(applied))
		}
	}
	kept := parsed(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"input","name":"null-kept","annotations":{"a":null,%q:"disabled"}}}`, v1alpha1.AnnotationPrune)
	want(t, x.apply(t, work, kept), "1 created")
	if live := g.get(kept); len(live.GetOwnerReferences()) > 0 {
		t.Errorf("an object that a user keeps has an owner: %v", live)
	}
}
