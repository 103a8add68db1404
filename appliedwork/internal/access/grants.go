// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// maxGrants is the maximum number of rights of a role that are reviewed one by one.
const maxGrants = 100

// Grants returns the rights that roles grant, one by one. They are not countable if there are too
// many, if there is no role, or if a role has nonResourceURLs or an aggregationRule.
func Grants(
	roles []*unstructured.Unstructured, namespace string,
) (grants []authorizationv1.ResourceAttributes, countable bool) {
	for _, obj := range roles {
		var role struct {
			Rules []struct {
				Verbs           []string `json:"verbs"`
				APIGroups       []string `json:"apiGroups"`
				Resources       []string `json:"resources"`
				ResourceNames   []string `json:"resourceNames"`
				NonResourceURLs []string `json:"nonResourceURLs"`
			} `json:"rules"`
		}
		content := map[string]any{"rules": obj.Object["rules"]}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &role)
		if err != nil || obj.Object["aggregationRule"] != nil {
			return nil, false
		}
		for _, rule := range role.Rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			n := len(rule.Verbs) * len(rule.APIGroups) * len(rule.Resources) * len(names)
			if len(rule.NonResourceURLs) > 0 || len(grants)+n > maxGrants {
				return nil, false
			}
			for _, verb := range rule.Verbs {
				for _, group := range rule.APIGroups {
					for _, resource := range rule.Resources {
						for _, name := range names {
							grants = append(grants, grantOf(verb, group, resource, namespace, name))
						}
					}
				}
			}
		}
	}
	return grants, len(roles) > 0
}

// grantOf returns a right in the form of an access review.
func grantOf(verb, group, resource, namespace, name string) authorizationv1.ResourceAttributes {
	resource, subresource, _ := strings.Cut(resource, "/")
	return authorizationv1.ResourceAttributes{
		Verb: verb, Group: group, Version: "*", Resource: resource, Subresource: subresource,
		Namespace: namespace, Name: name,
	}
}
