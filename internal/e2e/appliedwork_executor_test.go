// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/appliedwork"
)

// checkExecutor: the RBAC rights of a service account limit the writes that use the rights of an
// admin.
func checkExecutor(t *testing.T, g *ground) {
	const namespace, user = "executor", "system:serviceaccount:executor:deployer"
	g.create(namespaceOf(namespace))
	reviews := kubernetes.NewForConfigOrDie(g.Config()).AuthorizationV1().SubjectAccessReviews()
	clock := testingclock.NewFakePassiveClock(time.Now())
	x := g.plain(func(o *appliedwork.Options) { o.Reviews, o.Clock = reviews, clock })
	executor := &appliedwork.Executor{User: user,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:executor", "system:authenticated"}}
	role := func(rules string) *unstructured.Unstructured {
		return parsed(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"namespace":"executor","name":"deployer"},"rules":[%s]}`, rules)
	}
	rule := func(verbs, names string) string {
		return `{"apiGroups":[""],"resources":["configmaps"],"verbs":[` + verbs + `],"resourceNames":[` + names + `]}`
	}
	// grant changes the role, and waits until the API server applies the change to the user's
	// access.
	grant := func(verb, name string, allowed bool, rules ...string) {
		t.Helper()
		obj := role(strings.Join(rules, ","))
		live := g.get(obj)
		if live == nil {
			g.create(obj)
		} else {
			obj.SetResourceVersion(live.GetResourceVersion())
			if _, err := g.at(obj).Update(t.Context(), obj, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "the role is known", func() error {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: verb, Resource: "configmaps", Namespace: namespace, Name: name,
				}}}
			answer, err := reviews.Create(t.Context(), review, metav1.CreateOptions{})
			if err == nil && answer.Status.Allowed != allowed {
				err = errors.New("it is not")
			}
			return err
		})
		clock.SetTime(clock.Now().Add(11 * time.Second))
	}
	work := x.ensure(t, "executor")
	apply := func(opts appliedwork.ApplyOptions, result string, denied string, objects ...*unstructured.Unstructured) {
		t.Helper()
		opts.Executor = executor
		changes, err := x.applier.Apply(t.Context(), work, objects, opts)
		want(t, changes, result)
		if denied == "" && err != nil || denied != "" &&
			(!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), denied)) {
			t.Errorf("%v, want %q", err, denied)
		}
	}
	a, b := configMapOf(namespace, "a", "1"), configMapOf(namespace, "b", "1")
	g.create(parsed(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"namespace":"executor","name":"deployer"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"deployer"},"subjects":[{"kind":"ServiceAccount","name":"deployer","namespace":"executor"}]}`))

	// The user may create, but not delete. The owner reference would delete on the user's behalf.
	grant("create", "", true, rule(`"create","patch"`, ""))
	apply(appliedwork.ApplyOptions{}, "1 failed", `user "`+user+`" cannot delete resource "configmaps"`, a)
	if g.get(a) != nil {
		t.Error("the object was created")
	}
	if entries, err := x.tracker.Entries(t.Context(), work); err != nil || len(entries) > 0 {
		t.Errorf("recorded: %v, %v", entries, err)
	}
	orphan := appliedwork.ApplyOptions{Policies: appliedwork.Policies{Default: appliedwork.PolicyOrphan}}
	apply(orphan, "1 created", "", a)
	apply(appliedwork.ApplyOptions{}, "1 failed", "cannot delete", a) // the apply would add the reference
	if owners := g.get(a).GetOwnerReferences(); len(owners) > 0 {
		t.Errorf("it is owned by %v", owners)
	}

	// References of the manifest also delete on the user's behalf, if the object stays without its
	// AppliedWork.
	owner := g.create(configMapOf(namespace, "owner", "1"))
	owned := func(name string, blocks bool) *unstructured.Unstructured {
		obj := configMapOf(namespace, name, "1")
		obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner",
			UID: owner.GetUID(), BlockOwnerDeletion: &blocks}})
		return obj
	}
	apply(orphan, "1 failed", "cannot delete", owned("owned", false))
	apply(orphan, "1 failed", "cannot delete", owned("a", false))
	if g.get(owned("owned", false)) != nil || len(g.get(a).GetOwnerReferences()) > 0 {
		t.Error("an object got an owner reference of its manifest")
	}
	createOnly := orphan
	key, err := appliedwork.Identify(a)
	if err != nil {
		t.Fatal(err)
	}
	createOnly.ByKey = map[appliedwork.Key]appliedwork.ObjectOptions{key: {Strategy: appliedwork.StrategyCreateOnly}}
	apply(createOnly, "1 unchanged", "", owned("a", false)) // the reference is not written

	g.create(configMapOf(namespace, "found", "users"))
	apply(appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionIfUnowned, Force: true}, "1 adopted", "",
		configMapOf(namespace, "found", "ours"))

	// Rights for one name.
	grant("delete", "a", true, rule(`"create"`, ""), rule(`"patch","delete"`, `"a"`))
	apply(appliedwork.ApplyOptions{}, "1 configured, 1 failed", `configmaps "b" is forbidden: user "`+user+
		`" cannot delete resource "configmaps" in API group "" in the namespace "executor"`, a, b)
	if !appliedwork.IsOwnedBy(g.get(a), work.UID) || g.get(b) != nil {
		t.Error("the object that may be written was not, or the other was")
	}

	// Blocking the deletion of an owner needs a separate right.
	grant("delete", "b", true, rule(`"create","patch","delete"`, ""))
	apply(orphan, "1 created", "", owned("owned", false))
	apply(orphan, "1 failed", `cannot update resource "configmaps/finalizers" in API group "" in the namespace "executor"`,
		owned("blocking", true))
	apply(orphan, "1 failed", "blocks the deletion of its owner", owned("owned", true))
	finalizers := `{"apiGroups":[""],"resources":["configmaps/finalizers"],"verbs":["update"],"resourceNames":["owner"]}`
	grant("get", "", true, rule(`"create","patch","delete","get"`, ""), finalizers)
	apply(orphan, "1 created, 1 configured", "", owned("blocking", true), owned("owned", true))

	// A revoked right counts while its review is cached.
	grant("delete", "b", true, rule(`"create","patch","delete"`, ""))
	apply(appliedwork.ApplyOptions{}, "1 created, 1 unchanged", "", a, b)
	grant("patch", "a", false, rule(`"create","delete"`, ""))
	apply(appliedwork.ApplyOptions{}, "1 unchanged", "", a) // nothing is written
	apply(appliedwork.ApplyOptions{}, "1 failed", "cannot patch", configMapOf(namespace, "a", "2"))
	grant("patch", "a", true, rule(`"create","patch","delete"`, ""))
	apply(appliedwork.ApplyOptions{}, "1 configured", "", configMapOf(namespace, "a", "2"))
	now := clock.Now()
	grant("patch", "a", false, rule(`"create","delete"`, ""))
	clock.SetTime(now.Add(10 * time.Second))
	apply(appliedwork.ApplyOptions{}, "1 configured", "", configMapOf(namespace, "a", "3"))
	clock.SetTime(now.Add(11 * time.Second))
	apply(appliedwork.ApplyOptions{}, "1 failed", "cannot patch", configMapOf(namespace, "a", "4"))
	if value, _, _ := unstructured.NestedString(g.get(a).Object, "data", "value"); value != "3" {
		t.Errorf("the value is %s", value)
	}
}

// checkEscalation: an executor cannot get rights through the agent that it does not have.
func checkEscalation(t *testing.T, g *ground) {
	const namespace = "escalation"
	g.create(namespaceOf(namespace))
	client := kubernetes.NewForConfigOrDie(g.Config())
	x := g.plain(func(o *appliedwork.Options) { o.Reviews = client.AuthorizationV1().SubjectAccessReviews() })
	rbac := func(kind, name, rest string) *unstructured.Unstructured {
		obj := parsed(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":%q,"metadata":{"name":%q},%s}`, kind, name, rest)
		if !strings.HasPrefix(kind, "Cluster") {
			obj.SetNamespace(namespace)
		}
		return obj
	}
	rule := func(resource, verb string) string {
		return `"rules":[{"apiGroups":[""],"resources":["` + resource + `"],"verbs":["` + verb + `"]}]`
	}
	ref := func(kind, name string) string {
		return `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"` + kind + `","name":"` + name + `"},
			"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"granted"}]`
	}
	// One executor may write roles and bindings and get pods. The other may also escalate and bind.
	for user, verbs := range map[string]string{"weak": `"create","patch","delete"`,
		"strong": `"create","patch","delete","bind","escalate"`} {
		g.create(rbac("ClusterRole", "escalation-"+user, `"rules":[{"apiGroups":["rbac.authorization.k8s.io"],"verbs":[`+verbs+`],
			"resources":["roles","rolebindings","clusterroles","clusterrolebindings"]},{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`))
		binding := rbac("ClusterRoleBinding", "escalation-"+user, ref("ClusterRole", "escalation-"+user))
		binding.Object["subjects"] = []any{map[string]any{"kind": "User", "apiGroup": "rbac.authorization.k8s.io",
			"name": user}}
		g.create(binding)
		eventually(t, "the binding is known", func() error {
			answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(),
				&authorizationv1.SubjectAccessReview{
					Spec: authorizationv1.SubjectAccessReviewSpec{User: user,
						ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"}},
				}, metav1.CreateOptions{})
			if err == nil && !answer.Status.Allowed {
				err = errors.New("it is not")
			}
			return err
		})
	}
	g.create(rbac("ClusterRole", "escalation-all", `"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]`))
	work := x.ensure(t, namespace)
	apply := func(user string, list ...*unstructured.Unstructured) (*appliedwork.ChangeSet, error) {
		opts := appliedwork.ApplyOptions{Executor: &appliedwork.Executor{User: user}}
		return x.applier.Apply(t.Context(), work, list, opts)
	}
	for name, test := range map[string]struct {
		object *unstructured.Unstructured
		verb   string
	}{
		"a role":                    {rbac("Role", "role", rule("secrets", "get")), "escalate"},
		"a role with a wildcard":    {rbac("Role", "wild", rule("pods", "*")), "escalate"},
		"a role with a subresource": {rbac("Role", "sub", rule("pods/exec", "get")), "escalate"},
		"a cluster role":            {rbac("ClusterRole", "escalation-role", rule("secrets", "get")), "escalate"},
		"a cluster role with a URL": {rbac("ClusterRole", "escalation-url",
			`"rules":[{"nonResourceURLs":["/metrics"],"verbs":["get"]}]`), "escalate"},
		"an aggregated cluster role": {rbac("ClusterRole", "escalation-sum",
			`"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}`), "escalate"},
		"a binding of a cluster role": {rbac("RoleBinding", "binding", ref("ClusterRole", "escalation-all")), "bind"},
		"a cluster role binding": {rbac("ClusterRoleBinding", "escalation", ref("ClusterRole", "cluster-admin")),
			"bind"},
		"a binding without a role": {rbac("RoleBinding", "early", ref("Role", "none")), "bind"},
	} {
		t.Run(name, func(t *testing.T) {
			changes, err := apply("weak", test.object)
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `user "weak" cannot `+test.verb) {
				t.Errorf("%v, %v", changes.Entries, err)
			}
			m := test.object.DeepCopy()
			m.SetName("strong-" + m.GetName())
			if changes, err = apply("strong", m); err != nil {
				t.Errorf("who may %s: %v, %v", test.verb, changes.Entries, err)
			}
		})
	}
	// The executor can grant rights that it has, also by a role and a binding in one call. It
	// cannot grant more.
	small, binding := rbac("Role", "small", rule("pods", "get")), rbac("RoleBinding", "small", ref("Role", "small"))
	if changes, err := apply("weak", small, binding); err != nil {
		t.Errorf("%v, %v", changes.Entries, err)
	}
	if changes, err := apply("weak", rbac("Role", "small", rule("secrets", "get"))); !apierrors.IsForbidden(err) {
		t.Errorf("a role was extended: %v, %v", changes.Entries, err)
	}
	labelled := small.DeepCopy()
	labelled.SetLabels(map[string]string{"a": "b"})
	if changes, err := apply("weak", labelled); err != nil || changes.String() != "1 configured" {
		t.Errorf("a role with the same rules: %v, %v", changes.Entries, err)
	}
}
