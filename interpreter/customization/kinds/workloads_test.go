// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/customization/kinds"
	"github.com/spokewire/sdk-go/interpreter/interpretertest"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// workloads are the files with cases of kinds that Karmada interprets too. TestKarmadaKinds of
// internal/peers has more cases.
var workloads = []string{"apps.kruise.io", "fluxcd.io", "kubeflow.org", "ray.io", "workloads"}

func TestWorkloads(t *testing.T) {
	for _, name := range workloads {
		t.Run(name, func(t *testing.T) { interpretertest.RunFile(t, kinds.New(), "testdata/"+name+".yaml") })
	}
}

// groups are the API groups of the workloads.
var groups = []string{
	"apps.kruise.io", "batch.volcano.sh", "flink.apache.org", "helm.toolkit.fluxcd.io", "kubeflow.org",
	"kustomize.toolkit.fluxcd.io", "kyverno.io", "ray.io", "source.toolkit.fluxcd.io", "sparkoperator.k8s.io",
}

// TestObjectsWithoutSpec checks that no expression requires a field. An object that no controller
// has observed is not healthy, and causes no error.
func TestObjectsWithoutSpec(t *testing.T) {
	all := kinds.New()
	for _, gvk := range all.Kinds() {
		if !slices.Contains(groups, gvk.Group) {
			continue
		}
		for _, operation := range v1alpha1.InterpreterOperations() {
			if !all.Supports(gvk, operation) {
				continue
			}
			object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}}}
			object.SetGroupVersionKind(gvk)
			answer, err := all.Interpret(
				t.Context(),
				interpreter.Query{Operation: operation, Object: object, Observed: object},
			)
			if err != nil && !errors.Is(err, interpreter.ErrNotInterpreted) {
				t.Errorf("%s of %s: %v", operation, gvk.Kind, err)
			}
			if operation == v1alpha1.InterpreterOperationInterpretHealth && answer.Healthy {
				t.Errorf("%s without a status is healthy", gvk.Kind)
			}
		}
	}
}
