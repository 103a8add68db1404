// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/spokewire/sdk-go/interpreter"
)

// RetainReplicasLabel, set to true on an object, leaves the number of its replicas to the cluster: an autoscaler there
// decides.
const RetainReplicasLabel = "resourcetemplate.karmada.io/retain-replicas"

// orOne is what the API server makes of replicas that are not set.
func orOne(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// retainReplicas takes the replicas of the cluster where the object says so.
func retainReplicas(labels map[string]string, desired **int32, observed *int32) {
	if labels[RetainReplicasLabel] == "true" && observed != nil {
		*desired = observed
	}
}

func deployment() interpreter.HandlerFor[*appsv1.Deployment] {
	type object = *appsv1.Deployment
	return interpreter.HandlerFor[object]{
		Replica: func(_ context.Context, d object) (int32, *interpreter.ReplicaRequirements, error) {
			return orOne(d.Spec.Replicas), Requirements(&d.Spec.Template.Spec, d.Namespace), nil
		},
		Revise: func(_ context.Context, d object, replicas int32) error {
			d.Spec.Replicas = &replicas
			return nil
		},
		Retain: func(_ context.Context, desired, observed object) error {
			retainReplicas(desired.Labels, &desired.Spec.Replicas, observed.Spec.Replicas)
			return nil
		},
		Aggregate: aggregateDeployment,
		Dependencies: func(_ context.Context, d object) ([]interpreter.DependentObjectReference, error) {
			return Dependencies(&d.Spec.Template.Spec, d.Namespace), nil
		},
		Health: func(_ context.Context, d object) (bool, error) {
			s := &d.Status
			for _, c := range s.Conditions {
				if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded" {
					return false, nil
				}
			}
			// As kubectl rollout status: all replicas are of the newest template, no older ones are left, and all available.
			return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas >= orOne(d.Spec.Replicas) &&
				s.Replicas <= s.UpdatedReplicas && s.AvailableReplicas >= s.UpdatedReplicas, nil
		},
		Prune: func(_ context.Context, d object) error {
			pruneMeta(&d.ObjectMeta)
			d.Status = appsv1.DeploymentStatus{}
			return nil
		},
	}
}

func aggregateDeployment(_ context.Context, d *appsv1.Deployment, items []interpreter.AggregatedStatusItem) error {
	sum := appsv1.DeploymentStatus{CollisionCount: d.Status.CollisionCount}
	_, err := eachStatus(items, func(_ string, s *appsv1.DeploymentStatus) {
		sum.Replicas += s.Replicas
		sum.ReadyReplicas += s.ReadyReplicas
		sum.UpdatedReplicas += s.UpdatedReplicas
		sum.AvailableReplicas += s.AvailableReplicas
		sum.UnavailableReplicas += s.UnavailableReplicas
		if s.TerminatingReplicas != nil {
			if sum.TerminatingReplicas == nil {
				sum.TerminatingReplicas = new(int32)
			}
			*sum.TerminatingReplicas += *s.TerminatingReplicas
		}
	})
	if err != nil {
		return err
	}
	if sum.Conditions, err = conditions(d.Status.Conditions, items); err != nil {
		return err
	}
	sum.ObservedGeneration, err = observed(d.Generation, d.Status.ObservedGeneration, items)
	d.Status = sum
	return err
}

func statefulSet() interpreter.HandlerFor[*appsv1.StatefulSet] {
	type object = *appsv1.StatefulSet
	return interpreter.HandlerFor[object]{
		Replica: func(_ context.Context, s object) (int32, *interpreter.ReplicaRequirements, error) {
			return orOne(s.Spec.Replicas), Requirements(&s.Spec.Template.Spec, s.Namespace), nil
		},
		Revise: func(_ context.Context, s object, replicas int32) error {
			s.Spec.Replicas = &replicas
			return nil
		},
		Retain: func(_ context.Context, desired, observed object) error {
			retainReplicas(desired.Labels, &desired.Spec.Replicas, observed.Spec.Replicas)
			return nil
		},
		Aggregate: aggregateStatefulSet,
		Dependencies: func(_ context.Context, s object) ([]interpreter.DependentObjectReference, error) {
			return statefulSetDependencies(s), nil
		},
		Health: func(_ context.Context, s object) (bool, error) { return statefulSetHealthy(s), nil },
		Prune: func(_ context.Context, s object) error {
			pruneMeta(&s.ObjectMeta)
			s.Status = appsv1.StatefulSetStatus{}
			return nil
		},
	}
}

func aggregateStatefulSet(_ context.Context, set *appsv1.StatefulSet, items []interpreter.AggregatedStatusItem) error {
	sum := appsv1.StatefulSetStatus{CollisionCount: set.Status.CollisionCount, CurrentRevision: set.Status.CurrentRevision, UpdateRevision: set.Status.UpdateRevision}
	_, err := eachStatus(items, func(_ string, s *appsv1.StatefulSetStatus) {
		sum.Replicas += s.Replicas
		sum.ReadyReplicas += s.ReadyReplicas
		sum.CurrentReplicas += s.CurrentReplicas
		sum.UpdatedReplicas += s.UpdatedReplicas
		sum.AvailableReplicas += s.AvailableReplicas
	})
	if err != nil {
		return err
	}
	if sum.Conditions, err = conditions(set.Status.Conditions, items); err != nil {
		return err
	}
	sum.ObservedGeneration, err = observed(set.Generation, set.Status.ObservedGeneration, items)
	set.Status = sum
	return err
}

// statefulSetDependencies leaves out the claims that the controller makes of the set's templates.
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
	if s.Status.ObservedGeneration < s.Generation || s.Status.AvailableReplicas < replicas {
		return false
	}
	if s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return true // pods are replaced when somebody deletes them
	}
	updated := replicas
	if u := s.Spec.UpdateStrategy.RollingUpdate; u != nil && u.Partition != nil {
		updated = max(0, replicas-*u.Partition)
	}
	return s.Status.UpdatedReplicas >= updated
}
