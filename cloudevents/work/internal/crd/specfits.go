// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"strings"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/rawjson"
)

// SpecFits reports whether the schema finds nothing wrong with the JSON of a defaulted spec. It may be false
// for one that is fine: [Validate] decides then, and finds the errors.
func SpecFits(s *workv1.ManifestWorkSpec) bool { return manifestsAreJSON(s) && DecodedSpecFits(s) }

// ManifestsFit is [SpecFits] for the manifests alone.
func ManifestsFit(s *workv1.ManifestWorkSpec) bool { return manifestsAreJSON(s) && manifestsFit(s) }

// DecodedSpecFits is [SpecFits] for a spec that was decoded from JSON, which its manifests are then.
func DecodedSpecFits(s *workv1.ManifestWorkSpec) bool {
	for i := range s.ManifestConfigs {
		if !configFits(&s.ManifestConfigs[i]) {
			return false
		}
	}
	return deleteOptionFits(s.DeleteOption) && executorFits(s.Executor) && manifestsFit(s)
}

func manifestsAreJSON(s *workv1.ManifestWorkSpec) bool {
	for i := range s.Workload.Manifests {
		if !rawjson.Valid(s.Workload.Manifests[i].Raw) {
			return false
		}
	}
	return true
}

func manifestsFit(s *workv1.ManifestWorkSpec) bool {
	for i := range s.Workload.Manifests {
		if !manifestFits(s.Workload.Manifests[i].Raw) {
			return false
		}
	}
	return true
}

func deleteOptionFits(o *workv1.DeleteOption) bool {
	if o == nil {
		return true
	}
	switch o.PropagationPolicy {
	case workv1.DeletePropagationPolicyTypeForeground, workv1.DeletePropagationPolicyTypeOrphan,
		workv1.DeletePropagationPolicyTypeSelectivelyOrphan:
		return true
	}
	return false
}

func executorFits(e *workv1.ManifestWorkExecutor) bool {
	if e == nil {
		return true
	}
	account := e.Subject.ServiceAccount
	return e.Subject.Type == workv1.ExecutorSubjectTypeServiceAccount &&
		(account == nil || NameFits(account.Name) && NameFits(account.Namespace))
}

func configFits(c *workv1.ManifestConfigOption) bool {
	switch c.FeedbackScrapeType {
	case workv1.FeedbackPollType, workv1.FeedbackWatchType:
	default:
		return false
	}
	for i := range c.FeedbackRules {
		if !feedbackRuleFits(&c.FeedbackRules[i]) {
			return false
		}
	}
	for i := range c.ConditionRules {
		r := &c.ConditionRules[i]
		switch r.Type {
		case workv1.CelConditionExpressionsType:
			if r.Condition == "" { // the CEL rule
				return false
			}
		case workv1.WellKnownConditionsType:
		default:
			return false
		}
		for j := range i {
			if c.ConditionRules[j].Condition == r.Condition {
				return false
			}
		}
	}
	return c.UpdateStrategy == nil || strategyFits(c.UpdateStrategy)
}

func feedbackRuleFits(r *workv1.FeedbackRule) bool {
	switch r.Type {
	case workv1.WellKnownStatusType, workv1.JSONPathsType:
	default:
		return false
	}
	for i := range r.JsonPaths {
		for j := range i {
			if r.JsonPaths[i].Name == r.JsonPaths[j].Name {
				return false
			}
		}
	}
	return true
}

func strategyFits(u *workv1.UpdateStrategy) bool {
	switch u.Type {
	case workv1.UpdateStrategyTypeUpdate, workv1.UpdateStrategyTypeCreateOnly,
		workv1.UpdateStrategyTypeServerSideApply, workv1.UpdateStrategyTypeReadOnly:
	default:
		return false
	}
	a := u.ServerSideApply
	if a == nil {
		return true
	}
	if !strings.HasPrefix(a.FieldManager, workv1.DefaultFieldManager) {
		return false
	}
	for i := range a.IgnoreFields {
		switch a.IgnoreFields[i].Condition {
		case workv1.IgnoreFieldsConditionOnSpokePresent, workv1.IgnoreFieldsConditionOnSpokeChange:
		default:
			return false
		}
		for j := range i {
			if a.IgnoreFields[i].Condition == a.IgnoreFields[j].Condition {
				return false
			}
		}
	}
	return true
}
