// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"context"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/internal/aggregate"
)

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
