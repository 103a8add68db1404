// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/internal/aggregate"
)

func job() interpreter.HandlerFor[*batchv1.Job] {
	type object = *batchv1.Job
	return interpreter.HandlerFor[object]{
		Replica: func(_ context.Context, j object) (int32, *interpreter.ReplicaRequirements, error) {
			replicas := orOne(j.Spec.Parallelism)
			if j.Spec.Completions != nil { // more pods than completions are never started
				replicas = min(replicas, *j.Spec.Completions)
			}
			return replicas, Requirements(&j.Spec.Template.Spec, j.Namespace), nil
		},
		Revise: func(_ context.Context, j object, replicas int32) error {
			j.Spec.Parallelism = &replicas
			return nil
		},
		Retain:    retainJob,
		Aggregate: aggregateJob,
		Dependencies: func(_ context.Context, j object) ([]interpreter.DependentObjectReference, error) {
			return Dependencies(&j.Spec.Template.Spec, j.Namespace), nil
		},
		Health: func(_ context.Context, j object) (bool, error) { return jobHealthy(j), nil },
	}
}

// retainJob keeps the selector and the labels that the API server of the cluster generated: they
// are immutable.
func retainJob(_ context.Context, desired, observed *batchv1.Job) error {
	if deref(desired.Spec.ManualSelector) {
		return nil
	}
	if observed.Spec.Selector != nil {
		if desired.Spec.Selector == nil {
			desired.Spec.Selector = &metav1.LabelSelector{}
		}
		desired.Spec.Selector.MatchLabels = observed.Spec.Selector.MatchLabels
	}
	for _, label := range jobLabels {
		value, there := observed.Spec.Template.Labels[label]
		if !there {
			continue
		}
		if desired.Spec.Template.Labels == nil {
			desired.Spec.Template.Labels = map[string]string{}
		}
		desired.Spec.Template.Labels[label] = value
	}
	return nil
}

// jobCondition returns the condition of a type if it is True, or nil.
func jobCondition(j []batchv1.JobCondition, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range j {
		if j[i].Type == kind && j[i].Status == corev1.ConditionTrue {
			return &j[i]
		}
	}
	return nil
}

func jobHealthy(j *batchv1.Job) bool {
	s := &j.Status
	switch {
	case jobCondition(s.Conditions, batchv1.JobFailed) != nil,
		jobCondition(s.Conditions, batchv1.JobFailureTarget) != nil:
		return false
	case jobCondition(s.Conditions, batchv1.JobComplete) != nil,
		jobCondition(s.Conditions, batchv1.JobSuccessCriteriaMet) != nil:
		return true
	}
	return deref(j.Spec.Suspend) || s.Active > 0
}

// deref returns the value, or the zero value for nil.
func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

// earlier returns the earlier of two times. Nil is later than any time.
func earlier(a, b *metav1.Time) *metav1.Time {
	if a == nil || b != nil && b.Before(a) {
		return b
	}
	return a
}

func cronJob() interpreter.HandlerFor[*batchv1.CronJob] {
	type object = *batchv1.CronJob
	return interpreter.HandlerFor[object]{
		DropUncertain: replacedStatus,

		Aggregate: func(_ context.Context, c object, items []interpreter.AggregatedStatusItem) error {
			var sum batchv1.CronJobStatus
			_, err := eachStatus(items, func(_ string, s *batchv1.CronJobStatus) {
				sum.Active = append(sum.Active, s.Active...)
				sum.LastScheduleTime = aggregate.Later(sum.LastScheduleTime, s.LastScheduleTime)
				sum.LastSuccessfulTime = aggregate.Later(sum.LastSuccessfulTime, s.LastSuccessfulTime)
			})
			if err == nil {
				c.Status = sum
			}
			return err
		},
		Dependencies: func(_ context.Context, c object) ([]interpreter.DependentObjectReference, error) {
			return Dependencies(&c.Spec.JobTemplate.Spec.Template.Spec, c.Namespace), nil
		},
		Health: func(_ context.Context, c object) (bool, error) { return cronJobHealthy(c), nil },
	}
}

func cronJobHealthy(c *batchv1.CronJob) bool {
	s := &c.Status
	if deref(c.Spec.Suspend) || s.LastScheduleTime == nil || len(s.Active) > 0 {
		return true
	}
	return s.LastSuccessfulTime != nil && s.LastSuccessfulTime.Unix() >= s.LastScheduleTime.Unix()
}
