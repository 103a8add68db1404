// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

const workAPICRDFile = "../../appliedwork/testdata/upstream-crd.yaml"

// workAPICRD is the CRD of work-api.
func workAPICRD() *unstructured.Unstructured {
	crd := &unstructured.Unstructured{}
	text, err := os.ReadFile(workAPICRDFile)
	if err == nil {
		err = yaml.Unmarshal(text, &crd.Object)
	}
	if err != nil {
		panic(err)
	}
	return crd
}

// workAPIObjects returns objects as the CRD of work-api stores them.
func workAPIObjects(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile("../../appliedwork/testdata/upstream.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct{ Objects []json.RawMessage }
	if err := json.Unmarshal(content, &vectors); err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, raw := range vectors.Objects {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, obj)
	}
	return objects
}

// TestAppliedWorkComesFromWorkAPI runs on a cluster where work-api's controller has worked.
// EnsureCRD updates the CRD and loses nothing, and the helpers continue with its AppliedWork and
// its objects.
func TestAppliedWorkComesFromWorkAPI(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t, kube.Options{CRDs: []string{workAPICRDFile}})
	admin := dynamic.NewForConfigOrDie(cluster.Config())
	works := admin.Resource(v1alpha1.GroupVersionResource)
	var before []*unstructured.Unstructured
	for _, obj := range workAPIObjects(t) {
		stored, err := works.Create(t.Context(), obj, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if status, ok := obj.Object["status"]; ok {
			stored.Object["status"] = status
			if stored, err = works.UpdateStatus(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(status, stored.Object["status"]); diff != "" {
				t.Errorf("%s as stored (-want +got):\n%s", obj.GetName(), diff)
			}
		}
		before = append(before, stored)
	}
	if err := v1alpha1.EnsureCRD(t.Context(), admin.Resource(v1alpha1.CRDResource)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the rules of our CRD hold", func() error {
		other := before[0].DeepCopy()
		_ = unstructured.SetNestedField(other.Object, "another", "spec", "workName")
		_, err := works.Update(t.Context(), other, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsInvalid(err) {
			return errors.Join(errors.New("a spec can be changed"), err)
		}
		return nil
	})
	for _, obj := range before {
		now, err := works.Get(t.Context(), obj.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(obj.Object, now.Object); diff != "" {
			t.Errorf("%s with our CRD (-before +now):\n%s", obj.GetName(), diff)
		}
	}
	workAPITakeOver(t, cluster, admin)
}

// workAPITakeOver: objects that work-api's controller has applied are ours without adoption,
// because the AppliedWork is the same.
func workAPITakeOver(t *testing.T, cluster *kube.Cluster, admin dynamic.Interface) {
	t.Helper()
	theirs := &v1alpha1.AppliedWork{Spec: v1alpha1.AppliedWorkSpec{WorkName: "shop", WorkNamespace: "cluster1"}}
	theirs.SetGroupVersionKind(v1alpha1.GroupVersionKind)
	theirs.Name = "shop" // as the Work
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(theirs)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := admin.Resource(v1alpha1.GroupVersionResource).Create(t.Context(),
		&unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owner := metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "shop",
		UID: stored.GetUID(), BlockOwnerDeletion: new(false)}
	uids := map[string]any{}
	var entries []any
	for i, name := range []string{"kept", "stale"} {
		obj := configMapOf("default", name, "1")
		obj.SetOwnerReferences([]metav1.OwnerReference{owner})
		obj.SetAnnotations(map[string]string{"multicluster.x-k8s.io/spec-hash": "theirs"})
		made, err := admin.Resource(configMaps).Namespace("default").Create(t.Context(), obj,
			metav1.CreateOptions{FieldManager: "work-api-agent"})
		if err != nil {
			t.Fatal(err)
		}
		uids[name] = made.GetUID()
		entries = append(entries, map[string]any{"ordinal": int64(i), "version": "v1", "kind": "ConfigMap",
			"resource": "configmaps", "namespace": "default", "name": name, "uid": string(made.GetUID())})
	}
	stored.Object["status"] = map[string]any{"appliedResources": entries}
	if _, err := admin.Resource(v1alpha1.GroupVersionResource).UpdateStatus(t.Context(), stored,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}

	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: admin,
		Discovery: discovery.NewDiscoveryClientForConfigOrDie(cluster.Config())})
	if err != nil {
		t.Fatal(err)
	}
	work, err := tracker.Ensure(t.Context(), "shop", theirs.Spec)
	if err != nil || work.UID != stored.GetUID() {
		t.Fatalf("%v, %v", work, err)
	}
	desired := []*unstructured.Unstructured{configMapOf("default", "kept", "2")}
	_, err = appliedwork.NewApplier(tracker).Apply(t.Context(), work, desired, appliedwork.ApplyOptions{})
	var conflict *appliedwork.OwnershipConflictError
	if !errors.As(err, &conflict) {
		t.Errorf("without force: %v", err)
	}
	changes, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, desired,
		appliedwork.ApplyOptions{Force: true})
	if err != nil || changes.String() != "1 configured" {
		t.Errorf("%v, %v", changes, err)
	}
	live, err := admin.Resource(configMaps).Namespace("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owner.BlockOwnerDeletion = new(true)
	if diff := cmp.Diff([]metav1.OwnerReference{owner}, live.GetOwnerReferences()); diff != "" ||
		live.GetUID() != uids["kept"] {
		t.Errorf("UID %s, before %s; owners (-want +got):\n%s", live.GetUID(), uids["kept"], diff)
	}
	changes, err = appliedwork.NewPruner(tracker).Prune(t.Context(), work, desired, appliedwork.PruneOptions{})
	if err != nil || changes.String() != "1 deleted" {
		t.Errorf("%v, %v", changes, err)
	}
	changes, err = appliedwork.NewCollector(tracker).Teardown(t.Context(), work, appliedwork.TeardownOptions{})
	if err != nil || changes.String() != "1 deleted" {
		t.Errorf("%v, %v", changes, err)
	}
	if list, err := admin.Resource(configMaps).Namespace("default").List(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"}); err != nil || len(list.Items) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}
