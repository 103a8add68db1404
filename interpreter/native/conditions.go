// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/internal/aggregate"
)

// conditionRules are the rules of the types that controllers of Kubernetes set. For other types,
// the meaning of True is unknown.
var conditionRules = map[string]aggregate.Rule{
	string(appsv1.DeploymentAvailable):      aggregate.RuleOnAll,
	string(appsv1.DeploymentProgressing):    aggregate.RuleOnAll,
	string(appsv1.DeploymentReplicaFailure): aggregate.RuleOnOne, // also of ReplicaSets

	string(batchv1.JobSuspended):          aggregate.RuleOnAll,
	string(batchv1.JobSuccessCriteriaMet): aggregate.RuleSeparate,
	string(batchv1.JobComplete):           aggregate.RuleSeparate,
	string(batchv1.JobFailureTarget):      aggregate.RuleSeparate,
	string(batchv1.JobFailed):             aggregate.RuleSeparate,

	string(corev1.PodScheduled):              aggregate.RuleOnAll,
	string(corev1.PodInitialized):            aggregate.RuleOnAll,
	string(corev1.PodReadyToStartContainers): aggregate.RuleOnAll,
	string(corev1.ContainersReady):           aggregate.RuleOnAll,
	string(corev1.PodReady):                  aggregate.RuleOnAll,
	string(corev1.DisruptionTarget):          aggregate.RuleOnOne,
	string(corev1.AllContainersRestarting):   aggregate.RuleOnOne,
	string(corev1.PodResizePending):          aggregate.RuleOnOne,
	string(corev1.PodResizeInProgress):       aggregate.RuleOnOne,

	string(autoscalingv2.AbleToScale):    aggregate.RuleOnAll,
	string(autoscalingv2.ScalingActive):  aggregate.RuleOnAll,
	string(autoscalingv2.ScalingLimited): aggregate.RuleOnOne,
	string(autoscalingv2.ScaledToZero):   aggregate.RuleOnAll,

	policyv1.DisruptionAllowedCondition: aggregate.RuleOnOne, // then the sum of allowed disruptions is more than 0

	string(corev1.PersistentVolumeClaimUnused):                  aggregate.RuleOnAll,
	string(corev1.PersistentVolumeClaimResizing):                aggregate.RuleOnOne,
	string(corev1.PersistentVolumeClaimFileSystemResizePending): aggregate.RuleOnOne,
	string(corev1.PersistentVolumeClaimControllerResizeError):   aggregate.RuleOnOne,
	string(corev1.PersistentVolumeClaimNodeResizeError):         aggregate.RuleOnOne,
	string(corev1.PersistentVolumeClaimVolumeModifyingVolume):   aggregate.RuleOnOne,
	string(corev1.PersistentVolumeClaimVolumeModifyVolumeError): aggregate.RuleOnOne,
}

type (
	condition = aggregate.Condition
	report    = aggregate.Report
)

// conditions combines the conditions of clusters as [aggregate.Conditions] does. If all clusters report
// a status and no condition, it returns the earlier conditions.
func conditions[C any](before []C, items []interpreter.AggregatedStatusItem) ([]C, error) {
	reports, silent, err := reported(items)
	if err != nil || len(reports) == 0 && silent == 0 {
		return before, err
	}
	earlier, err := convert[condition](before)
	if err != nil {
		return before, err
	}
	return convert[C](aggregate.Conditions(earlier, reports, len(items), silent, conditionRuleOf))
}

func conditionRuleOf(kind string) (aggregate.Rule, bool) {
	rule, known := conditionRules[kind]
	return rule, known
}

// conditional decodes the conditions of any status.
type conditional struct {
	Conditions []condition `json:"conditions"`
}

// reported returns the conditions by type, each list sorted by cluster, and the number of clusters
// without a status.
func reported(items []interpreter.AggregatedStatusItem) (reports map[string][]report, silent int, err error) {
	reports = map[string][]report{}
	n, err := eachStatus(items, func(cluster string, s *conditional) {
		seen := map[string]bool{}
		for _, c := range s.Conditions {
			if !seen[c.Type] {
				reports[c.Type] = append(reports[c.Type], report{Cluster: cluster, Condition: c})
			}
			seen[c.Type] = true
		}
	})
	for _, list := range reports {
		slices.SortStableFunc(list, func(a, b report) int { return cmp.Compare(a.Cluster, b.Cluster) })
	}
	return reports, len(items) - n, err
}

// convert copies a list to another type with the same names in JSON.
func convert[To, From any](list []From) ([]To, error) {
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", list, err)
	}
	var out []To
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("converting %T: %w", list, err)
	}
	return out, nil
}
