// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed" // the CRD
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// installCRD creates or updates the CRD of policies, and waits until the API server serves them. The
// time limit is 30 s.
func installCRD(ctx context.Context, config *rest.Config) error {
	want, policies := &unstructured.Unstructured{}, &unstructured.UnstructuredList{}
	if err := yaml.Unmarshal(crd, &want.Object); err != nil {
		return err
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), client.FieldOwner("policy-watcher"),
		client.ForceOwnership)
	if err != nil {
		return err
	}
	policies.SetGroupVersionKind(kind)
	var problem error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true,
		func(ctx context.Context) (bool, error) {
			problem = c.List(ctx, policies)
			return problem == nil, nil
		})
	if err != nil {
		return fmt.Errorf("%s is not served: %w: %w", want.GetName(), err, problem)
	}
	return nil
}
