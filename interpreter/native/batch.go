// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"context"
	"slices"

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

// aggregateJob makes only changes that the Job controller could make: the API server rejects others.
// No counter decreases, the start time stays, and an end is final.
func aggregateJob(_ context.Context, j *batchv1.Job, items []interpreter.AggregatedStatusItem) error {
	before := &j.Status
	if jobCondition(before.Conditions, batchv1.JobFailed) != nil ||
		jobCondition(before.Conditions, batchv1.JobComplete) != nil {
		return nil
	}
	var sum batchv1.JobStatus
	var ends jobEnds
	_, err := eachStatus(items, func(cluster string, s *batchv1.JobStatus) {
		count(&sum.Active, s.Active)
		count(&sum.Succeeded, s.Succeeded)
		count(&sum.Failed, s.Failed)
		sum.Ready = plus(sum.Ready, s.Ready)
		sum.Terminating = plus(sum.Terminating, s.Terminating)
		sum.StartTime = earlier(sum.StartTime, s.StartTime)
		sum.CompletionTime = aggregate.Later(sum.CompletionTime, s.CompletionTime)
		ends.add(cluster, s.Conditions)
	})
	if err != nil {
		return err
	}
	if sum.Conditions, err = conditions(before.Conditions, items); err != nil {
		return err
	}
	sum.Succeeded, sum.Failed = max(sum.Succeeded, before.Succeeded), max(sum.Failed, before.Failed)
	if before.StartTime != nil && !deref(j.Spec.Suspend) && !resumes(before, &sum) {
		sum.StartTime = before.StartTime
	}
	if err := ends.conclude(before, &sum, len(items)); err != nil {
		return err
	}
	j.Status = sum
	return nil
}

// resumes reports whether a job is no longer suspended: only then may its start time change.
func resumes(before, now *batchv1.JobStatus) bool {
	return jobCondition(before.Conditions, batchv1.JobSuspended) != nil &&
		slices.ContainsFunc(now.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionFalse
		})
}

// plus counts optional numbers. The result is nil only if both are nil.
func plus(sum, n *int32) *int32 {
	if n == nil {
		return sum
	}
	out := deref(sum)
	count(&out, *n)
	return &out
}

// jobEnds records the end of a job on clusters.
type jobEnds struct {
	failing, succeeding []report // reports of failing and of succeeding clusters
	ended, complete     int
}

func (e *jobEnds) add(cluster string, list []batchv1.JobCondition) {
	failed, complete := jobCondition(list, batchv1.JobFailed), jobCondition(list, batchv1.JobComplete)
	if c := cmp.Or(failed, jobCondition(list, batchv1.JobFailureTarget)); c != nil {
		e.failing = append(e.failing, reportOf(cluster, c))
	}
	if c := cmp.Or(complete, jobCondition(list, batchv1.JobSuccessCriteriaMet)); c != nil {
		e.succeeding = append(e.succeeding, reportOf(cluster, c))
	}
	if failed != nil || complete != nil {
		e.ended++
	}
	if complete != nil {
		e.complete++
	}
}

func reportOf(cluster string, c *batchv1.JobCondition) report {
	return report{Cluster: cluster, Condition: condition{
		Type: string(c.Type), Status: c.Status, Reason: c.Reason, Message: c.Message,
		LastProbeTime: c.LastProbeTime, LastTransitionTime: c.LastTransitionTime,
	}}
}

// conclude adds the conditions of the end. An announced end is not withdrawn, and success and
// failure exclude each other.
func (e *jobEnds) conclude(before, sum *batchv1.JobStatus, clusters int) error {
	sum.Conditions = slices.DeleteFunc(slices.Clone(sum.Conditions), func(c batchv1.JobCondition) bool {
		return conditionRules[string(c.Type)] == aggregate.RuleSeparate
	})
	toFail := jobCondition(before.Conditions, batchv1.JobFailureTarget)
	toSucceed := jobCondition(before.Conditions, batchv1.JobSuccessCriteriaMet)
	over := sum.Active == 0 && deref(sum.Terminating) == 0 && sum.StartTime != nil
	completed := sum.CompletionTime
	sum.CompletionTime = nil // only a complete job has it
	switch {
	case toFail != nil, toSucceed == nil && len(e.failing) > 0:
		return conclusion(sum, toFail, e.failing, batchv1.JobFailureTarget, batchv1.JobFailed, over && e.ended == clusters)
	case toSucceed != nil, clusters > 0 && len(e.succeeding) == clusters:
		complete := over && completed != nil && e.complete == clusters
		if complete {
			sum.CompletionTime = aggregate.Later(completed, sum.StartTime)
		}
		return conclusion(sum, toSucceed, e.succeeding, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete, complete)
	}
	return nil
}

// conclusion adds the condition that announces the end, unchanged if it was set before, and the
// condition of the end if the job is over.
func conclusion(
	sum *batchv1.JobStatus, announced *batchv1.JobCondition, reports []report,
	target, end batchv1.JobConditionType, over bool,
) error {
	slices.SortStableFunc(reports, func(a, b report) int { return cmp.Compare(a.Cluster, b.Cluster) })
	added := []condition{aggregate.Merged(string(target), corev1.ConditionTrue, reports, nil)}
	if announced != nil {
		added[0] = reportOf("", announced).Condition
	}
	if over {
		last := added[0]
		last.Type = string(end)
		last.LastTransitionTime = aggregate.Merged("", "", reports, nil).LastTransitionTime
		added = append(added, last)
	}
	list, err := convert[batchv1.JobCondition](added)
	sum.Conditions = append(sum.Conditions, list...)
	return err
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
