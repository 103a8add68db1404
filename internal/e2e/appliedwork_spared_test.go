// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/reconciler"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// mergeAs patches an object as a field manager.
func (g *ground) mergeAs(t *testing.T, manager string, obj *unstructured.Unstructured, patch string) error {
	t.Helper()
	_, err := g.at(obj).Patch(t.Context(), obj.GetName(), types.MergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: manager})
	return err
}

// denyUpdates creates a policy that refuses updates of the ConfigMap "a" of a namespace, until
// allow is called.
func (g *ground) denyUpdates(t *testing.T, namespace, message string) (allow func()) {
	t.Helper()
	g.create(parsed(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":%q},"spec":{
		"matchConstraints":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":%q}},
			"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["UPDATE"],"resources":["configmaps"]}]},
		"validations":[{"expression":"object.metadata.name != 'a'","message":%q}]}}`, namespace, namespace, message))
	binding := g.create(parsed(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":%q},
		"spec":{"policyName":%q,"validationActions":["Deny"]}}`, namespace, namespace))
	until := func(denied bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			err := g.mergeAs(t, "someone", configMapOf(namespace, "a", ""),
				fmt.Sprintf(`{"metadata":{"annotations":{"at":"%d"}}}`, time.Now().UnixNano()))
			if (err != nil) == denied {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("updates are denied: %t, want %t (%v)", !denied, denied, err)
			}
		}
	}
	until(true)
	return func() {
		if err := g.at(binding).Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		until(false)
	}
}

// checkRefusedMigration: a refused adoption does not change the managed fields.
func checkRefusedMigration(t *testing.T, g *ground) {
	g.create(namespaceOf("migrated"))
	x := g.plain(nil)
	work := x.ensure(t, "migrated")
	users := configMapOf("migrated", "a", "theirs")
	if _, err := g.at(users).Create(t.Context(), users,
		metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"}); err != nil {
		t.Fatal(err)
	}
	if err := g.mergeAs(t, "helm", users, `{"data":{"value":"helms"}}`); err != nil {
		t.Fatal(err)
	}
	before := g.get(users).GetResourceVersion()
	opts := appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionIfUnowned,
		MigrateManagers: []string{"kubectl-client-side-apply"}}
	for range 2 {
		changes, _ := x.applier.Apply(t.Context(), work, objects(configMapOf("migrated", "a", "ours")), opts)
		want(t, changes, "1 failed")
	}
	if live := g.get(users); live.GetResourceVersion() != before {
		t.Errorf("a refused adoption has changed the object: %v", live)
	}
	opts.Force = true
	changes, err := x.applier.Apply(t.Context(), work, objects(configMapOf("migrated", "a", "ours")), opts)
	if err != nil {
		t.Fatal(err)
	}
	want(t, changes, "1 adopted")
	changes, err = x.pruner.Prune(t.Context(), work, nil, appliedwork.PruneOptions{AllowEmpty: true})
	if err != nil || g.get(users) == nil {
		t.Errorf("the adopted object is gone: %s, %v", changes, err)
	}
}

// checkNotRecreated: an object is deleted and created again only if an immutable field is the only
// obstacle, and no other work or policy owns or keeps it.
func checkNotRecreated(t *testing.T, g *ground) {
	const ns = "not-recreated"
	g.create(namespaceOf(ns))
	x := g.plain(nil)
	work, other := x.ensure(t, ns), x.ensure(t, ns+"-other")
	deployment := func(replicas int, strategy, selector, label string) *unstructured.Unstructured {
		return parsed(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"not-recreated","name":"d"},"spec":{"replicas":%d,"strategy":{"type":%q},
			"selector":{"matchLabels":{"a":%q}},"template":{"metadata":{"labels":{"a":%q}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
			replicas, strategy, selector, label)
	}
	frozen := func(name, value string) *unstructured.Unstructured {
		obj := configMapOf(ns, name, value)
		obj.Object["immutable"] = true
		return obj
	}
	x.apply(t, work, deployment(0, "Recreate", "x", "x"), configMapOf(ns, "a", "1"), frozen("shared", "1"),
		frozen("kept", "1"),
		frozen("detached", "1"), frozen("left", "1"), frozen("left-now", "1"))
	leaves := appliedwork.Policies{Default: appliedwork.PolicySelectivelyOrphan, Orphans: []appliedwork.OrphanRule{
		{Resource: "configmaps", Namespace: ns, Name: "left"}, {Resource: "configmaps", Namespace: ns, Name: "left-now"},
	}}
	if _, err := x.applier.Apply(t.Context(), work, objects(frozen("left", "1")),
		appliedwork.ApplyOptions{Policies: leaves}); err != nil {
		t.Fatal(err)
	}
	if err := g.mergeAs(t, "someone", frozen("detached", ""), `{"metadata":{"ownerReferences":null}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := x.applier.Apply(t.Context(), other, objects(frozen("shared", "1")),
		appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionAlways}); err != nil {
		t.Fatal(err)
	}
	if err := g.mergeAs(t, "someone", frozen("kept", ""),
		`{"metadata":{"annotations":{"multicluster.x-k8s.io/prune":"disabled"}}}`); err != nil {
		t.Fatal(err)
	}
	defer g.denyUpdates(t, ns, "updates to production are frozen")()
	for name, obj := range map[string]*unstructured.Unstructured{
		"a value with the word":             deployment(0, "immutable", "x", "x"),
		"an immutable and an invalid field": deployment(-1, "Recreate", "y", "y"),
		"what cannot be created":            deployment(0, "Recreate", "y", "x"),
		"a policy":                          configMapOf(ns, "a", "2"),
		"another owner":                     frozen("shared", "2"),
		"a user who keeps it":               frozen("kept", "2"),
		"a user who detached it":            frozen("detached", "2"),
		"a policy that leaves it":           frozen("left", "2"),
		"a policy that leaves it from now":  frozen("left-now", "2"),
	} {
		before := g.get(obj).GetUID()
		changes, err := x.applier.Apply(t.Context(), work, objects(obj),
			appliedwork.ApplyOptions{Recreate: true, Policies: leaves})
		if live := g.get(obj); err == nil || live == nil || live.GetUID() != before {
			t.Errorf("%s: the object was deleted: %s, %v", name, changes, err)
		}
	}
}

// checkContainersOfLeft: the Namespace and the CRD of an object that stays have no owner reference,
// and stay too.
func checkContainersOfLeft(t *testing.T, g *ground) {
	x := g.plain(nil)
	work := x.ensure(t, "containers")
	ns, adopting, plain := namespaceOf("containers"), namespaceOf("containers-adopted"), namespaceOf("containers-plain")
	crd, zed := customCRD("containers.example.com", "Zed", "v1"),
		customOf("containers.example.com/v1", "Zed", "default", "z")
	policies := appliedwork.Policies{Default: appliedwork.PolicySelectivelyOrphan, Orphans: []appliedwork.OrphanRule{
		{Resource: "configmaps", Namespace: "containers", Name: "a"},
		{Group: "containers.example.com", Resource: "zeds", Namespace: "default", Name: "z"},
	}}
	opts := appliedwork.ApplyOptions{Policies: policies, Adoption: appliedwork.AdoptionIfUnowned}
	all := objects(ns, configMapOf("containers", "a", "1"), crd, zed, adopting, plain)
	if _, err := x.applier.Apply(t.Context(), work, all, opts); err != nil {
		t.Fatal(err)
	}
	g.create(configMapOf("containers-adopted", "users", "1"))
	if _, err := x.applier.Apply(t.Context(), work, append(all, configMapOf("containers-adopted", "users", "1")),
		opts); err != nil {
		t.Fatal(err)
	}
	for _, obj := range []*unstructured.Unstructured{ns, crd, adopting} {
		if owners := g.get(obj).GetOwnerReferences(); len(owners) > 0 {
			t.Errorf("%s %s has an object that stays, and is owned by %v", obj.GetKind(), obj.GetName(), owners)
		}
	}
	if !appliedwork.IsOwnedBy(g.get(plain), work.UID) {
		t.Error("a namespace without such an object has no owner reference")
	}
}

// checkOrphanOfOthers: an orphaned object loses our reference even if another field manager has set
// it.
func checkOrphanOfOthers(t *testing.T, g *ground) {
	g.create(namespaceOf("orphan-of-others"))
	x := g.plain(nil)
	work := x.ensure(t, "orphan-of-others")
	orphan := appliedwork.ApplyOptions{Force: true, Policies: appliedwork.Policies{Default: appliedwork.PolicyOrphan}}
	theirs := configMapOf("orphan-of-others", "theirs", "1")
	owned := theirs.DeepCopy()
	appliedwork.SetOwnerReference(owned, work)
	if _, err := g.at(owned).Create(t.Context(), owned, metav1.CreateOptions{FieldManager: "work-api-agent"}); err != nil {
		t.Fatal(err)
	}
	x.apply(t, work, configMapOf("orphan-of-others", "read", "1"))
	read := g.get(configMapOf("orphan-of-others", "read", "")) // a manifest that was read from the cluster
	read.Object["data"] = map[string]any{"value": "2"}
	for _, want := range []string{"2 configured", "2 unchanged"} {
		changes, err := x.applier.Apply(t.Context(), work, objects(theirs, read), orphan)
		if err != nil || changes.String() != want {
			t.Errorf("%s, %v, want %s", changes, err, want)
		}
		for _, obj := range []*unstructured.Unstructured{theirs, read} {
			if appliedwork.IsOwnedBy(g.get(obj), work.UID) {
				t.Errorf("%s has the owner reference", obj.GetName())
			}
		}
	}
}

// checkForeignReferences: a manifest that was read from a cluster has owner references to AppliedWorks of
// that cluster, or to other AppliedWorks of this one. Apply does not send them, so an object that the
// policy keeps has no owner from the first apply on.
func checkForeignReferences(t *testing.T, g *ground) {
	const ns = "foreign-references"
	g.create(namespaceOf(ns))
	x := g.plain(nil)
	other := x.ensure(t, ns+"-other")
	orphan := appliedwork.Policies{Default: appliedwork.PolicyOrphan}
	var applied []*unstructured.Unstructured
	for name, uid := range map[string]types.UID{"dead": "5b1d9f2e-0f3c-4a55-9a57-0d9b1f3a1111", "living": other.UID} {
		for of, policies := range map[string]appliedwork.Policies{"kept": orphan, "ours": {}} {
			work := x.ensure(t, strings.Join([]string{ns, name, of}, "-"))
			obj := configMapOf(ns, name+"-"+of, "1")
			obj.SetOwnerReferences([]metav1.OwnerReference{
				{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: other.Name, UID: uid},
			})
			for _, result := range []string{"1 created", "1 unchanged"} {
				changes, err := x.applier.Apply(t.Context(), work, objects(obj), appliedwork.ApplyOptions{Policies: policies})
				if err != nil {
					t.Fatal(err)
				}
				want(t, changes, result)
			}
			applied = append(applied, obj)
			live := g.get(obj)
			if live == nil {
				t.Errorf("%s was deleted", obj.GetName())
				continue
			}
			owners := live.GetOwnerReferences()
			if of == "kept" && len(owners) > 0 || of == "ours" && (len(owners) != 1 || owners[0].UID != work.UID) {
				t.Errorf("%s is owned by %v", obj.GetName(), owners)
			}
		}
	}
	works := g.admin.Resource(v1alpha1.GroupVersionResource)
	if err := works.Delete(t.Context(), other.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second) // the garbage collector has processed them by then
	for _, obj := range applied {
		if g.get(obj) == nil {
			t.Errorf("%s was deleted", obj.GetName())
		}
	}
}

// checkReconciledPolicies: a teardown continues with the policies of the work, and objects that
// become read-only are released.
func checkReconciledPolicies(t *testing.T, g *ground) {
	const ns = "reconciled-policies"
	g.create(namespaceOf(ns))
	g.plain(nil).ensure(t, ns)
	a, b, read := configMapOf(ns, "a", "1"), configMapOf(ns, "b", "1"), configMapOf(ns, "read", "1")
	wanted := reconciler.Want{Objects: objects(a, b, read)}
	reconcile := func(change func(*reconciler.Options)) error {
		t.Helper()
		opts := reconciler.Options{
			NoAudit: true, Owns: func(w *v1alpha1.AppliedWork) bool { return w.Name == ns },
			Options: appliedwork.Options{Client: g.admin, Discovery: discovery.NewDiscoveryClientForConfigOrDie(g.Config())},
			Desired: reconciler.DesiredFunc(func(context.Context, *v1alpha1.AppliedWork) (reconciler.Want,
				error) {
				return wanted, nil
			}),
		}
		if change != nil {
			change(&opts)
		}
		r, err := reconciler.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: ns}})
		return err
	}
	if err := reconcile(nil); err != nil {
		t.Fatal(err)
	}
	if err := reconcile(func(o *reconciler.Options) {
		o.Apply.ByKey = map[appliedwork.Key]appliedwork.ObjectOptions{{Kind: "ConfigMap", Namespace: ns,
			Name: "read"}: {Strategy: appliedwork.StrategyReadOnly}}
	}); err != nil {
		t.Fatal(err)
	}
	if live := g.get(read); live == nil || len(live.GetOwnerReferences()) > 0 {
		t.Errorf("what is only read is not released: %v", live)
	}
	allow := g.denyUpdates(t, ns, "not now")
	wanted = reconciler.Want{Removed: true, Policies: &appliedwork.Policies{Default: appliedwork.PolicyOrphan}}
	if err := reconcile(nil); err == nil {
		t.Error("the teardown ended although a release was refused")
	}
	allow()
	_ = reconcile(nil)
	if g.get(a) == nil || g.get(b) == nil {
		t.Error("the teardown deleted what the policies of the work leave")
	}
}

// checkOnlyRead: objects that become read-only are released, even if they are the last objects of a
// work. The key of a cluster-scoped object may have a namespace.
func checkOnlyRead(t *testing.T, g *ground) {
	for name, c := range map[string]struct{ inManifest, inKey string }{"as-it-is": {"", ""},
		"in-manifest": {"default", ""}, "in-key": {"", "default"}} {
		id := "only-read-" + name
		g.create(namespaceOf(id))
		role, read := clusterRoleOf(id), configMapOf(id, "read", "1")
		role.SetNamespace(c.inManifest)
		g.plain(nil).ensure(t, id)
		opts := reconciler.Options{
			NoAudit: true, Owns: func(w *v1alpha1.AppliedWork) bool { return w.Name == id },
			Options: appliedwork.Options{Client: g.admin, Discovery: discovery.NewDiscoveryClientForConfigOrDie(g.Config())},
			Desired: reconciler.DesiredFunc(func(context.Context, *v1alpha1.AppliedWork) (reconciler.Want, error) {
				return reconciler.Want{Objects: objects(role, read)}, nil
			}),
		}
		for _, strategy := range []appliedwork.Strategy{appliedwork.StrategyServerSideApply, appliedwork.StrategyReadOnly} {
			opts.Apply.ByKey = map[appliedwork.Key]appliedwork.ObjectOptions{
				{Kind: "ConfigMap", Namespace: id, Name: "read"}:                                        {Strategy: strategy},
				{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Namespace: c.inKey, Name: id}: {Strategy: strategy},
			}
			r, err := reconciler.New(opts)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: id}}); err != nil {
				t.Errorf("%s, %s: %v", name, strategy, err)
			}
		}
		for _, obj := range objects(clusterRoleOf(id), read) {
			if live := g.get(obj); live == nil || len(live.GetOwnerReferences()) > 0 {
				t.Errorf("%s: the %s is not released: %v", name, obj.GetKind(), live)
			}
		}
	}
}

// checkForgivingKeys: a policy for the key of a manifest applies, even if a cluster-scoped manifest
// has a namespace. A manifest that every API server rejects is refused, and leaves no entry. The
// results of a cancelled apply are recorded.
func checkForgivingKeys(t *testing.T, g *ground) {
	const ns = "forgiving"
	g.create(namespaceOf(ns))
	x := g.plain(nil)
	work := x.ensure(t, ns)
	role := clusterRoleOf(ns)
	role.SetNamespace("default")
	key, err := appliedwork.Identify(role)
	if err != nil {
		t.Fatal(err)
	}
	policies := appliedwork.Policies{ByKey: map[appliedwork.Key]appliedwork.Policy{key: appliedwork.PolicyOrphan}}
	wrong := parsed(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":"wrong","annotations":"no"}}`,
		ns)
	changes, _ := x.applier.Apply(t.Context(), work, objects(role, wrong), appliedwork.ApplyOptions{Policies: policies})
	want(t, changes, "1 created, 1 failed")
	if entries, err := x.tracker.Entries(t.Context(), work); err != nil || len(entries) != 1 {
		t.Errorf("entries %v, %v", entries, err)
	}
	if _, err := x.pruner.Prune(t.Context(), work, nil,
		appliedwork.PruneOptions{AllowEmpty: true, Policies: policies}); err != nil || g.get(clusterRoleOf(ns)) == nil {
		t.Errorf("the policy for %s does not hold: %v", key, err)
	}
	var many []*unstructured.Unstructured
	for i := range 200 {
		many = append(many, configMapOf(ns, fmt.Sprint("c", i), "1"))
	}
	x.apply(t, work, many...)
	for _, obj := range many {
		obj.Object["data"] = map[string]any{"value": "2"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if changes, _ := x.applier.Apply(ctx, work, many, appliedwork.ApplyOptions{}); !changes.Done() { // the apply had begun
		live, err := g.admin.Resource(v1alpha1.GroupVersionResource).Get(t.Context(), work.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == v1alpha1.ConditionApplied && c["status"] == "True" {
				t.Errorf("after %s the condition is %v", changes, c)
			}
		}
	}
}
