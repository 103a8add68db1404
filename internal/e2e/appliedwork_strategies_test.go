// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// checkStrategies: CreateOnly and ReadOnly do not change existing objects.
func checkStrategies(t *testing.T, g *ground) {
	g.create(namespaceOf("strategies"))
	x := g.plain(nil)
	work := x.ensure(t, "strategies")
	key := appliedwork.Key{Kind: "ConfigMap", Namespace: "strategies", Name: "a"}
	apply := func(value string, strategy appliedwork.Strategy, change func(*appliedwork.ApplyOptions)) appliedwork.Change {
		t.Helper()
		opts := appliedwork.ApplyOptions{ByKey: map[appliedwork.Key]appliedwork.ObjectOptions{key: {Strategy: strategy}}}
		if change != nil {
			change(&opts)
		}
		changes, err := x.applier.Apply(t.Context(), work, objects(configMapOf("strategies", "a", value)), opts)
		if err != nil {
			t.Fatal(err)
		}
		return changes.Entries[0]
	}
	is := func(value string, owned bool) {
		t.Helper()
		live := g.get(configMapOf("strategies", "a", ""))
		if got, _, _ := unstructured.NestedString(live.Object, "data", "value"); got != value ||
			appliedwork.IsOwnedBy(live, work.UID) != owned {
			t.Errorf("value %q, owners %v", got, live.GetOwnerReferences())
		}
	}
	if c := apply("1", appliedwork.StrategyReadOnly, nil); c.Action != appliedwork.ActionRetained || c.Live != nil {
		t.Errorf("ReadOnly of an absent object: %+v", c)
	}
	if c := apply("1", appliedwork.StrategyCreateOnly, nil); c.Action != appliedwork.ActionCreated {
		t.Errorf("CreateOnly of an absent object: %+v", c)
	}
	if c := apply("2", appliedwork.StrategyCreateOnly, nil); c.Action != appliedwork.ActionUnchanged || c.Live == nil {
		t.Errorf("CreateOnly again: %+v", c)
	}
	is("1", true)
	orphan := func(o *appliedwork.ApplyOptions) { o.Policies.Default = appliedwork.PolicyOrphan }
	if c := apply("2", appliedwork.StrategyCreateOnly, orphan); c.Action != appliedwork.ActionConfigured {
		t.Errorf("CreateOnly with another policy: %+v", c)
	}
	is("1", false)
	if c := apply("2", appliedwork.StrategyCreateOnly, nil); c.Action != appliedwork.ActionConfigured {
		t.Errorf("CreateOnly with the first policy: %+v", c)
	}
	is("1", true)
	if c := apply("3", appliedwork.StrategyReadOnly, nil); c.Action != appliedwork.ActionRetained || c.Live == nil {
		t.Errorf("ReadOnly: %+v", c)
	}
	is("1", true)
	if _, err := g.at(configMapOf("strategies", "a", "")).Patch(t.Context(), "a", "application/merge-patch+json",
		[]byte(`{"data":{"value":"theirs"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if c := apply("4", appliedwork.StrategyUpdate, nil); c.Action != appliedwork.ActionConfigured {
		t.Errorf("Update: %+v", c)
	}
	is("4", true)

	adopted := g.create(configMapOf("strategies", "found", "users"))
	key = appliedwork.Key{Kind: "ConfigMap", Namespace: "strategies", Name: "found"}
	opts := appliedwork.ApplyOptions{
		Adoption: appliedwork.AdoptionIfUnowned, Policies: appliedwork.Policies{Adopted: appliedwork.PolicyDelete},
		ByKey: map[appliedwork.Key]appliedwork.ObjectOptions{key: {Strategy: appliedwork.StrategyCreateOnly}},
	}
	changes, err := x.applier.Apply(t.Context(), work, objects(configMapOf("strategies", "found", "ours")), opts)
	if err != nil || changes.Entries[0].Action != appliedwork.ActionAdopted {
		t.Errorf("CreateOnly of an object of a user: %v, %v", changes, err)
	}
	if live := g.get(adopted); !appliedwork.IsOwnedBy(live, work.UID) ||
		live.Object["data"].(map[string]any)["value"] != "users" {
		t.Errorf("adopted: %v", live)
	}
}

// checkKept: an annotation in the manifest or on the object makes the object stay.
func checkKept(t *testing.T, g *ground) {
	g.create(namespaceOf("kept"))
	x := g.plain(nil)
	work := x.ensure(t, "kept")
	manifest, live, goes := configMapOf("kept", "manifest", "1"), configMapOf("kept", "live", "1"),
		configMapOf("kept", "goes", "1")
	manifest.SetAnnotations(map[string]string{v1alpha1.AnnotationPrune: "disabled"})
	goes.SetAnnotations(map[string]string{v1alpha1.AnnotationPrune: "enabled"})
	want(t, x.apply(t, work, manifest, live, goes), "3 created")
	if owners := g.get(manifest).GetOwnerReferences(); len(owners) > 0 {
		t.Errorf("the object is owned by %v", owners)
	}
	patch := []byte(`{"metadata":{"annotations":{"client.lifecycle.config.k8s.io/deletion":"detach"}}}`)
	if _, err := g.at(live).Patch(t.Context(), "live", "application/merge-patch+json", patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	changes, err := x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, changes, "1 deleted, 2 released")
	if g.get(manifest) == nil || g.get(live) == nil || g.get(goes) != nil {
		t.Error("an object that should stay was deleted, or the other was not")
	}
}

// checkRecreate: a change of an immutable field is an error, or the object is created again.
func checkRecreate(t *testing.T, g *ground) {
	g.create(namespaceOf("recreate"))
	x := g.plain(nil)
	work := x.ensure(t, "recreate")
	immutable := func(value string) *unstructured.Unstructured {
		obj := configMapOf("recreate", "a", value)
		obj.Object["immutable"] = true
		return obj
	}
	want(t, x.apply(t, work, immutable("1")), "1 created")
	before := g.get(immutable("")).GetUID()
	if _, err := x.applier.Apply(t.Context(), work, objects(immutable("2")),
		appliedwork.ApplyOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an immutable field: %v", err)
	}
	changes, err := x.applier.Apply(t.Context(), work, objects(immutable("2")), appliedwork.ApplyOptions{Recreate: true})
	if err != nil {
		t.Fatal(err)
	}
	want(t, changes, "1 created")
	live := g.get(immutable(""))
	if value, _, _ := unstructured.NestedString(live.Object, "data", "value"); value != "2" || live.GetUID() == before {
		t.Errorf("value %q, UID %s, before %s", value, live.GetUID(), before)
	}
	want(t, x.apply(t, work, immutable("2")), "1 unchanged")
	binding := func(role string) *unstructured.Unstructured {
		return parsed(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"namespace":"recreate","name":"b"},
			"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%q}}`, role)
	}
	want(t, x.apply(t, work, binding("view")), "1 created")
	// The API server calls this field "cannot change", not "immutable".
	if changes, err = x.applier.Apply(t.Context(), work, objects(binding("edit")),
		appliedwork.ApplyOptions{Recreate: true}); err != nil {
		t.Fatal(err)
	}
	want(t, changes, "1 created")
	g.create(configMapOf("recreate", "users", "1"))
	users := configMapOf("recreate", "users", "1")
	users.Object["immutable"] = true
	adopt := appliedwork.ApplyOptions{Recreate: true, Adoption: appliedwork.AdoptionAlways, Force: true}
	if _, err := x.applier.Apply(t.Context(), work, objects(users), adopt); err != nil {
		t.Fatal(err)
	}
	users.Object["data"] = map[string]any{"value": "2"}
	if _, err := x.applier.Apply(t.Context(), work, objects(users), adopt); !apierrors.IsInvalid(err) {
		t.Errorf("an adopted object is not created again: %v", err)
	}
}

// checkMigrate: with MigrateManagers, the fields of a kubectl client-side apply become ours. The
// apply removes the fields that the manifest does not have.
func checkMigrate(t *testing.T, g *ground) {
	g.create(namespaceOf("migrate"))
	x := g.plain(nil)
	work := x.ensure(t, "migrate")
	before := parsed(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"migrate","name":"a"},"data":{"both":"1","old":"1"}}`)
	if _, err := g.at(before).Create(t.Context(), before,
		metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"}); err != nil {
		t.Fatal(err)
	}
	now := parsed(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"migrate","name":"a"},"data":{"both":"2","new":"2"}}`)
	opts := appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionIfUnowned}
	var conflict *appliedwork.OwnershipConflictError
	if _, err := x.applier.Apply(t.Context(), work, objects(now), opts); !errors.As(err, &conflict) {
		t.Errorf("without a migration: %v", err)
	}
	opts.MigrateManagers = []string{"kubectl-client-side-apply"}
	changes, err := x.applier.Apply(t.Context(), work, objects(now), opts)
	if err != nil {
		t.Fatal(err)
	}
	want(t, changes, "1 adopted")
	if data, _, _ := unstructured.NestedStringMap(g.get(now).Object, "data"); len(data) != 2 || data["both"] != "2" ||
		data["new"] != "2" {
		t.Errorf("data %v", data)
	}
	if changes, err = x.applier.Apply(t.Context(), work, objects(now), opts); err != nil {
		t.Fatal(err)
	}
	want(t, changes, "1 unchanged")
}

// checkApplySet: kubectl lists the objects of a work, and does not change them.
func checkApplySet(t *testing.T, g *ground) {
	g.create(namespaceOf("applyset"))
	x := g.plain(func(o *appliedwork.Options) { o.ApplySet = true })
	work := x.ensure(t, "applyset")
	a, b, role := configMapOf("applyset", "a", "1"), configMapOf("applyset", "b", "1"), clusterRoleOf("applyset")
	want(t, x.apply(t, work, a, b, role), "3 created")
	want(t, x.apply(t, work, a, b, role), "3 unchanged")
	kubectl := func(args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), kube.Program(t, "kubectl"),
			append([]string{"--kubeconfig", g.Kubeconfig()}, args...)...)
		command.Env = append(os.Environ(), "KUBECTL_APPLYSET=true")
		out, err := command.CombinedOutput()
		return string(out), err
	}
	label := "applyset.kubernetes.io/part-of=" + appliedwork.ApplySetID(work.Name)
	out, err := kubectl("get", "configmaps,clusterroles", "-n", "applyset", "-l", label, "-o", "name")
	if err != nil || out != "configmap/a\nconfigmap/b\nclusterrole.rbac.authorization.k8s.io/applyset\n" {
		t.Errorf("%s, %v", out, err)
	}
	parent := g.get(parsed(`{"kind":"AppliedWork","metadata":{"name":"applyset"}}`))
	if got := parent.GetAnnotations(); got["applyset.kubernetes.io/contains-group-kinds"] != "ClusterRole.rbac.authorization.k8s.io,ConfigMap" ||
		got["applyset.kubernetes.io/additional-namespaces"] != "applyset" {
		t.Errorf("%v", got)
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: applyset}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = kubectl("apply", "-n", "applyset", "--prune", "--applyset=appliedworks.multicluster.x-k8s.io/applyset",
		"-f", file)
	if err == nil || !strings.Contains(out, "appliedwork") || g.get(a) == nil {
		t.Errorf("kubectl apply --prune on our set: %s, %v", out, err)
	}
	t.Log(out)
	changes, err := x.pruner.Prune(t.Context(), work, objects(a, role), appliedwork.PruneOptions{
		Policies: appliedwork.Policies{Default: appliedwork.PolicyOrphan},
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, changes, "1 released")
	if labels := g.get(b).GetLabels(); len(labels) > 0 {
		t.Errorf("a released object has the labels %v", labels)
	}
	want(t, x.apply(t, work, a, role), "2 unchanged")
	other := x.ensure(t, "applyset-other")
	changes, err = x.applier.Apply(t.Context(), other, objects(a),
		appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionAlways})
	if err != nil {
		t.Fatal(err)
	}
	want(t, changes, "1 adopted")
	if g.get(a).GetLabels()["applyset.kubernetes.io/part-of"] != appliedwork.ApplySetID(work.Name) {
		t.Error("a shared object has left its set")
	}
}

// checkLargeApplySet: a work with objects in very many namespaces is applied. Only the annotation
// with their names is empty.
func checkLargeApplySet(t *testing.T, g *ground) {
	g.create(namespaceOf("large-applyset"))
	x := g.plain(func(o *appliedwork.Options) { o.ApplySet = true })
	work := x.ensure(t, "large-applyset")
	there := configMapOf("large-applyset", "a", "1")
	all := objects(there)
	for i := range 1100 { // more than 64 KiB of names
		all = append(all, configMapOf(fmt.Sprintf("large-applyset-%048d", i), "a", "1"))
	}
	changes, _ := x.applier.Apply(t.Context(), work, all, appliedwork.ApplyOptions{Concurrency: 64})
	want(t, changes, "1 created, 1100 failed")
	parent := g.get(parsed(`{"kind":"AppliedWork","metadata":{"name":"large-applyset"}}`))
	if got := parent.GetAnnotations(); got["applyset.kubernetes.io/contains-group-kinds"] != "ConfigMap" ||
		got["applyset.kubernetes.io/additional-namespaces"] != "" {
		t.Errorf("%.300v", got)
	}
	if g.get(there) == nil {
		t.Error("the object in a namespace that exists was not created")
	}
}
