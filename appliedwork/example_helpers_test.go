// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

func ExampleIdentify() {
	key, err := appliedwork.Identify(manifest("settings", "1"))
	fmt.Println(key, err)

	generated := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"namespace": "shop", "generateName": "import-"},
	}}
	_, err = appliedwork.Identify(generated)
	fmt.Println(errors.Is(err, appliedwork.ErrGenerateName), err)
	// Output:
	// ConfigMap shop/settings <nil>
	// true an object with generateName cannot be applied: give it a metadata.name: Job.batch shop/ "import-"
}

// An identity has no version, and does not depend on the order of manifests.
func ExampleKeyOf() {
	old := v1alpha1.ResourceIdentifier{Ordinal: 3, Group: "apps", Version: "v1beta1", Kind: "Deployment",
		Namespace: "shop", Name: "web"}
	now := v1alpha1.ResourceIdentifier{Ordinal: 0, Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop",
		Name: "web"}
	fmt.Println(appliedwork.KeyOf(old), appliedwork.KeyOf(old) == appliedwork.KeyOf(now))
	// Output: Deployment.apps shop/web true
}

func ExampleOwnerReference() {
	work := &v1alpha1.AppliedWork{ObjectMeta: metav1.ObjectMeta{Name: "work-01", UID: "9664526d"}}
	r := appliedwork.OwnerReference(work)
	fmt.Println(r.APIVersion, r.Kind, r.Name, r.UID, "blocks:", *r.BlockOwnerDeletion, "controller:", r.Controller != nil)
	// Output: multicluster.x-k8s.io/v1alpha1 AppliedWork work-01 9664526d blocks: true controller: false
}

// An object may have several AppliedWorks: each sets and removes its own reference only.
func ExampleSetOwnerReference() {
	one := &v1alpha1.AppliedWork{ObjectMeta: metav1.ObjectMeta{Name: "one", UID: "1"}}
	two := &v1alpha1.AppliedWork{ObjectMeta: metav1.ObjectMeta{Name: "two", UID: "2"}}
	obj := manifest("settings", "1")
	fmt.Println("changed:", appliedwork.SetOwnerReference(obj, one), appliedwork.SetOwnerReference(obj, two),
		appliedwork.SetOwnerReference(obj, two))
	fmt.Println("removed:", appliedwork.RemoveOwnerReference(obj, one.UID))
	fmt.Println("owned by one, by two:", appliedwork.IsOwnedBy(obj, one.UID), appliedwork.IsOwnedBy(obj, two.UID))
	// Output:
	// changed: true true false
	// removed: true
	// owned by one, by two: false true
}

// The API server answers with 404 if an object does not exist, and also if its kind is not served.
// In the second case the object may exist.
func ExampleIsTypeNotServed() {
	gone := apierrors.NewNotFound(v1alpha1.Resource("appliedworks"), "work-01")
	notServed := apierrors.NewGenericServerResponse(404, "get", v1alpha1.Resource("appliedworks"), "work-01",
		"404 page not found", 0, true)
	fmt.Println(apierrors.IsNotFound(gone), appliedwork.IsTypeNotServed(gone))
	fmt.Println(apierrors.IsNotFound(notServed), appliedwork.IsTypeNotServed(notServed))
	// Output:
	// true false
	// true true
}

// Policies decide which objects stay: by rules like the delete option of a ManifestWork, or for
// single objects.
func ExamplePolicies_For() {
	database := v1alpha1.ResourceIdentifier{Version: "v1", Kind: "PersistentVolumeClaim",
		Resource: "persistentvolumeclaims", Namespace: "shop", Name: "database"}
	settings := v1alpha1.ResourceIdentifier{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "shop",
		Name: "settings"}
	policies := appliedwork.Policies{
		Default: appliedwork.PolicySelectivelyOrphan,
		Orphans: []appliedwork.OrphanRule{{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "database"}},
	}
	fmt.Println(policies.For(database), policies.For(settings))
	policies.ByKey = map[appliedwork.Key]appliedwork.Policy{appliedwork.KeyOf(settings): appliedwork.PolicyOrphan}
	fmt.Println(policies.For(database), policies.For(settings))
	// Output:
	// Orphan Delete
	// Orphan Orphan
}

func ExampleChangeSet() {
	key := appliedwork.Key{Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
	changes := &appliedwork.ChangeSet{Entries: []appliedwork.Change{
		{Key: key, UID: "1", Action: appliedwork.ActionConfigured},
		{Key: appliedwork.Key{Kind: "Secret", Namespace: "shop", Name: "password"}, Action: appliedwork.ActionFailed,
			Err: errors.New("denied")},
	}}
	change, _ := changes.Get(key)
	fmt.Println(changes, "| done:", changes.Done(), "| error:", changes.Err(), "|", change.Action)
	// Output: 1 configured, 1 failed | done: false | error: denied | configured
}

// To protect another namespace, append it to the defaults.
func ExampleDefaultProtected() {
	protected := append(appliedwork.DefaultProtected(), appliedwork.Key{Kind: "Namespace", Name: "agent"})
	for _, key := range protected {
		fmt.Println(key)
	}
	// Output:
	// Namespace default
	// Namespace kube-system
	// Namespace kube-public
	// Namespace kube-node-lease
	// CustomResourceDefinition.apiextensions.k8s.io appliedworks.multicluster.x-k8s.io
	// Namespace agent
}

// kubectl lists the objects of an AppliedWork by this label, if Options.ApplySet is set.
func ExampleApplySetID() {
	fmt.Println("applyset.kubernetes.io/part-of=" + appliedwork.ApplySetID("hub1-cluster1-shop"))
	// Output: applyset.kubernetes.io/part-of=applyset-ix1cocdtG8pXkcvtpV94At_Nr48aVEV4tpRXaqYO0F0-v1
}
