// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed" // the CRD
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// kind is the kind of policies.
var kind = schema.GroupVersionKind{Group: "policy.spokewire.example", Version: "v1", Kind: "Policy"}

//go:embed crd.yaml
var crd []byte

func newPolicy() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}

// installCRD creates or updates the CRD of policies, and waits until it is established. The time
// limit is 30 s.
func installCRD(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	want := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(crd, &want.Object); err != nil {
		return err
	}
	crds := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	options := metav1.ApplyOptions{FieldManager: "policy-watcher", Force: true}
	if _, err := crds.Apply(ctx, want.GetName(), want, options); err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true,
		func(ctx context.Context) (bool, error) {
			got, err := crds.Get(ctx, want.GetName(), metav1.GetOptions{})
			return err == nil && established(got), err
		})
	if err != nil {
		return fmt.Errorf("%s is not established: %w", want.GetName(), err)
	}
	return nil
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
			return true
		}
	}
	return false
}
