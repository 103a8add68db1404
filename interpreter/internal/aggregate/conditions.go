// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package aggregate combines the statuses of clusters, for the interpreters of this module.
package aggregate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/internal/cut"
)

// Rule is the way to combine the conditions of clusters.
type Rule int

// The rules.
const (
	RuleAgree    Rule = iota // the status on all clusters, or Unknown if they differ
	RuleOnAll                // True if all clusters report True, False if one reports False
	RuleOnOne                // True if one cluster reports True
	RuleSeparate             // by the caller: [Conditions] omits the type
)

// Condition has the fields that conditions of all kinds have. [Conditions] sets no observed
// generation: the generations of clusters belong to other objects.
type Condition struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	ObservedGeneration int64                  `json:"observedGeneration,omitempty"`
	LastProbeTime      metav1.Time            `json:"lastProbeTime,omitzero"`
	LastUpdateTime     metav1.Time            `json:"lastUpdateTime,omitzero"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitzero"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message,omitempty"`
}

// Report is a condition on a cluster.
type Report struct {
	Cluster string
	Condition
}

// Conditions combines the conditions that clusters report, sorted by type. The reports of a type
// must be sorted by cluster. Function rule returns the rule of a type and whether the type is
// known. A known type without reports is removed, or Unknown while silent clusters have not reported a
// status. An unknown type stays: it may be the control plane's own. Conditions may add to reports.
func Conditions(
	before []Condition, reports map[string][]Report, clusters, silent int, rule func(kind string) (Rule, bool),
) []Condition {
	out := map[string]Condition{}
	for _, c := range before {
		if _, known := rule(c.Type); !known {
			out[c.Type] = c
		} else if silent > 0 && reports[c.Type] == nil {
			reports[c.Type] = []Report{}
		}
	}
	for kind, list := range reports {
		if by, _ := rule(kind); by != RuleSeparate {
			status, deciding := decide(by, list, clusters, silent)
			out[kind] = Merged(kind, status, deciding, before)
		}
	}
	return slices.SortedFunc(maps.Values(out), func(a, b Condition) int { return cmp.Compare(a.Type, b.Type) })
}

// decide returns the status and the reports that decide it, which may be none if clusters are silent.
// If clusters do not agree, the smallest group is first: a message has room for a few only.
func decide(rule Rule, reports []Report, clusters, silent int) (corev1.ConditionStatus, []Report) {
	var yes, no, unknown []Report
	for _, r := range reports {
		switch r.Status {
		case corev1.ConditionTrue:
			yes = append(yes, r)
		case corev1.ConditionFalse:
			no = append(no, r)
		default:
			unknown = append(unknown, r)
		}
	}
	switch rule {
	case RuleOnAll:
		if len(no) > 0 {
			return corev1.ConditionFalse, no
		}
		if len(yes) < clusters {
			return corev1.ConditionUnknown, unknown
		}
		return corev1.ConditionTrue, yes
	case RuleOnOne: // such a condition is absent if it is not True
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
	groups := [][]Report{no, unknown, yes}
	slices.SortStableFunc(groups, func(a, b []Report) int {
		if len(a) != len(b) || len(a) == 0 {
			return cmp.Compare(len(a), len(b))
		}
		return cmp.Compare(a[0].Cluster, b[0].Cluster)
	})
	return corev1.ConditionUnknown, slices.Concat(groups...)
}

// Merged returns the condition that some reports make. The transition time stays while the status
// stays. It stays too without a deciding report: the schemas of most kinds require one.
func Merged(kind string, status corev1.ConditionStatus, deciding []Report, before []Condition) Condition {
	c := Condition{Type: kind, Status: status, Reason: reason(deciding), Message: message(deciding)}
	for _, r := range deciding {
		c.LastProbeTime = *Later(&c.LastProbeTime, &r.LastProbeTime)
		c.LastUpdateTime = *Later(&c.LastUpdateTime, &r.LastUpdateTime)
		c.LastTransitionTime = *Later(&c.LastTransitionTime, &r.LastTransitionTime)
	}
	for _, b := range before {
		if b.Type == kind && (b.Status == status || len(deciding) == 0) {
			c.LastTransitionTime = b.LastTransitionTime
		}
	}
	return c
}

const (
	// rolledOut is the reason of a Deployment that has finished a rollout. Tools rely on it.
	rolledOut = "NewReplicaSetAvailable"
	// notReported is the reason of a condition that some clusters do not have.
	notReported = "NotReported"
)

// reason returns the first reason in the reports, and rolledOut only if there is no other.
func reason(reports []Report) string {
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

// The limits of a message.
const (
	clustersInMessage = 10
	bytesOfEach       = 256 // of the message of a cluster
)

// message joins the messages of the clusters, each text once.
func message(reports []Report) string {
	if len(reports) == 0 {
		return "Not all clusters report it"
	}
	var said []string
	who := map[string][]string{}
	for _, r := range reports[:min(len(reports), clustersInMessage)] {
		text := cut.Text(r.Message, bytesOfEach)
		if who[text] == nil {
			said = append(said, text)
		}
		if names := who[text]; len(names) == 0 || names[len(names)-1] != r.Cluster {
			who[text] = append(names, r.Cluster)
		}
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

// Later returns the later of two times. Nil is earlier than any time.
func Later(a, b *metav1.Time) *metav1.Time {
	if a == nil || b != nil && a.Before(b) {
		return b
	}
	return a
}

// Generations identify the object of a status.
type Generations struct {
	Generation                 int64 `json:"generation,omitempty"`
	ResourceTemplateGeneration int64 `json:"resourceTemplateGeneration,omitempty"`
	ObservedGeneration         int64 `json:"observedGeneration,omitempty"`
}

// Observed returns generation if each cluster has the newest object and has observed it, and otherwise
// an earlier one. A cluster without a report has not observed the newest object.
func Observed(generation, before int64, clusters int, reported []Generations) int64 {
	current := 0
	for _, g := range reported {
		// A greater generation belongs to an earlier incarnation of the name.
		if g.ResourceTemplateGeneration == generation && g.ObservedGeneration >= g.Generation {
			current++
		}
	}
	switch {
	case current == clusters:
		return generation
	case len(reported) < clusters:
		return min(before, max(0, generation-1))
	}
	return before
}

// ServerFields returns the fields that the API server sets, or that only the control plane uses.
// Prune removes them.
func ServerFields() [][]string {
	return [][]string{
		{"metadata", "uid"},
		{"metadata", "resourceVersion"},
		{"metadata", "generation"},
		{"metadata", "selfLink"},
		{"metadata", "creationTimestamp"},
		{"metadata", "deletionTimestamp"},
		{"metadata", "deletionGracePeriodSeconds"},
		{"metadata", "managedFields"},
		{"metadata", "ownerReferences"},
		{"metadata", "finalizers"},
		{"status"},
	}
}
