// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// CRD returns the CRD as an object, for example to write it to a file or to change it before it is
// installed.
func ExampleCRD() {
	crd := v1alpha1.CRD()
	scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope")
	fmt.Println(crd.GetKind(), crd.GetName(), scope)
	// Output: CustomResourceDefinition appliedworks.multicluster.x-k8s.io Cluster
}

// With a cluster, the client is client.Resource(v1alpha1.CRDResource) of a dynamic client.
func ExampleEnsureCRD() {
	client := &server{} // stands for a cluster
	fmt.Println("first: ", v1alpha1.EnsureCRD(context.Background(), client), client.writes, "write")
	fmt.Println("again: ", v1alpha1.EnsureCRD(context.Background(), client), client.writes, "write")
	// Output:
	// first:  <nil> 1 write
	// again:  <nil> 1 write
}

// A client of controller-runtime with these types in its scheme can read AppliedWorks.
func ExampleAddToScheme() {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(scheme.Recognizes(v1alpha1.GroupVersionKind))
	// Output: true
}
