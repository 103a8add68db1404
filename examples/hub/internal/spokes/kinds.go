// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spokes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// takes returns an error for objects that every API server rejects, as far as this is known without
// a request: lists, and invalid names of built-in kinds. A work accepts them, and its agent would
// fail.
func takes(r *appcontext.Resource) *render.InvalidError {
	o := r.Object
	if isList(r) {
		return &render.InvalidError{Field: "kind", Reason: "FieldValueInvalid", Text: fmt.Sprintf(
			"Invalid value: %q: a List is not supported: write each object as a separate document", o.Kind)}
	}
	wrong := content.IsPathSegmentName(o.Name) // required for all kinds
	switch {
	case len(wrong) > 0 || !isBuiltIn(o, o.Kind):
	case o.Kind == "Namespace", o.Kind == "Service": // older API servers have stricter rules for Services
		wrong = content.IsDNS1123Label(o.Name)
	default:
		wrong = content.IsDNS1123Subdomain(o.Name)
	}
	if len(wrong) > 0 {
		return &render.InvalidError{Field: "metadata.name", Reason: "FieldValueInvalid",
			Text: fmt.Sprintf("Invalid value: %q: %s", o.Name, strings.Join(wrong, ", "))}
	}
	return nil
}

// isList reports whether an object is a list: of a built-in kind, or with items, which clients
// treat as a list.
func isList(r *appcontext.Resource) bool {
	kind, found := strings.CutSuffix(r.Object.Kind, "List")
	if !found {
		return false
	}
	if kind == "" && r.Object.Group == "" || isBuiltIn(r.Object, kind) {
		return true
	}
	var listed struct {
		Items []json.RawMessage `json:"items"`
	}
	return json.Unmarshal(r.Manifest, &listed) == nil && listed.Items != nil
}

// builtIn are kinds with objects that have DNS names, by group. Other kinds have other rules: a Role
// may have any name that is a valid path segment.
var builtIn = map[string][]string{
	"": {"ConfigMap", "Endpoints", "LimitRange", "Namespace", "PersistentVolume", "PersistentVolumeClaim", "Pod",
		"ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount"},
	"apps":              {"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"},
	"batch":             {"CronJob", "Job"},
	"networking.k8s.io": {"Ingress", "NetworkPolicy"},
}

func isBuiltIn(o appcontext.Object, kind string) bool { return slices.Contains(builtIn[o.Group], kind) }
