// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/native"
)

// Workload is a custom resource that runs pods, workload.example.io/v1alpha1.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec struct {
		Replicas *int32                 `json:"replicas,omitempty"`
		Paused   bool                   `json:"paused,omitempty"`
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
	Status Status `json:"status,omitempty"`
}

// Status is the observed state of a Workload.
type Status struct {
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
}

// workloadHandler returns the handler for Workloads.
func workloadHandler() interpreter.HandlerFor[*Workload] {
	return interpreter.HandlerFor[*Workload]{
		Replica: func(_ context.Context, w *Workload) (int32, *interpreter.ReplicaRequirements, error) {
			return ptr.Deref(w.Spec.Replicas, 1), native.Requirements(&w.Spec.Template.Spec, w.Namespace), nil
		},
		Revise: func(_ context.Context, w *Workload, replicas int32) error {
			w.Spec.Replicas = &replicas
			return nil
		},
		Retain: func(_ context.Context, desired, observed *Workload) error {
			desired.Spec.Paused = observed.Spec.Paused // users pause a workload on its cluster
			return nil
		},
		Aggregate: func(_ context.Context, w *Workload, items []interpreter.AggregatedStatusItem) error {
			w.Status.ReadyReplicas = 0 // the sum of all clusters
			for _, item := range items {
				if item.Status == nil {
					continue
				}
				var s Status
				if err := json.Unmarshal(item.Status.Raw, &s); err != nil {
					return fmt.Errorf("the status on %s: %w", item.ClusterName, err)
				}
				w.Status.ReadyReplicas += s.ReadyReplicas
			}
			return nil
		},
		Dependencies: func(_ context.Context, w *Workload) ([]interpreter.DependentObjectReference, error) {
			return native.Dependencies(&w.Spec.Template.Spec, w.Namespace), nil
		},
		Status: func(_ context.Context, w *Workload) (any, error) { return w.Status, nil },
		Health: func(_ context.Context, w *Workload) (bool, error) {
			return w.Status.ReadyReplicas >= ptr.Deref(w.Spec.Replicas, 1), nil
		},
	}
}
