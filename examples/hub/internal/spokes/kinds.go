// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spokes

import (
	"encoding/json"
	"fmt"
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
	if rule := nameRules[o.Group][o.Kind]; rule != nil && len(wrong) == 0 {
		wrong = rule(o.Name)
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
	if kind == "" && r.Object.Group == "" || nameRules[r.Object.Group][kind] != nil {
		return true
	}
	var listed struct {
		Items []json.RawMessage `json:"items"`
	}
	return json.Unmarshal(r.Manifest, &listed) == nil && listed.Items != nil
}

// nameRules are the rules for names of kinds, by group. Other kinds have other rules: a Role may
// have any name that is a valid path segment. Older API servers have stricter rules for Services.
var nameRules = map[string]map[string]func(string) []string{
	"": {
		"ConfigMap": content.IsDNS1123Subdomain, "Endpoints": content.IsDNS1123Subdomain,
		"LimitRange": content.IsDNS1123Subdomain,
		"Namespace":  content.IsDNS1123Label, "PersistentVolume": content.IsDNS1123Subdomain,
		"PersistentVolumeClaim": content.IsDNS1123Subdomain,
		"Pod":                   content.IsDNS1123Subdomain, "ReplicationController": content.IsDNS1123Subdomain,
		"ResourceQuota": content.IsDNS1123Subdomain,
		"Secret":        content.IsDNS1123Subdomain, "Service": content.IsDNS1123Label,
		"ServiceAccount": content.IsDNS1123Subdomain,
	},
	"apps": {
		"DaemonSet": content.IsDNS1123Subdomain, "Deployment": content.IsDNS1123Subdomain,
		"ReplicaSet":  content.IsDNS1123Subdomain,
		"StatefulSet": content.IsDNS1123Subdomain,
	},
	"batch":             {"CronJob": content.IsDNS1123Subdomain, "Job": content.IsDNS1123Subdomain},
	"networking.k8s.io": {"Ingress": content.IsDNS1123Subdomain, "NetworkPolicy": content.IsDNS1123Subdomain},
}
