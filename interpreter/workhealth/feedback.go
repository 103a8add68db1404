// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workhealth

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

// Configs returns the configurations of manifests for the spec of a work: agents report the statuses
// from which a [Tracker] determines the health. Invalid manifests and kinds without a status have no
// configuration.
func Configs(manifests []workv1.Manifest) (configs []workv1.ManifestConfigOption) {
	for i := range manifests {
		manifest, err := manifests[i].MarshalJSON()
		if err != nil {
			continue
		}
		if o, ok := objectOf(manifest); ok {
			if config := Config(o, nil); config != nil {
				configs = append(configs, *config)
			}
		}
	}
	return configs
}

// Config adds the status of an object to the values that its agent reports: it returns a copy of base
// with more paths. The base may be nil. For a kind without a status the result is base.
func Config(o Object, base *workv1.ManifestConfigOption) *workv1.ManifestConfigOption {
	if kinds, ok := statusless[o.Group]; ok && (kinds == nil || slices.Contains(kinds, o.Kind)) {
		return base
	}
	config := base.DeepCopy()
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
		}
	}
	rule := slices.IndexFunc(config.FeedbackRules, func(r workv1.FeedbackRule) bool {
		return r.Type == workv1.JSONPathsType
	})
	if rule < 0 {
		rule = len(config.FeedbackRules)
		config.FeedbackRules = append(config.FeedbackRules, workv1.FeedbackRule{Type: workv1.JSONPathsType})
	}
	config.FeedbackRules[rule].JsonPaths = append(config.FeedbackRules[rule].JsonPaths, pathsOf(o)...)
	config.FeedbackScrapeType = workv1.FeedbackWatchType
	return config
}

func pathsOf(o Object) []workv1.JsonPath {
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
	return append(paths, workv1.JsonPath{Name: generation, Path: ".metadata.generation"})
}

// objectOf returns the object of a manifest, and whether it is valid.
func objectOf(manifest []byte) (o Object, ok bool) {
	var m struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	if err := utiljson.Unmarshal(manifest, &m); err != nil {
		return o, false
	}
	gv, err := schema.ParseGroupVersion(m.APIVersion)
	return Object{gv.Group, m.Kind, m.Metadata.Namespace, m.Metadata.Name},
		err == nil && m.APIVersion != "" && m.Kind != "" && m.Metadata.Name != ""
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
func conditionOf(w *workv1.ManifestWork, o Object, i int) *workv1.ManifestCondition {
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
