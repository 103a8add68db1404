// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// denying fails requests of a client before the API server sees them, as an authorizer does.
func (g *ground) denying(name string, deny func(*http.Request) bool) tools {
	config := g.Config()
	config.UserAgent = agentPrefix + name
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !deny(r) {
				return next.RoundTrip(r)
			}
			return forbidden(), nil
		})
	})
	return g.tools(config, nil)
}

// forbidden returns the response of an authorizer that denies a request.
func forbidden() *http.Response {
	answer := httptest.NewRecorder()
	answer.Header().Set("Content-Type", "application/json")
	answer.WriteHeader(http.StatusForbidden)
	_, _ = answer.WriteString(
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"denied"}`)
	return answer.Result()
}

// unavailable returns the response of a proxy that does not reach the API server.
func unavailable() *http.Response {
	answer := httptest.NewRecorder()
	answer.Header().Set("Retry-After", "1")
	answer.WriteHeader(http.StatusServiceUnavailable)
	return answer.Result()
}

// checkRefusedApply: an object that a work must not have is not recorded for the work, so another
// work that owns the object still deletes it.
func checkRefusedApply(t *testing.T, g *ground) {
	g.create(namespaceOf("refused"))
	a := configMapOf("refused", "a", "1")
	older := g.plain(nil)
	first := older.ensure(t, "refused-1")
	want(t, older.apply(t, first, a), "1 created")
	entries := func(t *testing.T, x tools, work *v1alpha1.AppliedWork) int {
		t.Helper()
		list, err := x.tracker.Entries(t.Context(), work)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}

	t.Run("renamed work", func(t *testing.T) {
		x := g.agent("renamed", nil)
		renamed := x.ensure(t, "refused-2")
		var refused *appliedwork.AdoptionError
		if _, err := x.applier.Apply(t.Context(), renamed, objects(a), appliedwork.ApplyOptions{}); !errors.As(err,
			&refused) {
			t.Fatal(err)
		}
		if n := entries(t, x, renamed); n != 0 {
			t.Errorf("%d entries after a refused adoption", n)
		}
		if _, err := older.collector.Teardown(t.Context(), first, appliedwork.TeardownOptions{}); err != nil {
			t.Fatal(err)
		}
		g.eventuallyGone(t, a)
		want(t, x.apply(t, renamed, a), "1 created")
	})
	t.Run("refused create", func(t *testing.T) {
		denied := true
		x := g.denying("denied", func(r *http.Request) bool {
			return denied && r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/configmaps")
		})
		work := x.ensure(t, "refused-3")
		b := configMapOf("refused", "b", "1")
		if _, err := x.applier.Apply(t.Context(), work, objects(b), appliedwork.ApplyOptions{}); !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		if n := entries(t, x, work); n != 0 {
			t.Errorf("%d entries after a refused create", n)
		}
		denied = false
		want(t, x.apply(t, work, b), "1 created")
		denied = true
		if _, err := x.applier.Apply(t.Context(), work, objects(b), appliedwork.ApplyOptions{}); err != nil {
			t.Error(err)
		}
		if n := entries(t, x, work); n != 1 {
			t.Errorf("%d entries of an object that was applied before", n)
		}
	})
	t.Run("lost answer", func(t *testing.T) {
		x := g.losing("lost", func(r *http.Request) bool {
			return r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/configmaps")
		})
		work := x.ensure(t, "refused-4")
		c := configMapOf("refused", "c", "1")
		if _, err := x.applier.Apply(t.Context(), work, objects(c), appliedwork.ApplyOptions{}); err == nil {
			t.Fatal("the answer was not lost")
		}
		if n := entries(t, x, work); n != 1 {
			t.Errorf("%d entries of an object whose create had an unknown outcome", n)
		}
	})
	t.Run("namespace", func(t *testing.T) {
		home, inside := namespaceOf("refused-home"), configMapOf("refused-home", "a", "1")
		owner := g.agent("owner", nil)
		work := owner.ensure(t, "refused-5")
		want(t, owner.apply(t, work, home), "1 created")
		g.create(inside)
		x := g.agent("guest", nil)
		guest := x.ensure(t, "refused-6")
		if _, err := x.applier.Apply(t.Context(), guest, objects(inside), appliedwork.ApplyOptions{}); err == nil {
			t.Fatal("the object was adopted")
		}
		opts := appliedwork.PruneOptions{AllowEmpty: true,
			Policies: appliedwork.Policies{Unmanaged: appliedwork.PolicyDelete}}
		changes, err := owner.pruner.Prune(t.Context(), work, nil, opts)
		if err != nil || changes.Count(appliedwork.ActionBlocked) > 0 {
			t.Errorf("the refused object blocks its namespace: %v, %v", changes, err)
		}
	})
}

func objects(list ...*unstructured.Unstructured) []*unstructured.Unstructured { return list }

// losing returns tools that lose some responses.
func (g *ground) losing(name string, lose func(*http.Request) bool) tools {
	config := g.Config()
	config.UserAgent = agentPrefix + name
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if err != nil || !lose(r) {
				return answer, err
			}
			_ = answer.Body.Close()
			return nil, errors.New("the answer was lost")
		})
	})
	return g.tools(config, nil)
}

// checkWaitGoneAfterwards: WaitGone with the AppliedWork that Ensure returned, which has no
// inventory, waits for the objects even if the AppliedWork is gone already.
func checkWaitGoneAfterwards(t *testing.T, g *ground) {
	g.create(namespaceOf("afterwards"))
	x := g.plain(nil)
	work := x.ensure(t, "afterwards")
	held := configMapOf("afterwards", "held", "1")
	held.SetFinalizers([]string{"example.com/held"})
	want(t, x.apply(t, work, held, configMapOf("afterwards", "free", "1")), "2 created")
	if err := g.admin.Resource(v1alpha1.GroupVersionResource).Delete(t.Context(), work.Name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	g.eventuallyGone(t, parsed(`{"kind":"AppliedWork","metadata":{"name":"afterwards"}}`))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := x.collector.WaitGone(ctx, work); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("WaitGone returned %v while an object is there", err)
	}
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := g.at(held).Patch(t.Context(), "held", "application/merge-patch+json", patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := x.collector.WaitGone(ctx, work); err != nil || g.get(held) != nil {
		t.Error(err)
	}
}

// checkDetached: an object without our owner reference has no other mark of ours after a release.
func checkDetached(t *testing.T, g *ground) {
	g.create(namespaceOf("detached"))
	x := g.plain(nil)
	work := x.ensure(t, "detached")
	a := configMapOf("detached", "a", "1")
	want(t, x.apply(t, work, a), "1 created")
	live := g.get(a)
	live.SetOwnerReferences(nil)
	if _, err := g.at(a).Update(t.Context(), live, metav1.UpdateOptions{FieldManager: "user"}); err != nil {
		t.Fatal(err)
	}
	changes, err := x.pruner.Prune(t.Context(), work, nil, appliedwork.PruneOptions{AllowEmpty: true})
	if err != nil {
		t.Fatal(err)
	}
	want(t, changes, "1 released")
	live = g.get(a)
	if text := fmt.Sprint(live.GetAnnotations(), live.GetManagedFields()); strings.Contains(text, string(work.UID)) {
		t.Errorf("traces of the AppliedWork: %s", text)
	}
	y := g.agent("next", nil)
	next := y.ensure(t, "detached-next")
	_, err = y.applier.Apply(t.Context(), next, objects(configMapOf("detached", "a", "2")),
		appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionIfUnowned})
	if err != nil {
		t.Errorf("a released object has conflicts with its last AppliedWork: %v", err)
	}
}

// checkFieldConflict: without Force, a field of another manager is a reported conflict, and the
// other fields are applied.
func checkFieldConflict(t *testing.T, g *ground) {
	g.create(namespaceOf("fields"))
	x := g.plain(nil)
	work := x.ensure(t, "fields")
	a := parsed(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"fields","name":"a"},"data":{"ours":"1","theirs":"1"}}`)
	want(t, x.apply(t, work, a), "1 created")
	live := g.get(a)
	_ = unstructured.SetNestedField(live.Object, "changed", "data", "theirs")
	if _, err := g.at(a).Update(t.Context(), live, metav1.UpdateOptions{FieldManager: "user"}); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"2", "3"} {
		a = parsed(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"fields","name":"a"},"data":{"ours":%q,"theirs":%q}}`, value, value)
		changes, err := x.applier.Apply(t.Context(), work, objects(a), appliedwork.ApplyOptions{})
		var conflict *appliedwork.OwnershipConflictError
		if !errors.As(err, &conflict) || !strings.Contains(err.Error(), ".data.theirs") ||
			strings.Contains(err.Error(), ".data.ours") {
			t.Fatalf("%v, %v", changes, err)
		}
		data, _, _ := unstructured.NestedStringMap(g.get(a).Object, "data")
		if data["ours"] != value || data["theirs"] != "changed" {
			t.Errorf("data = %v after an apply of %s", data, value)
		}
	}
	before := g.get(a).GetResourceVersion()
	if _, err := x.applier.Apply(t.Context(), work, objects(a), appliedwork.ApplyOptions{}); err == nil {
		t.Error("the conflict is not reported again")
	}
	if after := g.get(a).GetResourceVersion(); after != before {
		t.Errorf("an apply that changes nothing has written: %s, %s", before, after)
	}
	if _, err := x.applier.Apply(t.Context(), work, objects(a), appliedwork.ApplyOptions{Force: true}); err != nil {
		t.Error(err)
	}
	want(t, x.apply(t, work, a), "1 unchanged")
}

// checkFirstWrite: the first write refuses everything that an apply refuses.
func checkFirstWrite(t *testing.T, g *ground) {
	g.create(namespaceOf("first"))
	x := g.plain(nil)
	work := x.ensure(t, "first")
	pod := func(name, more string) *unstructured.Unstructured {
		return parsed(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"first","name":%q},"spec":{"automountServiceAccountToken":false,
			"containers":[{"name":"c","image":"i"%s}]}}`, name, more)
	}
	g.create(parsed(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"namespace":"first","name":"default"}}`))
	for name, obj := range map[string]*unstructured.Unstructured{
		"unknown field":   pod("unknown", `,"imagePullPolcy":"Always"`),
		"same name twice": pod("twice", `,"env":[{"name":"A","value":"1"},{"name":"A","value":"2"}]`),
		"unknown metadata": parsed(
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"first","name":"m","label":{}}}`),
	} {
		_, err := x.applier.Apply(t.Context(), work, objects(obj), appliedwork.ApplyOptions{})
		if err == nil || g.get(obj) != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := pod("good", `,"env":[{"name":"A","value":"1"},{"name":"B","value":"1"}],"ports":[{"containerPort":80},{"containerPort":80,"protocol":"UDP"}]`)
	want(t, x.apply(t, work, good), "1 created")
}

// checkRecreated: an object that is deleted and created again between read and apply is read again.
func checkRecreated(t *testing.T, g *ground) {
	g.create(namespaceOf("recreated"))
	a := configMapOf("recreated", "a", "2")
	recreate := func() {}
	config := g.Config()
	config.UserAgent = agentPrefix + "recreated"
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/configmaps/a") {
				recreate()
			}
			return next.RoundTrip(r)
		})
	})
	x := g.tools(config, nil)
	work := x.ensure(t, "recreated")
	want(t, x.apply(t, work, configMapOf("recreated", "a", "1")), "1 created")
	want(t, x.apply(t, work, configMapOf("recreated", "a", "3")), "1 configured")
	recreate = func() {
		recreate = func() {}
		live := g.get(a)
		if err := g.at(a).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		fresh := configMapOf("recreated", "a", "1")
		fresh.SetOwnerReferences(live.GetOwnerReferences())
		g.create(fresh)
	}
	if _, err := x.applier.Apply(t.Context(), work, objects(a), appliedwork.ApplyOptions{Force: true}); err != nil {
		t.Error(err)
	}
	if value, _, _ := unstructured.NestedString(g.get(a).Object, "data", "value"); value != "2" {
		t.Errorf("value %q", value)
	}
}

// checkLargeAnnotations: an object with annotations that leave no room for ours is still applied.
func checkLargeAnnotations(t *testing.T, g *ground) {
	g.create(namespaceOf("annotations"))
	x := g.plain(nil)
	work := x.ensure(t, "annotations")
	large := func(value string) *unstructured.Unstructured {
		obj := configMapOf("annotations", "large", value)
		obj.SetAnnotations(map[string]string{"example.com/large": strings.Repeat("x", 256<<10-17)})
		return obj
	}
	want(t, x.apply(t, work, large("1")), "1 created")
	x.apply(t, work, large("1")) // the fields of the create become those of an apply
	want(t, x.apply(t, work, large("1")), "1 unchanged")
	want(t, x.apply(t, work, large("2")), "1 configured")
	before := g.get(large("2")).GetResourceVersion()
	want(t, x.apply(t, work, large("2")), "1 unchanged")
	if g.get(large("2")).GetResourceVersion() != before {
		t.Error("an unchanged object was written")
	}
}

// checkAnnotationBrink: an object with annotations that almost leave no room for ours is not
// written again while nothing changes.
func checkAnnotationBrink(t *testing.T, g *ground) {
	g.create(namespaceOf("brink"))
	x := g.plain(nil)
	work := x.ensure(t, "brink")
	for free := 60; free <= 340; free += 10 {
		obj := configMapOf("brink", fmt.Sprint("free-", free), "1")
		const name = "example.com/large"
		obj.SetAnnotations(map[string]string{name: strings.Repeat("x", 256<<10-len(name)-free)})
		x.apply(t, work, obj)
		x.apply(t, work, obj) // the fields of the create become those of an apply
		before := g.get(obj).GetResourceVersion()
		for range 2 {
			want(t, x.apply(t, work, obj), "1 unchanged")
		}
		if live := g.get(obj); live.GetResourceVersion() != before {
			t.Errorf("with %d bytes left an unchanged object was written", free)
		}
	}
}

// checkProtected: the CRD of AppliedWork and the cluster's own namespaces get no owner reference and are not deleted.
func checkProtected(t *testing.T, g *ground) {
	x := g.plain(nil)
	work := x.ensure(t, "protected")
	crd := g.get(parsed(`{"kind":"CustomResourceDefinition","metadata":{"name":"appliedworks.multicluster.x-k8s.io"}}`))
	manifest := parsed(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"appliedworks.multicluster.x-k8s.io"}}`)
	manifest.Object["spec"] = crd.Object["spec"]
	_, err := x.applier.Apply(t.Context(), work, objects(manifest),
		appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionAlways, Force: true})
	if err != nil {
		t.Fatal(err)
	}
	if live := g.get(manifest); appliedwork.IsOwnedBy(live, work.UID) {
		live.SetOwnerReferences(nil)
		if _, err := g.at(live).Update(t.Context(), live, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
		t.Fatal("the AppliedWork owns its own CRD")
	}
	if _, err := x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{}); err != nil {
		t.Error(err)
	}
	if live := g.get(manifest); live == nil || live.GetDeletionTimestamp() != nil {
		t.Error("the CRD of AppliedWork was deleted")
	}
}

// checkProtectedKeys: an object is protected even if an entry, a manifest or the option has a
// namespace for its cluster-scoped kind, or if an entry has no kind.
func checkProtectedKeys(t *testing.T, g *ground) {
	const inEntry, inManifest, inOption, noKind = "protected-entry", "protected-manifest", "protected-option",
		"protected-kind"
	x := g.plain(func(o *appliedwork.Options) {
		o.Protected = []appliedwork.Key{
			{Kind: "Namespace", Name: inEntry}, {Kind: "Namespace", Name: inManifest},
			{Kind: "Namespace", Namespace: "default", Name: inOption},
			{Kind: "Namespace", Name: noKind},
		}
	})
	work := x.ensure(t, "protected-keys")
	namespaced := namespaceOf(inManifest)
	namespaced.SetNamespace("default")
	x.apply(t, work, namespaced)
	record := func(name string, id v1alpha1.ResourceIdentifier) {
		t.Helper()
		obj := namespaceOf(name)
		appliedwork.SetOwnerReference(obj, work)
		id.Version, id.Resource, id.Name = "v1", "namespaces", name
		if err := x.tracker.RecordApplied(t.Context(), work,
			v1alpha1.AppliedResourceMeta{ResourceIdentifier: id, UID: g.create(obj).GetUID()}); err != nil {
			t.Fatal(err)
		}
	}
	record(inEntry, v1alpha1.ResourceIdentifier{Kind: "Namespace", Namespace: "default"})
	record(inOption, v1alpha1.ResourceIdentifier{Kind: "Namespace"})
	record(noKind, v1alpha1.ResourceIdentifier{})
	plan, _ := x.pruner.Plan(t.Context(), work, nil, appliedwork.PruneOptions{AllowEmpty: true})
	want(t, plan, "1 released, 3 blocked")
	for range 2 {
		changes, err := x.pruner.Prune(t.Context(), work, nil, appliedwork.PruneOptions{AllowEmpty: true})
		if err == nil {
			t.Errorf("protected objects are not blocked: %v", changes.Entries)
		}
	}
	for range 2 {
		if changes, err := x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{}); err != nil {
			t.Errorf("%v, %v", changes.Entries, err)
		}
	}
	for _, name := range []string{inEntry, inManifest, inOption, noKind} {
		if live := g.get(namespaceOf(name)); live == nil || live.GetDeletionTimestamp() != nil {
			t.Errorf("%s was deleted", name)
		}
	}
}
