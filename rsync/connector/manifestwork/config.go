// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// rule is for a kind with objects that are not ready as soon as they exist. The agent must report
// the fields that judge needs.
type rule struct {
	group, kind, resource string
	clustered             bool
	paths                 []workv1.JsonPath
	judge                 func(v values, manifest []byte) (ready, failed bool, message string)
}

const (
	isTrue = "True"

	jobComplete = "JobComplete"
	jobFailed   = "JobFailed"
	established = "Established"
	updated     = "UpdatedReplicas"
	available   = "AvailableReplicas"
	readyNow    = "ReadyReplicas"
	desired     = "DesiredNumberScheduled"
)

var rules = []rule{
	{group: "batch", kind: "Job", resource: "jobs", judge: judgeJob, paths: []workv1.JsonPath{
		{Name: jobComplete, Path: `.status.conditions[?(@.type=="Complete")].status`},
		{Name: jobFailed, Path: `.status.conditions[?(@.type=="Failed")].status`},
	}},
	{group: "apiextensions.k8s.io", kind: "CustomResourceDefinition", resource: "customresourcedefinitions",
		clustered: true, judge: judgeDefinition,
		paths: []workv1.JsonPath{{Name: established, Path: `.status.conditions[?(@.type=="Established")].status`}}},
	{group: "apps", kind: "Deployment", resource: "deployments", judge: judgeReplicas, paths: []workv1.JsonPath{
		{Name: updated, Path: ".status.updatedReplicas"}, {Name: available, Path: ".status.availableReplicas"},
	}},
	{group: "apps", kind: "StatefulSet", resource: "statefulsets", judge: judgeReplicas, paths: []workv1.JsonPath{
		{Name: readyNow, Path: ".status.readyReplicas"},
	}},
	{group: "apps", kind: "DaemonSet", resource: "daemonsets", judge: judgeDaemonSet, paths: []workv1.JsonPath{
		{Name: desired, Path: ".status.desiredNumberScheduled"},
		{Name: updated, Path: ".status.updatedNumberScheduled"},
		{Name: available, Path: ".status.numberAvailable"},
	}},
}

func ruleOf(o appcontext.Object) *rule {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.group == o.Group && r.kind == o.Kind })
	if i < 0 {
		return nil
	}
	return &rules[i]
}

// DefaultConfig requests the status fields from which the connector determines whether Deployments,
// StatefulSets, DaemonSets, Jobs and CustomResourceDefinitions are ready. For other kinds it
// returns nil. The caller may change the returned object.
func DefaultConfig(o appcontext.Object) *workv1.ManifestConfigOption {
	r := ruleOf(o)
	if r == nil {
		return nil
	}
	namespace := o.Namespace
	if namespace == "" && !r.clustered {
		namespace = metav1.NamespaceDefault // agents put the object there, and look for its configuration there
	}
	return &workv1.ManifestConfigOption{
		ResourceIdentifier: workv1.ResourceIdentifier{
			Group: r.group, Resource: r.resource, Namespace: namespace, Name: o.Name,
		},
		FeedbackRules: []workv1.FeedbackRule{{Type: workv1.JSONPathsType, JsonPaths: slices.Clone(r.paths)}},
	}
}

// asked reports whether a configuration requests all fields of a rule from the agent.
func asked(config *workv1.ManifestConfigOption, r *rule) bool {
	if config == nil {
		return false
	}
	names := map[string]bool{}
	for _, f := range config.FeedbackRules {
		for _, p := range f.JsonPaths {
			names[p.Name] = true
		}
	}
	return !slices.ContainsFunc(r.paths, func(p workv1.JsonPath) bool { return !names[p.Name] })
}

// values are the fields of an object that an agent has reported.
type values map[string]workv1.FieldValue

func valuesOf(c *workv1.ManifestCondition) values {
	v := values{}
	for _, f := range c.StatusFeedbacks.Values {
		v[f.Name] = f.Value
	}
	return v
}

func (v values) text(name string) string {
	if s := v[name].String; s != nil {
		return *s
	}
	return ""
}

// number returns a number, or 0 if it is missing: the API omits zeros.
func (v values) number(name string) int64 {
	if n := v[name].Integer; n != nil {
		return *n
	}
	return 0
}

func judgeJob(v values, _ []byte) (ready, failed bool, message string) {
	switch {
	case v.text(jobComplete) == isTrue:
		return true, false, ""
	case v.text(jobFailed) == isTrue:
		return false, true, "the job has failed"
	}
	return false, false, "the job is not complete"
}

func judgeDefinition(v values, _ []byte) (ready, failed bool, message string) {
	if v.text(established) == isTrue {
		return true, false, ""
	}
	return false, false, "the definition is not established"
}

func judgeReplicas(v values, manifest []byte) (ready, failed bool, message string) {
	var m struct {
		Kind string `json:"kind"`
		Spec struct {
			Replicas *int64 `json:"replicas"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(manifest, &m); err != nil {
		return false, false, "its number of replicas is not a number"
	}
	want := int64(1)
	if m.Spec.Replicas != nil {
		want = *m.Spec.Replicas
	}
	have := v.number(readyNow)
	if m.Kind == "Deployment" {
		have = min(v.number(updated), v.number(available))
	}
	if have >= want {
		return true, false, ""
	}
	return false, false, fmt.Sprintf("%d of %d replicas are ready", have, want)
}

func judgeDaemonSet(v values, _ []byte) (ready, failed bool, message string) {
	if _, known := v[desired]; !known {
		return false, false, "it is not scheduled yet"
	}
	have, want := min(v.number(updated), v.number(available)), v.number(desired)
	if have >= want {
		return true, false, ""
	}
	return false, false, fmt.Sprintf("%d of %d nodes have it", have, want)
}
