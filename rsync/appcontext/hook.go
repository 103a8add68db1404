// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext

import (
	"encoding/json"
	"slices"
)

// HookDeletePolicy defines when a hook is deleted. The names are Helm's. A hook without a policy
// stays until its app is deleted. Helm's default is HookDeletePolicyBeforeCreation.
type HookDeletePolicy string

// The delete policies. They act each time that the hook runs.
const (
	// HookDeletePolicyBeforeCreation deletes an object of an earlier run, and waits until it is
	// gone, before the hook is created. It is Helm's default.
	HookDeletePolicyBeforeCreation HookDeletePolicy = "before-hook-creation"
	// HookDeletePolicySucceeded deletes the hook when all hooks of its kind are ready, because hooks
	// of a later wave may use it. If a hook of its kind fails, the ready ones are deleted too.
	HookDeletePolicySucceeded HookDeletePolicy = "hook-succeeded"
	// HookDeletePolicyFailed deletes the hook when it has failed. The app fails as it does without
	// this policy.
	HookDeletePolicyFailed HookDeletePolicy = "hook-failed"
)

var deletePolicies = []HookDeletePolicy{
	HookDeletePolicyBeforeCreation, HookDeletePolicySucceeded, HookDeletePolicyFailed,
}

// Has reports whether the resource has a delete policy.
func (r *Resource) Has(policy HookDeletePolicy) bool {
	return slices.Contains(r.DeletePolicies, policy)
}

// endless returns the reason why a hook never becomes ready, or "". It finds only the reasons that
// the manifest itself shows: a Job that does not run, and a Deployment that does not roll out.
func endless(r *Resource) string {
	job := r.Group == "batch" && r.Kind == "Job"
	deployment := r.Group == "apps" && r.Kind == "Deployment"
	if !job && !deployment {
		return ""
	}
	spec := specOf(r.Manifest)
	switch {
	case job && string(spec["suspend"]) == "true":
		return "spec.suspend is true: a suspended Job does not complete"
	case job && string(spec["parallelism"]) == "0":
		return "spec.parallelism is 0: a Job without Pods does not complete"
	case deployment && string(spec["paused"]) == "true":
		return "spec.paused is true: a paused Deployment does not roll out"
	}
	return ""
}

// specOf returns the fields of a manifest's spec. The result is empty if the manifest has no spec.
func specOf(manifest []byte) map[string]raw {
	var top, spec map[string]raw
	text, err := jsonOf(manifest)
	if err != nil || json.Unmarshal(text, &top) != nil || unmarshalGiven(top["spec"], &spec) != nil {
		return nil
	}
	return spec
}

func (v *validator) hook(r *Resource, where string) {
	if r.Hook != HookNone && !slices.Contains(Hooks(), r.Hook) {
		v.add(FaultBadHook, where, "unknown hook %q", r.Hook)
	}
	seen := map[HookDeletePolicy]bool{}
	for _, policy := range r.DeletePolicies {
		switch {
		case !slices.Contains(deletePolicies, policy):
			v.add(FaultBadHook, where, "deletePolicies: %q: must be one of %q", short(string(policy)), deletePolicies)
		case seen[policy]:
			v.add(FaultDuplicate, where, "deletePolicies: %s is repeated", policy)
		case r.Hook == HookNone:
			v.add(FaultBadHook, where, "deletePolicies: %s: the resource is not a hook", policy)
		case r.Hook == HookCRDInstall:
			v.add(FaultBadHook, where, "deletePolicies: %s: hooks of crd-install stay, "+
				"because all objects of their kind would go with them", policy)
		}
		seen[policy] = true
	}
	if r.Hook == HookNone {
		return
	}
	if why := endless(r); why != "" {
		v.add(FaultBadHook, where, "the hook never ends: %s", why)
	}
}
