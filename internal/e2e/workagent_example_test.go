// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/mosquitto"
)

// managed is a cluster with the work agent of the examples, as a process, and the hub that it serves.
type managed struct {
	t     *testing.T
	hub   *hub
	name  string
	admin dynamic.Interface
	agent *agentProcess
}

// get returns the object of a manifest as it is; nil if there is none.
func (m *managed) get(manifest string) *unstructured.Unstructured {
	m.t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(manifest)); err != nil {
		m.t.Fatal(err)
	}
	gvr, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind()) // as these are regular
	client := dynamic.ResourceInterface(m.admin.Resource(gvr))
	if ns := obj.GetNamespace(); ns != "" {
		client = m.admin.Resource(gvr).Namespace(ns)
	}
	live, err := client.Get(context.Background(), obj.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return live
}

// existing makes an object that no work has brought.
func (m *managed) existing(manifest string) *unstructured.Unstructured {
	m.t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(manifest)); err != nil {
		m.t.Fatal(err)
	}
	live, err := m.admin.Resource(configMaps).Namespace(obj.GetNamespace()).Create(m.t.Context(), obj, metav1.CreateOptions{FieldManager: "somebody"})
	if err != nil {
		m.t.Fatal(err)
	}
	return live
}

// record returns the AppliedWork of a work; nil if there is none.
func (m *managed) record(work string) *v1alpha1.AppliedWork {
	m.t.Helper()
	raw, err := m.admin.Resource(v1alpha1.GroupVersionResource).Get(context.Background(), appliedwork.NameFor("hub", m.name, work), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		m.t.Fatal(err)
	}
	record := &v1alpha1.AppliedWork{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, record); err != nil {
		m.t.Fatal(err)
	}
	if record.Spec != (v1alpha1.AppliedWorkSpec{WorkNamespace: m.name, WorkName: work}) {
		m.t.Errorf("the AppliedWork of %s is for %+v", work, record.Spec)
	}
	return record
}

// owns requires the AppliedWork of a work to own the objects and to record them, and nothing else.
func (m *managed) owns(work string, manifests ...string) *v1alpha1.AppliedWork {
	m.t.Helper()
	record := m.record(work)
	if record == nil {
		m.t.Fatalf("there is no AppliedWork of %s", work)
	}
	recorded := map[appliedwork.Key]string{}
	for _, e := range record.Status.AppliedResources {
		recorded[appliedwork.KeyOf(e.ResourceIdentifier)] = string(e.UID)
	}
	for _, manifest := range manifests {
		live := m.get(manifest)
		if live == nil {
			m.t.Errorf("%s is not there", manifest)
			continue
		}
		key, err := appliedwork.Identify(live)
		if err != nil || !appliedwork.IsOwnedBy(live, record.UID) || recorded[key] != string(live.GetUID()) {
			m.t.Errorf("%s with UID %s, owned by %v, is recorded as %q, %v", key, live.GetUID(), live.GetOwnerReferences(), recorded[key], err)
		}
	}
	if len(recorded) != len(manifests) {
		m.t.Errorf("%d objects of %s are recorded, want %d: %v", len(recorded), work, len(manifests), recorded)
	}
	for _, kind := range []string{v1alpha1.ConditionApplied, v1alpha1.ConditionPruned} {
		if !meta.IsStatusConditionTrue(record.Status.Conditions, kind) {
			m.t.Errorf("condition %s of %s: %+v", kind, work, record.Status.Conditions)
		}
	}
	return record
}

// left requires an object to be there as if no work had ever had it.
func (m *managed) left(before *unstructured.Unstructured, manifest string) {
	m.t.Helper()
	live := m.get(manifest)
	if live == nil || live.GetUID() != before.GetUID() || len(live.GetOwnerReferences()) > 0 || len(live.GetAnnotations()) > 0 {
		m.t.Errorf("what was there before the work is %v", live)
	}
}

func (m *managed) gone(work string, manifests ...string) {
	m.t.Helper()
	for _, manifest := range manifests {
		if live := m.get(manifest); live != nil {
			m.t.Errorf("%s %s is there", live.GetKind(), live.GetName())
		}
	}
	if record := m.record(work); record != nil {
		m.t.Errorf("the AppliedWork of %s is there: %+v", work, record)
	}
}

func configMapText(name, value string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default"},"data":{"value":%q}}`, name, value)
}

func clusterRoleText(name string) string {
	return fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`, name)
}

// TestWorkAgentExample is the agent of the quickstart on a real cluster, with the broker between it and the hub.
func TestWorkAgentExample(t *testing.T) {
	t.Parallel()
	broker := mosquitto.Start(t, mosquitto.Options{})
	cluster := kube.Start(t, kube.Options{})
	cluster.StartControllerManager()
	h := newHub(t, broker)
	admin := dynamic.NewForConfigOrDie(cluster.Config())
	binary := buildExample(t, "./examples/quickstart/work-agent")
	newManaged := func(t *testing.T, name string) *managed {
		own := *h
		own.t = t
		m := &managed{t: t, hub: &own, name: name, admin: admin, agent: newAgentProcess(t, binary, cluster.Config(), broker.URL(), name)}
		m.agent.run()
		return m
	}
	// The first agent installs the CRD.
	t.Run("Story", func(t *testing.T) { newManaged(t, "cluster1").story() })
	t.Run("Shared", func(t *testing.T) { newManaged(t, "cluster2").shared() })
	t.Run("Strategies", func(t *testing.T) { newManaged(t, "cluster3").strategies() })
	for _, executed := range []bool{false, true} {
		for _, phase := range []string{"create", "update", "delete"} {
			t.Run(fmt.Sprintf("Killed/%s/executed=%v", phase, executed), func(t *testing.T) {
				t.Parallel()
				newManaged(t, fmt.Sprintf("killed-%s-%v", phase, executed)).killed(phase, executed)
			})
		}
	}
	t.Run("Quickstart", func(t *testing.T) {
		t.Parallel()
		command := exec.CommandContext(t.Context(), "go", "run", "./examples/quickstart", "--kubeconfig", cluster.Kubeconfig(), "--broker", broker.URL())
		command.Dir = "../.."
		out, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "\nDone. 6 files for 1 cluster") {
			t.Errorf("%v\n%s", err, out)
		}
		m := &managed{t: t, admin: admin}
		for _, manifest := range []string{
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"quickstart"}}`,
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"greetings.quickstart.spokewire.github.io"}}`,
		} {
			if m.get(manifest) != nil {
				t.Errorf("the quickstart has left %s", manifest)
			}
		}
	})
}

// story is the life of a work: applied, changed, and deleted.
func (m *managed) story() {
	t, h := m.t, m.hub
	before := m.existing(configMapText("found", "theirs"))
	found, role := configMapText("found", "ours"), clusterRoleText("story")
	all := []string{namespace, settings("1"), web, tenants, tenantCRD, tenant, role, found}
	h.create(m.name, "shop", all...)
	h.eventuallyApplied(m.name, "shop", 1, len(all))
	record := m.owns("shop", all...)
	if value, _, _ := unstructured.NestedString(m.get(found).Object, "data", "value"); value != "ours" {
		t.Errorf("the value of what was adopted is %q", value)
	}

	uid := m.get(settings("1")).GetUID()
	h.update(m.name, "shop", namespace, settings("2"), tenants, tenantCRD, tenant, found)
	h.eventuallyApplied(m.name, "shop", 2, 6)
	eventually(t, "what the work does not have any more is pruned", func() error {
		if m.get(web) != nil || m.get(role) != nil || len(m.record("shop").Status.AppliedResources) != 6 {
			return errors.New("it is not")
		}
		return nil
	})
	if again := m.owns("shop", namespace, settings("2"), tenants, tenantCRD, tenant, found); again.UID != record.UID {
		t.Error("the AppliedWork is another")
	}
	if live := m.get(settings("2")); live.GetUID() != uid {
		t.Error("the changed object is another")
	}
	h.delete(m.name, "shop")
	h.eventuallyGone(m.name, "shop")
	m.gone("shop", namespace, settings("2"), tenants, tenantCRD)
	m.left(before, found)
}

// shared: what two works have goes with the last of them; what somebody else owns is refused, and said so.
func (m *managed) shared() {
	t, h := m.t, m.hub
	both := configMapText("shared", "1")
	h.create(m.name, "one", both, configMapText("one", "1"))
	h.eventuallyApplied(m.name, "one", 1, 2)
	h.create(m.name, "two", both)
	h.eventuallyApplied(m.name, "two", 1, 1)
	m.owns("one", both, configMapText("one", "1"))
	m.owns("two", both)
	h.delete(m.name, "one")
	h.eventuallyGone(m.name, "one")
	m.gone("one", configMapText("one", "1"))
	m.owns("two", both)

	owner := m.existing(configMapText("owner", ""))
	owned := &unstructured.Unstructured{}
	if err := owned.UnmarshalJSON([]byte(configMapText("owned", "theirs"))); err != nil {
		t.Fatal(err)
	}
	owned.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.GetUID()}})
	if _, err := m.admin.Resource(configMaps).Namespace("default").Create(t.Context(), owned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.update(m.name, "two", configMapText("owned", "ours"), configMapText("three", "1"))
	eventually(t, "the refusal is reported", func() error {
		w, err := h.source.Clientset().WorkV1().ManifestWorks(m.name).Get(t.Context(), "two", metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
		if c == nil || c.ObservedGeneration != 2 || !strings.Contains(c.Message, "default/owned exists and is owned by ConfigMap owner") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	if m.get(configMapText("three", "")) == nil {
		t.Error("one refusal has kept the others from being applied")
	}
	if live := m.get(configMapText("owned", "")); len(live.GetOwnerReferences()) != 1 || live.Object["data"].(map[string]any)["value"] != "theirs" {
		t.Errorf("what somebody else owns is %v", live)
	}
	h.delete(m.name, "two")
	h.eventuallyGone(m.name, "two")
	m.gone("two", both, configMapText("three", ""))
	if m.get(configMapText("owned", "")) == nil {
		t.Error("what somebody else owns is gone")
	}
}

// strategies: how a manifest is to be updated, and what is to stay, is the work's to say.
func (m *managed) strategies() {
	t, h := m.t, m.hub
	names := []string{"create-only", "read-only", "apply"}
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "strategies"}}
	var manifests []string
	for i, strategy := range []workv1.UpdateStrategyType{
		workv1.UpdateStrategyTypeCreateOnly, workv1.UpdateStrategyTypeReadOnly, workv1.UpdateStrategyTypeServerSideApply,
	} {
		m.existing(configMapText(names[i], "theirs"))
		manifests = append(manifests, configMapText(names[i], "ours"))
		w.Spec.ManifestConfigs = append(w.Spec.ManifestConfigs, workv1.ManifestConfigOption{
			ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "default", Name: names[i]},
			UpdateStrategy:     &workv1.UpdateStrategy{Type: strategy},
		})
	}
	stays := configMapText("stays", "ours")
	w.Spec.Workload = spec(append(manifests, stays)...).Workload
	w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
	works := h.source.Clientset().WorkV1().ManifestWorks(m.name)
	if _, err := works.Create(t.Context(), w, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the conflict is reported, and the others are applied", func() error {
		w, err := works.Get(t.Context(), "strategies", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(w.Status.ResourceStatus.Manifests) != 4 {
			return errors.New("nothing is reported")
		}
		for i, want := range []bool{true, true, false, true} {
			c := meta.FindStatusCondition(w.Status.ResourceStatus.Manifests[i].Conditions, workv1.ManifestApplied)
			if c == nil || (c.Status == metav1.ConditionTrue) != want || !want && !strings.Contains(c.Message, "somebody") {
				return fmt.Errorf("manifest %d: %+v", i, c)
			}
		}
		return nil
	})
	for _, manifest := range manifests {
		if live := m.get(manifest); live.Object["data"].(map[string]any)["value"] != "theirs" || len(live.GetOwnerReferences()) > 0 {
			t.Errorf("%v", live)
		}
	}
	h.delete(m.name, "strategies")
	h.eventuallyGone(m.name, "strategies")
	eventually(t, "Kubernetes lets go of the AppliedWork whose objects stay", func() error {
		if m.record("strategies") != nil {
			return errors.New("it is there")
		}
		return nil
	})
	if live := m.get(stays); live == nil || len(live.GetOwnerReferences()) > 0 {
		t.Errorf("what the delete option leaves is %v", live)
	}
}

// killed kills the process at the first write of a phase of a work's life, at the second, and so on, until the phase
// needs fewer; each time another process goes on, and nothing is lost.
func (m *managed) killed(phase string, executed bool) {
	t, h := m.t, m.hub
	for n := 1; ; n++ {
		id := fmt.Sprintf("%s-%d", m.name, n)
		before := m.existing(configMapText(id+"-found", "theirs"))
		found, a, b := configMapText(id+"-found", "ours"), configMapText(id+"-a", "1"), configMapText(id+"-b", "1")
		changed, role := configMapText(id+"-a", "2"), clusterRoleText(id)
		alive := func(what string, check func() error) {
			t.Helper()
			eventually(t, what, func() error { m.agent.run(); return check() })
		}
		during := func(now string, do func(), until func()) (killed bool) {
			if now == phase {
				m.agent.arm(n, executed)
			}
			do()
			until()
			return m.agent.disarm() && now == phase
		}
		applied := func(generation int64, manifests ...string) func() {
			return func() {
				t.Helper()
				alive(fmt.Sprintf("generation %d of %s is applied", generation, id), func() error {
					return m.applied(id, generation, len(manifests))
				})
				m.owns(id, manifests...)
			}
		}
		hit := during("create", func() { h.create(m.name, id, a, b, role, found) }, applied(1, a, b, role, found))
		hit = during("update", func() { h.update(m.name, id, changed, role, found) }, applied(2, changed, role, found)) || hit
		if m.get(b) != nil {
			t.Errorf("%s: what was pruned is there", id)
		}
		hit = during("delete", func() { h.delete(m.name, id) }, func() {
			alive(id+" is gone", func() error {
				if _, ok, _ := h.store.GetByKey(m.name + "/" + id); ok {
					return errors.New("it is there")
				}
				return nil
			})
		}) || hit
		m.gone(id, a, b, role)
		m.left(before, found)
		if t.Failed() || !hit {
			t.Logf("%d writes", n-1)
			if n < 3 {
				t.Errorf("the process was killed at %d writes: too few to be true", n-1)
			}
			return
		}
	}
}

// applied returns why a generation is not reported as applied.
func (m *managed) applied(work string, generation int64, manifests int) error {
	obj, ok, err := m.hub.store.GetByKey(m.name + "/" + work)
	if err != nil || !ok {
		return fmt.Errorf("it is not in the informer: %w", err)
	}
	w := obj.(*workv1.ManifestWork)
	c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
	if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != generation || len(w.Status.ResourceStatus.Manifests) != manifests {
		return fmt.Errorf("%+v", c)
	}
	return nil
}
