// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/interpreter"
)

// RetainReplicasLabel is a label of the desired object. If its value is true, Retain keeps the
// number of replicas on the cluster.
const RetainReplicasLabel = "resourcetemplate.karmada.io/retain-replicas"

// orOne returns the replicas, or the default of the API server, 1.
func orOne(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// replicated returns a handler with the common operations of workloads with replicas.
func replicated[T metav1.Object](parts func(T) (replicas **int32, template *corev1.PodSpec)) interpreter.HandlerFor[T] {
	return interpreter.HandlerFor[T]{
		Replica: func(_ context.Context, object T) (int32, *interpreter.ReplicaRequirements, error) {
			replicas, template := parts(object)
			return orOne(*replicas), Requirements(template, object.GetNamespace()), nil
		},
		Revise: func(_ context.Context, object T, n int32) error {
			replicas, _ := parts(object)
			*replicas = &n
			return nil
		},
		Retain: func(_ context.Context, desired, observed T) error {
			replicas, _ := parts(desired)
			running, _ := parts(observed)
			if desired.GetLabels()[RetainReplicasLabel] == "true" && *running != nil {
				*replicas = *running
			}
			return nil
		},
		Dependencies: func(_ context.Context, object T) ([]interpreter.DependentObjectReference, error) {
			_, template := parts(object)
			return Dependencies(template, object.GetNamespace()), nil
		},
	}
}

func deployment() interpreter.HandlerFor[*appsv1.Deployment] {
	h := replicated(func(d *appsv1.Deployment) (**int32, *corev1.PodSpec) {
		return &d.Spec.Replicas, &d.Spec.Template.Spec
	})
	h.Aggregate = aggregateDeployment
	h.Health = func(_ context.Context, d *appsv1.Deployment) (bool, error) { return deploymentHealthy(d), nil }
	return h
}

func deploymentHealthy(d *appsv1.Deployment) bool {
	s := &d.Status
	for _, c := range s.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse &&
			c.Reason == "ProgressDeadlineExceeded" {
			return false
		}
	}
	// As in kubectl rollout status: all replicas have the newest template and are available, and no
	// older replicas are left.
	return isObserved(s.ObservedGeneration, d.Generation) && s.UpdatedReplicas >= orOne(d.Spec.Replicas) &&
		s.Replicas <= s.UpdatedReplicas && s.AvailableReplicas >= s.UpdatedReplicas
}

func aggregateDeployment(_ context.Context, d *appsv1.Deployment, items []interpreter.AggregatedStatusItem) error {
	sum := appsv1.DeploymentStatus{CollisionCount: d.Status.CollisionCount}
	add := func(_ string, s *appsv1.DeploymentStatus) {
		count(&sum.Replicas, s.Replicas)
		count(&sum.ReadyReplicas, s.ReadyReplicas)
		count(&sum.UpdatedReplicas, s.UpdatedReplicas)
		count(&sum.AvailableReplicas, s.AvailableReplicas)
		count(&sum.UnavailableReplicas, s.UnavailableReplicas)
		sum.TerminatingReplicas = plus(sum.TerminatingReplicas, s.TerminatingReplicas)
	}
	var err error
	sum.ObservedGeneration, sum.Conditions, err = aggregateStatus(
		d.Generation, d.Status.ObservedGeneration, d.Status.Conditions, items, add)
	d.Status = sum
	return err
}

func statefulSet() interpreter.HandlerFor[*appsv1.StatefulSet] {
	h := replicated(func(s *appsv1.StatefulSet) (**int32, *corev1.PodSpec) {
		return &s.Spec.Replicas, &s.Spec.Template.Spec
	})
	h.Dependencies = func(_ context.Context, s *appsv1.StatefulSet) ([]interpreter.DependentObjectReference, error) {
		return statefulSetDependencies(s), nil
	}
	h.Aggregate = aggregateStatefulSet
	h.Health = func(_ context.Context, s *appsv1.StatefulSet) (bool, error) { return statefulSetHealthy(s), nil }
	return h
}

func aggregateStatefulSet(_ context.Context, set *appsv1.StatefulSet, items []interpreter.AggregatedStatusItem) error {
	sum := appsv1.StatefulSetStatus{
		CollisionCount: set.Status.CollisionCount, CurrentRevision: set.Status.CurrentRevision,
		UpdateRevision: set.Status.UpdateRevision,
	}
	add := func(_ string, s *appsv1.StatefulSetStatus) {
		count(&sum.Replicas, s.Replicas)
		count(&sum.ReadyReplicas, s.ReadyReplicas)
		count(&sum.CurrentReplicas, s.CurrentReplicas)
		count(&sum.UpdatedReplicas, s.UpdatedReplicas)
		count(&sum.AvailableReplicas, s.AvailableReplicas)
	}
	var err error
	sum.ObservedGeneration, sum.Conditions, err = aggregateStatus(
		set.Generation, set.Status.ObservedGeneration, set.Status.Conditions, items, add)
	set.Status = sum
	return err
}

// statefulSetDependencies omits the claims that the controller makes from templates.
func statefulSetDependencies(s *appsv1.StatefulSet) []interpreter.DependentObjectReference {
	spec := s.Spec.Template.Spec
	own := map[string]bool{}
	for i := range s.Spec.VolumeClaimTemplates {
		own[s.Spec.VolumeClaimTemplates[i].Name] = true
	}
	var volumes []corev1.Volume
	for _, v := range spec.Volumes {
		if v.PersistentVolumeClaim == nil || !own[v.Name] { // a template replaces the volume of its name
			volumes = append(volumes, v)
		}
	}
	spec.Volumes = volumes
	return Dependencies(&spec, s.Namespace)
}

func statefulSetHealthy(s *appsv1.StatefulSet) bool {
	replicas := orOne(s.Spec.Replicas)
	if !isObserved(s.Status.ObservedGeneration, s.Generation) ||
		s.Status.AvailableReplicas < max(replicas, s.Status.UpdatedReplicas) {
		return false
	}
	if s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return true // deleted pods are replaced
	}
	updated := replicas
	if u := s.Spec.UpdateStrategy.RollingUpdate; u != nil && u.Partition != nil {
		updated = max(0, replicas-*u.Partition)
	}
	return s.Status.UpdatedReplicas >= updated
}
