// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/interpreter"
)

// conditionRule says how the condition of an object follows from those of clusters.
type conditionRule int

const (
	agree        conditionRule = iota // what all clusters say, and Unknown where they differ
	onAll                             // True where it is on all clusters, False where it is on one
	onOne                             // True where it is on one cluster
	terminalRule                      // not by itself: see jobConditions
)

// conditionRules are those of the types that controllers of Kubernetes set. Of others nobody knows whether True is good.
var conditionRules = map[string]conditionRule{
	string(appsv1.DeploymentAvailable):      onAll,
	string(appsv1.DeploymentProgressing):    onAll,
	string(appsv1.DeploymentReplicaFailure): onOne, // of ReplicaSets too

	string(batchv1.JobSuspended):          onAll,
	string(batchv1.JobSuccessCriteriaMet): terminalRule,
	string(batchv1.JobComplete):           terminalRule,
	string(batchv1.JobFailureTarget):      terminalRule,
	string(batchv1.JobFailed):             terminalRule,

	string(corev1.PodScheduled):              onAll,
	string(corev1.PodInitialized):            onAll,
	string(corev1.PodReadyToStartContainers): onAll,
	string(corev1.ContainersReady):           onAll,
	string(corev1.PodReady):                  onAll,
	string(corev1.DisruptionTarget):          onOne,
	string(corev1.AllContainersRestarting):   onOne,
	string(corev1.PodResizePending):          onOne,
	string(corev1.PodResizeInProgress):       onOne,

	string(autoscalingv2.AbleToScale):    onAll,
	string(autoscalingv2.ScalingActive):  onAll,
	string(autoscalingv2.ScalingLimited): onOne,
	string(autoscalingv2.ScaledToZero):   onAll,

	policyv1.DisruptionAllowedCondition: onOne, // as the sum of what is allowed is more than 0

	string(corev1.PersistentVolumeClaimUnused):                  onAll,
	string(corev1.PersistentVolumeClaimResizing):                onOne,
	string(corev1.PersistentVolumeClaimFileSystemResizePending): onOne,
	string(corev1.PersistentVolumeClaimControllerResizeError):   onOne,
	string(corev1.PersistentVolumeClaimNodeResizeError):         onOne,
	string(corev1.PersistentVolumeClaimVolumeModifyingVolume):   onOne,
	string(corev1.PersistentVolumeClaimVolumeModifyVolumeError): onOne,
}

// condition has the fields that the conditions of all kinds are made of. The generation that a cluster has observed is
// none of them: it is that of another object.
type condition struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	LastProbeTime      metav1.Time            `json:"lastProbeTime,omitzero"`
	LastUpdateTime     metav1.Time            `json:"lastUpdateTime,omitzero"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitzero"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message,omitempty"`
}

// report is a condition on a cluster.
type report struct {
	cluster string
	condition
}

// conditions makes conditions of those that clusters report, sorted by type. Where all clusters
// report a status and no condition, they are those before. A type that is not reported any more is
// gone, but for one that is not known here: it may be the control plane's own. While a cluster has
// not reported a status, known types are not gone but Unknown.
func conditions[C any](before []C, items []interpreter.AggregatedStatusItem) ([]C, error) {
	reports, silent, err := reported(items)
	if err != nil || len(reports) == 0 && silent == 0 {
		return before, err
	}
	earlier, err := convert[condition](before)
	if err != nil {
		return before, err
	}
	return convert[C](aggregateConditions(earlier, reports, len(items), silent))
}

// conditional is every status with conditions.
type conditional struct {
	Conditions []condition `json:"conditions"`
}

// reported returns the conditions on clusters by type, each list by cluster, and the number of
// clusters that have not reported a status.
func reported(items []interpreter.AggregatedStatusItem) (reports map[string][]report, silent int, err error) {
	reports = map[string][]report{}
	n, err := eachStatus(items, func(cluster string, s *conditional) {
		seen := map[string]bool{}
		for _, c := range s.Conditions {
			if !seen[c.Type] {
				reports[c.Type] = append(reports[c.Type], report{cluster, c})
			}
			seen[c.Type] = true
		}
	})
	for _, list := range reports {
		slices.SortStableFunc(list, func(a, b report) int { return cmp.Compare(a.cluster, b.cluster) })
	}
	return reports, len(items) - n, err
}

func aggregateConditions(before []condition, reports map[string][]report, clusters, silent int) []condition {
	out := map[string]condition{}
	for _, c := range before {
		if _, known := conditionRules[c.Type]; !known {
			out[c.Type] = c
		} else if silent > 0 && reports[c.Type] == nil {
			reports[c.Type] = []report{}
		}
	}
	for kind, list := range reports {
		if rule := conditionRules[kind]; rule != terminalRule {
			status, deciding := decide(rule, list, clusters, silent)
			out[kind] = merged(kind, status, deciding, before)
		}
	}
	return slices.SortedFunc(maps.Values(out), func(a, b condition) int { return cmp.Compare(a.Type, b.Type) })
}

// decide returns the status, and the reports that it is made of: none where clusters say nothing.
func decide(rule conditionRule, reports []report, clusters, silent int) (corev1.ConditionStatus, []report) {
	of := func(status corev1.ConditionStatus) (out []report) {
		for _, r := range reports {
			if r.Status == status {
				out = append(out, r)
			}
		}
		return out
	}
	yes, no, unknown := of(corev1.ConditionTrue), of(corev1.ConditionFalse), of(corev1.ConditionUnknown)
	switch rule {
	case onAll:
		if len(no) > 0 {
			return corev1.ConditionFalse, no
		}
		if len(yes) < clusters {
			return corev1.ConditionUnknown, unknown
		}
		return corev1.ConditionTrue, yes
	case onOne: // such a condition is not there where it does not hold
		if len(yes) > 0 {
			return corev1.ConditionTrue, yes
		}
		if len(unknown)+silent > 0 {
			return corev1.ConditionUnknown, unknown
		}
		return corev1.ConditionFalse, no
	}
	if len(yes) == clusters {
		return corev1.ConditionTrue, yes
	}
	if len(no) == clusters {
		return corev1.ConditionFalse, no
	}
	return corev1.ConditionUnknown, reports
}

// merged is the condition that some reports make. Its time of transition stays while its status does.
func merged(kind string, status corev1.ConditionStatus, deciding []report, before []condition) condition {
	c := condition{Type: kind, Status: status, Reason: reason(deciding), Message: message(deciding)}
	for _, r := range deciding {
		c.LastProbeTime = *later(&c.LastProbeTime, &r.LastProbeTime)
		c.LastUpdateTime = *later(&c.LastUpdateTime, &r.LastUpdateTime)
		c.LastTransitionTime = *later(&c.LastTransitionTime, &r.LastTransitionTime)
	}
	for _, b := range before {
		if b.Type == kind && (b.Status == status || c.LastTransitionTime.IsZero()) {
			c.LastTransitionTime = b.LastTransitionTime
		}
	}
	return c
}

const (
	// rolledOut is the reason of a Deployment that no longer progresses. Tools take it for the end, so that it is told
	// only where all clusters say it.
	rolledOut = "NewReplicaSetAvailable"
	// notReported is the reason of a condition that some clusters do not have.
	notReported = "NotReported"
)

// reason is the first that there is, the one of the end last.
func reason(reports []report) string {
	if len(reports) == 0 {
		return notReported
	}
	out := ""
	for _, r := range reports {
		if out == "" || out == rolledOut {
			out = cmp.Or(r.Reason, out)
		}
	}
	return out
}

// A message names so many clusters, and cites so many bytes of what each says.
const (
	clustersInMessage = 10
	bytesOfEach       = 256
)

// message is what clusters say, each thing once.
func message(reports []report) string {
	if len(reports) == 0 {
		return "Not all clusters report it"
	}
	var said []string
	who := map[string][]string{}
	for _, r := range reports[:min(len(reports), clustersInMessage)] {
		text := r.Message
		if len(text) > bytesOfEach {
			text = strings.ToValidUTF8(text[:bytesOfEach], "") + "…"
		}
		if who[text] == nil {
			said = append(said, text)
		}
		who[text] = append(who[text], r.cluster)
	}
	for i, text := range said {
		said[i] = strings.TrimSuffix(strings.Join(who[text], ", ")+": "+text, ": ")
	}
	out := strings.Join(said, "; ")
	if more := len(reports) - clustersInMessage; more > 0 {
		out += fmt.Sprintf("; and %d more", more)
	}
	return out
}

// convert copies a list from one type to another with the same names in JSON. Fields that the other
// type does not have are left out.
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
