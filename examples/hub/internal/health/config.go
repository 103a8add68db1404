// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// The names of values: whole is the status, and generation the generation of the object, for
// interpreters that compare it with status.observedGeneration.
const (
	whole      = "status"
	generation = "Generation"
)

// fields are the status fields that determine the health of workloads. They are used if the whole
// status is too long.
var fields = []string{"observedGeneration", "replicas", "updatedReplicas", "availableReplicas", "readyReplicas",
	"updatedNumberScheduled",
	"numberAvailable", "desiredNumberScheduled", "currentNumberScheduled", "succeeded", "failed", "active", "phase"}

// customFields and conditions are the most informative ones of custom resources. They are used if
// the whole status is too long. The name of a value is the condition type.
var (
	customFields = []string{"observedGeneration", "phase"}
	conditions   = []string{"Ready", "Reconciling", "Stalled", "Synced"}
)

// statusless are kinds without a status.
var statusless = map[string][]string{
	"":                          {"ConfigMap", "Secret", "ServiceAccount", "LimitRange", "Endpoints", "PodTemplate"},
	"rbac.authorization.k8s.io": nil,
	"scheduling.k8s.io":         nil,
	"storage.k8s.io":            nil,
	"coordination.k8s.io":       nil,
}

// Config is the configuration for manifestwork.Options: the values that the agent reports of an
// object when it changes. It includes the values that the connector needs.
func Config(o appcontext.Object) *workv1.ManifestConfigOption {
	config := manifestwork.DefaultConfig(o)
	if kinds, ok := statusless[o.Group]; ok && (kinds == nil || slices.Contains(kinds, o.Kind)) {
		return config
	}
	if config == nil {
		// The agent compares names of resources. The name is guessed from the kind, as in kubectl. A
		// wrong guess only means that no status is reported.
		resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{
			Group: o.Group, Version: "v1", Kind: o.Kind,
		})
		config = &workv1.ManifestConfigOption{
			ResourceIdentifier: workv1.ResourceIdentifier{
				Group: o.Group, Resource: resource.Resource, Namespace: o.Namespace, Name: o.Name,
			},
			FeedbackRules: []workv1.FeedbackRule{{Type: workv1.JSONPathsType}},
		}
	}
	paths := []workv1.JsonPath{{Name: whole, Path: ".status"}}
	of := fields
	if o.Group != "apps" && o.Group != "batch" {
		of = nil
	}
	if strings.Contains(o.Group, ".") {
		of = customFields
		for _, c := range conditions {
			paths = append(paths, workv1.JsonPath{Name: c, Path: `.status.conditions[?(@.type=="` + c + `")].status`})
		}
	}
	for _, f := range of {
		paths = append(paths, workv1.JsonPath{Name: f, Path: ".status." + f})
	}
	paths = append(paths, workv1.JsonPath{Name: generation, Path: ".metadata.generation"})
	config.FeedbackRules[0].JsonPaths = append(config.FeedbackRules[0].JsonPaths, paths...)
	config.FeedbackScrapeType = workv1.FeedbackWatchType
	return config
}

// simple matches the name of a value that is a field of the status.
var simple = regexp.MustCompile("^[a-z][A-Za-z]*$")

// report is the state of an object that an agent has reported: the generation, or 0, and the status
// as JSON, or "".
type report struct {
	generation int64
	status     string
}

// reportOf returns the report in the condition of a manifest.
func reportOf(c *workv1.ManifestCondition) (r report) {
	parts := map[string]any{}
	var found []any
	for _, v := range c.StatusFeedbacks.Values {
		switch {
		case v.Name == generation && v.Value.Integer != nil:
			r.generation = *v.Value.Integer
		case v.Name == whole && v.Value.JsonRaw != nil && strings.HasPrefix(*v.Value.JsonRaw, "{"):
			r.status = *v.Value.JsonRaw
		case slices.Contains(conditions, v.Name) && v.Value.String != nil:
			found = append(found, map[string]any{"type": v.Name, "status": *v.Value.String})
		case v.Name == whole || !simple.MatchString(v.Name):
		case v.Value.Integer != nil:
			parts[v.Name] = *v.Value.Integer
		case v.Value.String != nil:
			parts[v.Name] = *v.Value.String
		case v.Value.Boolean != nil:
			parts[v.Name] = *v.Value.Boolean
		}
	}
	if found != nil {
		parts["conditions"] = found
	}
	if r.status != "" || len(parts) == 0 {
		return r
	}
	if data, err := json.Marshal(parts); err == nil { // in the order of the names
		r.status = string(data)
	}
	return r
}

// objectWith returns a manifest with the reported generation and status.
func objectWith(manifest []byte, r report) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(manifest); err != nil {
		return nil, err
	}
	if r.generation > 0 {
		u.SetGeneration(r.generation)
	}
	if r.status == "" {
		return u, nil
	}
	var content map[string]any
	if err := utiljson.Unmarshal([]byte(r.status), &content); err != nil {
		return nil, err
	}
	u.Object["status"] = content
	return u, nil
}

// conditionOf returns the reported condition of the object at index i of the manifests, or nil. An
// object without a namespace may be reported in the default namespace.
func conditionOf(w *workv1.ManifestWork, o appcontext.Object, i int) *workv1.ManifestCondition {
	all := w.Status.ResourceStatus.Manifests
	is := func(m *workv1.ManifestResourceMeta) bool {
		return m.Group == o.Group && m.Kind == o.Kind && m.Name == o.Name &&
			(m.Namespace == o.Namespace || o.Namespace == "" && m.Namespace == metav1.NamespaceDefault &&
				int(m.Ordinal) == i)
	}
	if i < len(all) && is(&all[i].ResourceMeta) { // the order of most agents
		return &all[i]
	}
	for j := range all {
		if is(&all[j].ResourceMeta) {
			return &all[j]
		}
	}
	return nil
}
