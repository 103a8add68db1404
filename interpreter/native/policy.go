// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/internal/aggregate"
)

func disruptionBudget() interpreter.HandlerFor[*policyv1.PodDisruptionBudget] {
	type object = *policyv1.PodDisruptionBudget
	return interpreter.HandlerFor[object]{
		Aggregate: func(_ context.Context, b object, items []interpreter.AggregatedStatusItem) error {
			var sum policyv1.PodDisruptionBudgetStatus
			add := func(cluster string, s *policyv1.PodDisruptionBudgetStatus) {
				count(&sum.CurrentHealthy, s.CurrentHealthy)
				count(&sum.DesiredHealthy, s.DesiredHealthy)
				count(&sum.ExpectedPods, s.ExpectedPods)
				count(&sum.DisruptionsAllowed, s.DisruptionsAllowed)
				for pod, at := range s.DisruptedPods {
					if sum.DisruptedPods == nil {
						sum.DisruptedPods = map[string]metav1.Time{}
					}
					sum.DisruptedPods[cluster+"/"+pod] = at // pods of two clusters may have the same name
				}
			}
			var err error
			sum.ObservedGeneration, sum.Conditions, err = aggregateStatus(
				b.Generation, b.Status.ObservedGeneration, b.Status.Conditions, items, add)
			b.Status = sum
			return err
		},
		Health: func(_ context.Context, b object) (bool, error) {
			return isObserved(b.Status.ObservedGeneration, b.Generation) &&
				b.Status.CurrentHealthy >= b.Status.DesiredHealthy, nil
		},
	}
}

func autoscaler() interpreter.HandlerFor[*autoscalingv2.HorizontalPodAutoscaler] {
	type object = *autoscalingv2.HorizontalPodAutoscaler
	return interpreter.HandlerFor[object]{
		Aggregate: func(_ context.Context, h object, items []interpreter.AggregatedStatusItem) error {
			var sum autoscalingv2.HorizontalPodAutoscalerStatus
			add := func(_ string, s *autoscalingv2.HorizontalPodAutoscalerStatus) {
				count(&sum.CurrentReplicas, s.CurrentReplicas)
				count(&sum.DesiredReplicas, s.DesiredReplicas)
				sum.LastScaleTime = aggregate.Later(sum.LastScaleTime, s.LastScaleTime)
			}
			var seen int64
			var err error
			seen, sum.Conditions, err = aggregateStatus(
				h.Generation, deref(h.Status.ObservedGeneration), h.Status.Conditions, items, add)
			if seen > 0 {
				sum.ObservedGeneration = &seen
			}
			h.Status = sum
			return err
		},
		Health: func(_ context.Context, h object) (bool, error) { return autoscalerHealthy(h), nil },
	}
}

// autoscalerHealthy reports whether the controller can access the scale and the metrics. Scaling is
// disabled on purpose if the target has no replicas.
func autoscalerHealthy(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	if h.Status.ObservedGeneration != nil && !isObserved(*h.Status.ObservedGeneration, h.Generation) {
		return false
	}
	able := false
	for _, c := range h.Status.Conditions {
		switch {
		case c.Type == autoscalingv2.AbleToScale:
			able = c.Status == corev1.ConditionTrue
		case c.Type == autoscalingv2.ScalingActive && c.Status != corev1.ConditionTrue && c.Reason != "ScalingDisabled":
			return false
		}
	}
	return able
}
