// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/spokewire/sdk-go/interpreter"
)

func daemonSet() interpreter.HandlerFor[*appsv1.DaemonSet] {
	type object = *appsv1.DaemonSet
	return interpreter.HandlerFor[object]{
		Aggregate: aggregateDaemonSet,
		Dependencies: func(_ context.Context, d object) ([]interpreter.DependentObjectReference, error) {
			return Dependencies(&d.Spec.Template.Spec, d.Namespace), nil
		},
		Health: func(_ context.Context, d object) (bool, error) {
			s := &d.Status
			updated := d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType ||
				s.UpdatedNumberScheduled >= s.DesiredNumberScheduled
			return isObserved(s.ObservedGeneration, d.Generation) && updated &&
				s.NumberAvailable >= max(s.DesiredNumberScheduled, s.UpdatedNumberScheduled), nil
		},
	}
}

func aggregateDaemonSet(_ context.Context, d *appsv1.DaemonSet, items []interpreter.AggregatedStatusItem) error {
	sum := appsv1.DaemonSetStatus{CollisionCount: d.Status.CollisionCount}
	add := func(_ string, s *appsv1.DaemonSetStatus) {
		count(&sum.CurrentNumberScheduled, s.CurrentNumberScheduled)
		count(&sum.NumberMisscheduled, s.NumberMisscheduled)
		count(&sum.DesiredNumberScheduled, s.DesiredNumberScheduled)
		count(&sum.NumberReady, s.NumberReady)
		count(&sum.UpdatedNumberScheduled, s.UpdatedNumberScheduled)
		count(&sum.NumberAvailable, s.NumberAvailable)
		count(&sum.NumberUnavailable, s.NumberUnavailable)
	}
	var err error
	sum.ObservedGeneration, sum.Conditions, err = aggregateStatus(
		d.Generation, d.Status.ObservedGeneration, d.Status.Conditions, items, add)
	d.Status = sum
	return err
}

func replicaSet() interpreter.HandlerFor[*appsv1.ReplicaSet] {
	h := replicated(func(r *appsv1.ReplicaSet) (**int32, *corev1.PodSpec) {
		return &r.Spec.Replicas, &r.Spec.Template.Spec
	})
	h.Aggregate = aggregateReplicaSet
	h.Health = func(_ context.Context, r *appsv1.ReplicaSet) (bool, error) {
		return isObserved(r.Status.ObservedGeneration, r.Generation) &&
			r.Status.AvailableReplicas >= orOne(r.Spec.Replicas), nil
	}
	return h
}

func aggregateReplicaSet(_ context.Context, r *appsv1.ReplicaSet, items []interpreter.AggregatedStatusItem) error {
	var sum appsv1.ReplicaSetStatus
	add := func(_ string, s *appsv1.ReplicaSetStatus) {
		count(&sum.Replicas, s.Replicas)
		count(&sum.FullyLabeledReplicas, s.FullyLabeledReplicas)
		count(&sum.ReadyReplicas, s.ReadyReplicas)
		count(&sum.AvailableReplicas, s.AvailableReplicas)
	}
	var err error
	sum.ObservedGeneration, sum.Conditions, err = aggregateStatus(
		r.Generation, r.Status.ObservedGeneration, r.Status.Conditions, items, add)
	r.Status = sum
	return err
}
