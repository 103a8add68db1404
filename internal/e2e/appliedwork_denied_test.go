// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
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
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/reconciler"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// TestAppliedWorkDenied checks refusals of a cluster: denied verbs, denied patches, and an
// unavailable API.
func TestAppliedWorkDenied(t *testing.T) {
	t.Parallel()
	g := newGround(t, groundOptions{})
	g.create(namespaceOf("denied"))
	for _, c := range []struct {
		name  string
		check func(*testing.T, *ground)
	}{
		{"SingleVerbs", checkSingleVerbs}, {"ReleaseDenied", checkReleaseDenied},
		{"EvictionKeepsItsPolicy", checkEvictionKeepsItsPolicy},
		{"OtherHub", checkOtherHub}, {"LateObjects", checkLateObjects}, {"APIAway", checkAPIAway},
	} {
		t.Run(c.name, func(t *testing.T) {
			shared := *g
			shared.t = t
			c.check(t, &shared)
		})
	}
}

var clusterRoleBindings = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1",
	Resource: "clusterrolebindings"}

// checkSingleVerbs removes one documented verb at a time from an agent's rights. The error names
// the verb, nothing is leaked, and the agent succeeds when the verb is granted again.
func checkSingleVerbs(t *testing.T, g *ground) {
	granted := map[string][]string{
		"multicluster.x-k8s.io/appliedworks":            {"get", "list", "create", "patch", "delete", "watch"},
		"multicluster.x-k8s.io/appliedworks/status":     {"update"},
		"multicluster.x-k8s.io/appliedworks/finalizers": {"update"},
		"/configmaps": {"get", "list", "create", "patch", "delete", "watch"},
		"apiextensions.k8s.io/customresourcedefinitions": {"get"},
	}
	role := func(name, without, verb string) *unstructured.Unstructured {
		r := parsed(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q}}`, name)
		var rules []any
		for resource, verbs := range granted {
			group, plural, _ := strings.Cut(resource, "/")
			var left []any
			for _, v := range verbs {
				if resource != without || v != verb {
					left = append(left, v)
				}
			}
			if len(left) > 0 {
				rules = append(rules, map[string]any{"apiGroups": []any{group}, "resources": []any{plural}, "verbs": left})
			}
		}
		r.Object["rules"] = rules
		return r
	}
	// life runs all operations of an agent, and returns the first error.
	life := func(x tools, name string) error {
		a, b := configMapOf("denied", name+"-a", "1"), configMapOf("denied", name+"-b", "1")
		work, err := x.tracker.Ensure(t.Context(), name, v1alpha1.AppliedWorkSpec{WorkName: name, WorkNamespace: "n"})
		if err != nil {
			return err
		}
		if _, err := x.applier.Apply(t.Context(), work, []*unstructured.Unstructured{a, b},
			appliedwork.ApplyOptions{}); err != nil {
			return err
		}
		a.Object["data"] = map[string]any{"value": "2"}
		if _, err := x.applier.Apply(t.Context(), work, []*unstructured.Unstructured{a, b},
			appliedwork.ApplyOptions{}); err != nil {
			return err
		}
		if _, err := x.pruner.Prune(t.Context(), work, []*unstructured.Unstructured{a},
			appliedwork.PruneOptions{}); err != nil {
			return err
		}
		_, err = x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{})
		return err
	}
	n := 0
	for resource, verbs := range granted {
		for _, verb := range verbs {
			optional := verb == "watch" || resource == "/configmaps" && verb == "list" ||
				strings.HasPrefix(resource, "apiext") || strings.HasSuffix(resource, "/finalizers")
			n++
			name := fmt.Sprint("single-", n)
			config := g.Config()
			config.UserAgent = agentPrefix + name
			config.Impersonate.UserName, config.Impersonate.Groups = name, []string{"system:authenticated"}
			x := g.tools(config, nil)
			g.create(role(name, resource, verb))
			binding := parsed(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":%[1]q},
				"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%[1]q},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%[1]q}]}`, name)
			if _, err := g.admin.Resource(clusterRoleBindings).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the role is known", func() error { // RBAC has caches: until then other verbs are refused too
				err := life(x, name)
				if err != nil && !strings.Contains(err.Error(), "cannot "+verb+" resource") {
					return err
				}
				if err == nil && !optional {
					return fmt.Errorf("it works without %s of %s", verb, resource)
				}
				return nil
			})
			rules, err := json.Marshal(map[string]any{"rules": role(name, "", "").Object["rules"]})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.admin.Resource(clusterRoles).Patch(t.Context(), name, types.MergePatchType, rules,
				metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "all is well again", func() error {
				err := life(x, name)
				if errors.Is(err, appliedwork.ErrTerminating) { // begun before: it only has to end
					work := &v1alpha1.AppliedWork{}
					if live := g.get(parsed(`{"kind":"AppliedWork","metadata":{"name":%q}}`, name)); live != nil {
						work.Name, work.UID = name, live.GetUID()
						_, err = x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{})
					} else {
						err = nil
					}
				}
				return err
			})
			g.eventuallyGone(t, configMapOf("denied", name+"-a", ""), configMapOf("denied", name+"-b", ""),
				parsed(`{"kind":"AppliedWork","metadata":{"name":%q}}`, name))
		}
	}
}

// deny creates an admission policy that denies updates of ConfigMaps, until undo is called.
func (g *ground) deny(t *testing.T, policyName, expression string) (undo func()) {
	t.Helper()
	policy := parsed(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":%q},"spec":{"failurePolicy":"Fail",
		"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["UPDATE"],"resources":["configmaps"]}]},
		"validations":[{"expression":%q,"message":"it is needed"}]}}`, policyName, expression)
	binding := parsed(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":%[1]q},"spec":{"policyName":%[1]q,"validationActions":["Deny"]}}`, policyName)
	g.create(policy)
	g.create(binding)
	return func() {
		for _, obj := range []*unstructured.Unstructured{binding, policy} {
			if err := g.at(obj).Delete(context.Background(), obj.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
}

// checkReleaseDenied: if a policy denies the patch, the error reports it immediately.
func checkReleaseDenied(t *testing.T, g *ground) {
	x := g.plain(nil)
	work, a := x.ensure(t, "release-denied"), configMapOf("denied", "kept", "1")
	x.apply(t, work, a)
	undo := g.deny(t, "keep", "object.metadata.name != 'kept'")
	eventually(t, "the policy is in force", func() error {
		_, err := g.at(a).Patch(t.Context(), "kept", types.MergePatchType, []byte(`{"data":{"x":"y"}}`),
			metav1.PatchOptions{DryRun: []string{"All"}})
		if err == nil {
			return errors.New("it is not")
		}
		return nil
	})
	changes, err := x.collector.Release(t.Context(), work, appliedwork.ReleaseOptions{})
	if err == nil || !strings.Contains(err.Error(), "it is needed") || changes.String() != "1 failed" {
		t.Errorf("%v, %v", changes, err)
	}
	undo()
	eventually(t, "it is released", func() error {
		changes, err := x.collector.Release(t.Context(), work, appliedwork.ReleaseOptions{})
		if err == nil && !changes.Done() {
			err = fmt.Errorf("%v", changes.Entries)
		}
		return err
	})
	if live := g.get(a); live == nil || len(live.GetOwnerReferences()) > 0 || len(live.GetAnnotations()) > 0 {
		t.Errorf("%v", live)
	}
}

func (g *ground) reconciler(t *testing.T, opts reconciler.Options) *reconciler.Reconciler {
	t.Helper()
	if opts.Hub == "" && opts.Owns == nil {
		opts.Owns = func(*v1alpha1.AppliedWork) bool { return true } // only the AppliedWork of the request is reconciled
	}
	opts.Options = appliedwork.Options{
		Client: g.admin, Metadata: metadata.NewForConfigOrDie(g.Config()),
		Discovery: discovery.NewDiscoveryClientForConfigOrDie(g.Config()),
	}
	r, err := reconciler.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkEvictionKeepsItsPolicy: objects that an eviction leaves stay, even if the eviction takes
// more than one pass.
func checkEvictionKeepsItsPolicy(t *testing.T, g *ground) {
	x := g.plain(nil)
	left, held := configMapOf("denied", "left", "1"), configMapOf("denied", "held", "1")
	held.SetFinalizers([]string{holdFinalizer})
	work := x.ensure(t, "policy")
	x.apply(t, work, left, held)
	undo := g.deny(t, "leave", "object.metadata.name != 'left'")
	eventually(t, "the policy is in force", func() error {
		if _, err := g.at(left).Patch(t.Context(), "left", types.MergePatchType, []byte(`{"data":{"x":"y"}}`),
			metav1.PatchOptions{DryRun: []string{"All"}}); err == nil {
			return errors.New("it is not")
		}
		return nil
	})
	r := g.reconciler(t, reconciler.Options{
		Desired: reconciler.DesiredFunc(func(context.Context, *v1alpha1.AppliedWork) (reconciler.Want, error) {
			return reconciler.Want{Evicted: true}, nil
		}),
		Evict: appliedwork.EvictOptions{GracePeriod: time.Nanosecond},
		Policies: appliedwork.Policies{
			Default: appliedwork.PolicySelectivelyOrphan,
			Orphans: []appliedwork.OrphanRule{{Resource: "configmaps", Namespace: "denied", Name: "left"}},
		},
	})
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: "policy"}}
	eventually(t, "the first pass is not done", func() error {
		_, err := r.Reconcile(t.Context(), request)
		live := g.get(held)
		if err == nil || live.GetDeletionTimestamp() == nil {
			return fmt.Errorf("the eviction has not begun: %w", err)
		}
		return nil
	})
	undo()
	if _, err := g.at(held).Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it ends", func() error {
		_, err := r.Reconcile(t.Context(), request)
		if err == nil && g.get(parsed(`{"kind":"AppliedWork","metadata":{"name":"policy"}}`)) != nil {
			err = errors.New("the AppliedWork is there")
		}
		return err
	})
	if g.get(left) == nil || g.get(held) != nil {
		t.Error("what the policy leaves is gone, or the other is not")
	}
}

// checkOtherHub: two agents on a cluster serve different hubs that have a work of the same name.
func checkOtherHub(t *testing.T, g *ground) {
	spec := v1alpha1.AppliedWorkSpec{WorkName: "shop", WorkNamespace: "cluster1"}
	agent := func(hub string) *reconciler.Reconciler {
		return g.reconciler(t, reconciler.Options{
			Hub: hub,
			Desired: reconciler.DesiredFunc(func(context.Context, *v1alpha1.AppliedWork) (reconciler.Want, error) {
				if hub == "empty" {
					return reconciler.Want{Removed: true}, nil // this hub has no works
				}
				return reconciler.Want{Objects: []*unstructured.Unstructured{configMapOf("denied", "of-a-hub", "1")}}, nil
			}),
		})
	}
	owner, other := agent("owner"), agent("empty")
	work, err := owner.Tracker().Ensure(t.Context(), appliedwork.NameFor("owner", "cluster1", "shop"), spec)
	if err != nil {
		t.Fatal(err)
	}
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: work.Name}}
	for _, r := range []*reconciler.Reconciler{owner, other} {
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Error(err)
		}
	}
	if g.get(configMapOf("denied", "of-a-hub", "")) == nil {
		t.Error("the agent of another hub has torn it down")
	}
}

// checkLateObjects: objects from late requests of an earlier process are pruned.
func checkLateObjects(t *testing.T, g *ground) {
	x := g.plain(nil)
	const works = 10
	for i := range works {
		work := x.ensure(t, fmt.Sprint("late-", i))
		obj := configMapOf("denied", work.Name, "1")
		appliedwork.SetOwnerReference(obj, work)
		g.create(obj)
	}
	r := g.reconciler(t, reconciler.Options{
		Prune: appliedwork.PruneOptions{AllowEmpty: true},
		Desired: reconciler.DesiredFunc(func(context.Context, *v1alpha1.AppliedWork) (reconciler.Want, error) {
			return reconciler.Want{}, nil
		}),
	})
	for i := range works {
		name := fmt.Sprint("late-", i)
		if _, err := r.Reconcile(t.Context(),
			reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
			t.Error(err)
		}
		if g.get(configMapOf("denied", name, "")) != nil {
			t.Errorf("%s is there", name)
		}
	}
}

// checkAPIAway: an aggregated API with an unavailable server delays only its own kinds.
func checkAPIAway(t *testing.T, g *ground) {
	service := parsed(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.away.example.com"},"spec":{"group":"away.example.com","version":"v1",
		"groupPriorityMinimum":100,"versionPriority":100,"insecureSkipTLSVerify":true,"service":{"namespace":"denied","name":"nobody"}}}`)
	services := g.admin.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1",
		Resource: "apiservices"})
	if _, err := services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	x := g.plain(nil)
	work := x.ensure(t, "away")
	eventually(t, "the API is known and away", func() error {
		report, err := x.collector.Audit(t.Context(), work, appliedwork.AuditOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if report.Unread["away.example.com/v1"] == nil {
			return fmt.Errorf("%v", report.Unread)
		}
		return nil
	})
	a := configMapOf("denied", "away", "1")
	r := g.reconciler(t,
		reconciler.Options{Desired: reconciler.DesiredFunc(func(context.Context, *v1alpha1.AppliedWork) (reconciler.Want,
			error) {
			return reconciler.Want{Objects: []*unstructured.Unstructured{a}}, nil
		})})
	if _, err := r.Reconcile(t.Context(),
		reconcile.Request{NamespacedName: types.NamespacedName{Name: "away"}}); err != nil || g.get(a) == nil {
		t.Error(err)
	}
	if err := services.Delete(t.Context(), service.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
