// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/reconciler"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// blockedBy fails unless a prune left a Namespace for the given reason. It returns the error of the
// Namespace.
func (g *ground) blockedBy(
	t *testing.T, err error, ns *unstructured.Unstructured, reason appliedwork.BlockReason,
) *appliedwork.PruneBlockedError {
	t.Helper()
	live := g.get(ns)
	if live == nil || live.GetDeletionTimestamp() != nil {
		t.Fatalf("namespace %s was deleted (%v), want %s", ns.GetName(), err, reason)
	}
	blocked := &appliedwork.PruneBlockedError{}
	if !errors.As(err, &blocked) || blocked.Reason != reason {
		t.Fatalf("%v, want %s", err, reason)
	}
	return blocked
}

// undisturbed repeats a call that found a kind in discovery that was not served. Campaigns on the
// same API server change the served versions of their kinds.
func undisturbed(call func() (*appliedwork.ChangeSet, error)) (changes *appliedwork.ChangeSet, err error) {
	for deadline := time.Now().Add(e2etest.Patience); ; time.Sleep(50 * time.Millisecond) {
		changes, err = call()
		text := fmt.Sprint(changes.Entries, err)
		if !strings.Contains(text, "discovery lists a kind") || time.Now().After(deadline) {
			return changes, err
		}
	}
}

// plan, prune and teardown run for a work without objects, on the cluster that campaigns share.
func (x *tools) plan(t *testing.T, work *v1alpha1.AppliedWork) (*appliedwork.ChangeSet, error) {
	return undisturbed(func() (*appliedwork.ChangeSet, error) {
		return x.pruner.Plan(t.Context(), work, nil, appliedwork.PruneOptions{AllowEmpty: true})
	})
}

func (x *tools) prune(t *testing.T, work *v1alpha1.AppliedWork) (*appliedwork.ChangeSet, error) {
	return undisturbed(func() (*appliedwork.ChangeSet, error) {
		return x.pruner.Prune(t.Context(), work, nil, appliedwork.PruneOptions{AllowEmpty: true})
	})
}

func (x *tools) teardown(t *testing.T, work *v1alpha1.AppliedWork) (*appliedwork.ChangeSet, error) {
	return undisturbed(func() (*appliedwork.ChangeSet, error) {
		return x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{})
	})
}

// populate creates the objects that Kubernetes creates in every Namespace. Their controllers do not
// run here.
func (g *ground) populate(t *testing.T, namespace string) {
	t.Helper()
	g.createIn(t, "serviceaccounts",
		parsed(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"namespace":%q,"name":"default"}}`, namespace))
	g.createIn(t, "configmaps", configMapOf(namespace, "kube-root-ca.crt", "1"))
	g.createIn(t, "events", parsed(`{"apiVersion":"v1","kind":"Event","metadata":{"namespace":%[1]q,"name":"e"},
		"involvedObject":{"namespace":%[1]q,"kind":"Pod","name":"p"}}`, namespace))
	g.createIn(t, "leases",
		parsed(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"namespace":%q,"name":"leader"}}`,
			namespace))
}

// createIn creates an object of a resource that [ground.at] does not support.
func (g *ground) createIn(t *testing.T, resource string, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	client := g.admin.Resource(obj.GroupVersionKind().GroupVersion().WithResource(resource)).Namespace(obj.GetNamespace())
	created, err := client.Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// ownedBy sets an owner that was read from the cluster.
func ownedBy(owner, obj *unstructured.Unstructured) *unstructured.Unstructured {
	obj.SetOwnerReferences([]metav1.OwnerReference{
		{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID()},
	})
	return obj
}

// checkNamespaceContent: a Namespace stays while it contains objects that no AppliedWork applied, also in a teardown.
func checkNamespaceContent(t *testing.T, g *ground) {
	x := g.plain(nil)
	work := x.ensure(t, "content")
	ns, ours := namespaceOf("content"), configMapOf("content", "ours", "1")
	user := configMapOf("content", "users", "1")
	x.apply(t, work, ns, ours)
	g.populate(t, "content")
	g.create(user)
	g.create(gadgetOf("content", "users"))
	plan, err := x.plan(t, work)
	_ = g.blockedBy(t, err, ns, appliedwork.BlockReasonNamespaceNotEmpty)
	want(t, plan, "1 deleted, 1 blocked")
	_, err = x.prune(t, work)
	blocked := g.blockedBy(t, err, ns, appliedwork.BlockReasonNamespaceNotEmpty)
	if !strings.Contains(err.Error(), "users") || len(blocked.Objects) != 1 || blocked.Objects[0].Kind != "ConfigMap" {
		t.Errorf("%v: %v", err, blocked.Objects)
	}
	if g.get(ours) != nil {
		t.Error("the object of the work is there")
	}
	status := fmt.Sprint(g.get(parsed(`{"kind":"AppliedWork","metadata":{"name":"content"}}`)).Object["status"])
	if !strings.Contains(status, "PruneBlocked") || !strings.Contains(status, "users") {
		t.Errorf("the condition does not name the object: %s", status)
	}
	changes, err := x.teardown(t, work)
	_ = g.blockedBy(t, err, ns, appliedwork.BlockReasonNamespaceNotEmpty)
	want(t, changes, "1 blocked")
	if err := g.at(user).Delete(t.Context(), "users", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = x.teardown(t, work)
	blocked = g.blockedBy(t, err, ns, appliedwork.BlockReasonNamespaceNotEmpty)
	if len(blocked.Objects) != 1 || blocked.Objects[0].Kind != "Gadget" {
		t.Errorf("%v: %v", err, blocked.Objects)
	}
	// With the option, the Namespace is deleted with its content.
	all := appliedwork.TeardownOptions{Policies: appliedwork.Policies{Unmanaged: appliedwork.PolicyDelete}}
	if _, err := x.collector.Teardown(t.Context(), work, all); err != nil {
		t.Fatal(err)
	}
	eventually(t, "namespace content is deleted", func() error {
		if live := g.get(ns); live != nil && live.GetDeletionTimestamp() == nil {
			return errors.New("it is not")
		}
		return nil
	})
}

// checkOwnersWithoutCount: an object of a user blocks its Namespace even if its owner does not
// count, or if it has the annotations of a token.
func checkOwnersWithoutCount(t *testing.T, g *ground) {
	live := func(group, resource, ns, name string) *unstructured.Unstructured {
		t.Helper()
		obj, err := g.admin.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).Namespace(
			ns).
			Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	for name, populate := range map[string]func(ns string) *unstructured.Unstructured{
		"annotated": func(ns string) *unstructured.Unstructured {
			return parsed(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":%q,"name":"users",
				"annotations":{"kubernetes.io/service-account.name":"default"}}}`, ns)
		},
		"of-a-lease": func(ns string) *unstructured.Unstructured {
			return ownedBy(live("coordination.k8s.io", "leases", ns, "leader"), configMapOf(ns, "users", "1"))
		},
		"of-the-default-account": func(ns string) *unstructured.Unstructured {
			return ownedBy(live("", "serviceaccounts", ns, "default"), configMapOf(ns, "users", "1"))
		},
		"of-itself": func(ns string) *unstructured.Unstructured {
			return configMapOf(ns, "users", "1")
		},
	} {
		id := "content-" + name
		x := g.plain(nil)
		work, ns := x.ensure(t, id), namespaceOf(id)
		x.apply(t, work, ns)
		g.populate(t, id)
		resource, users := "configmaps", populate(id)
		if users.GetKind() == "Secret" {
			resource = "secrets"
		}
		users = g.createIn(t, resource, users)
		if name == "of-itself" {
			if _, err := g.at(users).Update(t.Context(), ownedBy(users, users), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := x.prune(t, work)
		if blocked := g.blockedBy(t, err, ns, appliedwork.BlockReasonNamespaceNotEmpty); len(blocked.Objects) != 1 ||
			blocked.Objects[0].Name != "users" {
			t.Errorf("%s: %v", name, blocked.Objects)
		}
	}
}

// checkNamespaceDependents: objects that Kubernetes creates in every Namespace, and objects that
// the work's objects own, do not block.
func checkNamespaceDependents(t *testing.T, g *ground) {
	x := g.plain(nil)
	work := x.ensure(t, "dependents")
	ns := namespaceOf("dependents")
	deployment := parsed(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"dependents","name":"d"},"spec":{"replicas":2,
		"selector":{"matchLabels":{"a":"x"}},"template":{"metadata":{"labels":{"a":"x"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	service := parsed(`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"dependents","name":"s"},
		"spec":{"selector":{"a":"x"},"ports":[{"port":80}]}}`)
	x.apply(t, work, ns, deployment, service)
	g.populate(t, "dependents")
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	pod := func(name string) *unstructured.Unstructured {
		return parsed(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"dependents","name":%q,"labels":{"a":"x"}},
			"spec":{"containers":[{"name":"c","image":"i"}]}}`, name)
	}
	live := func(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
		t.Helper()
		obj, err := g.admin.Resource(resource).Namespace("dependents").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	replicas := g.createIn(t, "replicasets",
		ownedBy(live(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "d"),
			parsed(`{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":"dependents","name":"d-1"},"spec":{"replicas":12,
			"selector":{"matchLabels":{"a":"x"}},"template":{"metadata":{"labels":{"a":"x"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)))
	for i := range 12 { // more than the first page of a list
		g.createIn(t, "pods", ownedBy(replicas, pod(fmt.Sprint("d-1-", i))))
	}
	g.createIn(t, "endpointslices", ownedBy(live(schema.GroupVersionResource{Version: "v1", Resource: "services"}, "s"),
		parsed(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"namespace":"dependents","name":"s-1"},
			"addressType":"IPv4","endpoints":[]}`)))
	plan, err := x.plan(t, work)
	if err != nil {
		t.Error(err)
	}
	want(t, plan, "3 deleted")
	// A Pod that no Deployment created blocks. A Pod of the work does not block.
	g.createIn(t, "pods", pod("users"))
	_, err = x.teardown(t, work)
	if blocked := g.blockedBy(t, err, ns, appliedwork.BlockReasonNamespaceNotEmpty); len(blocked.Objects) != 1 ||
		blocked.Objects[0].Name != "users" {
		t.Errorf("%v", blocked.Objects)
	}
	if err := g.admin.Resource(pods).Namespace("dependents").Delete(t.Context(), "users",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the work is torn down", func() error {
		changes, err := x.collector.Teardown(context.Background(), work, appliedwork.TeardownOptions{})
		if err == nil && g.get(ns) != nil && g.get(ns).GetDeletionTimestamp() == nil {
			err = errors.New(changes.String())
		}
		return err
	})
}

// checkNamespaceUnreadable: a Namespace stays while a kind cannot be listed, and the error names the kind.
func checkNamespaceUnreadable(t *testing.T, g *ground) {
	admin := g.plain(nil)
	ns := namespaceOf("unreadable")
	work := admin.ensure(t, "unreadable")
	admin.apply(t, work, ns)
	const rbac = "rbac.authorization.k8s.io"
	create := func(resource string, obj *unstructured.Unstructured) {
		t.Helper()
		client := g.admin.Resource(schema.GroupVersionResource{Group: rbac, Version: "v1", Resource: resource})
		if _, err := client.Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("clusterroles", parsed(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"unreadable"},"rules":[
		{"apiGroups":[""],"resources":["namespaces","configmaps"],"verbs":["*"]},{"apiGroups":["multicluster.x-k8s.io"],"resources":["*"],"verbs":["*"]}]}`))
	create("clusterrolebindings", parsed(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"unreadable"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"unreadable"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"unreadable"}]}`))
	config := g.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "unreadable"}
	limited := g.tools(config, nil)
	_, err := limited.prune(t, work)
	_ = g.blockedBy(t, err, ns, appliedwork.BlockReasonNamespaceUnreadable)
	if !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("the error does not name the cause: %v", err)
	}
	changes, err := admin.prune(t, work)
	if err != nil || changes.Count(appliedwork.ActionBlocked) > 0 {
		t.Errorf("%s, %v", changes, err)
	}
}

// watched is a Watcher that records the watched objects.
type watched struct {
	reconciler.Watcher
	objects []v1alpha1.AppliedResourceMeta
}

func (w *watched) Watch(_ *v1alpha1.AppliedWork, objects []v1alpha1.AppliedResourceMeta) error {
	w.objects = objects
	return nil
}

// checkBlockedResync: the Reconciler checks a Namespace with users' objects again when one of them
// changes, or after Resync.
func checkBlockedResync(t *testing.T, g *ground) {
	ns, user := namespaceOf("blocked-resync"), configMapOf("blocked-resync", "users", "1")
	wanted, watch := reconciler.Want{Objects: objects(ns)}, &watched{}
	r, err := reconciler.New(reconciler.Options{
		NoAudit: true, Watcher: watch, Resync: time.Hour,
		Owns:    func(w *v1alpha1.AppliedWork) bool { return w.Name == "blocked-resync" },
		Options: appliedwork.Options{Client: g.admin, Discovery: discovery.NewDiscoveryClientForConfigOrDie(g.Config())},
		Desired: reconciler.DesiredFunc(func(context.Context, *v1alpha1.AppliedWork) (reconciler.Want, error) {
			return wanted,
				nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	g.plain(nil).ensure(t, "blocked-resync")
	pass := func() (reconcile.Result, error) {
		return r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "blocked-resync"}})
	}
	if _, err := pass(); err != nil {
		t.Fatal(err)
	}
	g.create(user)
	wanted = reconciler.Want{Removed: true}
	for range 2 {
		result, err := pass()
		if err != nil || result.RequeueAfter < time.Hour || g.get(user) == nil {
			t.Errorf("%v, %v, want a pass after an hour", result, err)
		}
		if len(watch.objects) != 1 || watch.objects[0].Name != "users" {
			t.Errorf("watched %v, want the object of the user", watch.objects)
		}
	}
}
