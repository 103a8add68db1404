// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"iter"
	"slices"
	"strings"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// SpecFits reports whether the schema finds no error in the JSON of a spec with defaults. It may be
// false for a valid spec: then [Validate] decides, and finds the errors.
func SpecFits(s *workv1.ManifestWorkSpec) bool { return manifestsAreJSON(s) && DecodedSpecFits(s) }

// ManifestsFit is [SpecFits] for the manifests alone.
func ManifestsFit(s *workv1.ManifestWorkSpec) bool { return manifestsAreJSON(s) && manifestsFit(s) }

// DecodedSpecFits is [SpecFits] for a spec with manifests that are known to be valid JSON.
func DecodedSpecFits(s *workv1.ManifestWorkSpec) bool {
	for i := range s.ManifestConfigs {
		if !configFits(&s.ManifestConfigs[i]) {
			return false
		}
	}
	return deleteOptionFits(s.DeleteOption) && executorFits(s.Executor) && manifestsFit(s)
}

// Unfit returns the parts of a spec with defaults that may not fit, each in its own spec, and the
// part's index in its list. A manifest has only the members in the schema.
func Unfit(s *workv1.ManifestWorkSpec) iter.Seq2[*workv1.ManifestWorkSpec, int] {
	return func(yield func(*workv1.ManifestWorkSpec, int) bool) {
		if !deleteOptionFits(s.DeleteOption) || !executorFits(s.Executor) {
			if !yield(&workv1.ManifestWorkSpec{DeleteOption: s.DeleteOption, Executor: s.Executor}, 0) {
				return
			}
		}
		for i := range s.ManifestConfigs {
			part := &workv1.ManifestWorkSpec{ManifestConfigs: s.ManifestConfigs[i : i+1]}
			if !configFits(&s.ManifestConfigs[i]) && !yield(part, i) {
				return
			}
		}
		for i := range s.Workload.Manifests {
			if raw := s.Workload.Manifests[i].Raw; !manifestFits(raw) {
				part := &workv1.ManifestWorkSpec{}
				part.Workload.Manifests = make([]workv1.Manifest, 1)
				part.Workload.Manifests[0].Raw = head(raw)
				if !yield(part, i) {
					return
				}
			}
		}
	}
}

// head returns a manifest without the members that are not in the schema.
func head(raw []byte) []byte {
	if jsontext.KindOf(raw) != jsontext.Object {
		return raw
	}
	out := []byte{'{'}
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		if value := jsontext.Member(raw, name); value != nil {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(out, `"`+name+`":`...), value...)
		}
	}
	return append(out, '}')
}

func manifestsAreJSON(s *workv1.ManifestWorkSpec) bool {
	return !slices.ContainsFunc(s.Workload.Manifests, func(m workv1.Manifest) bool { return !jsontext.Valid(m.Raw) })
}

func manifestsFit(s *workv1.ManifestWorkSpec) bool {
	return !slices.ContainsFunc(s.Workload.Manifests, func(m workv1.Manifest) bool { return !manifestFits(m.Raw) })
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
	if c.FeedbackScrapeType != workv1.FeedbackPollType && c.FeedbackScrapeType != workv1.FeedbackWatchType {
		return false
	}
	for i := range c.FeedbackRules {
		if !feedbackRuleFits(&c.FeedbackRules[i]) {
			return false
		}
	}
	for i := range c.ConditionRules {
		r := &c.ConditionRules[i]
		cel := r.Type == workv1.CelConditionExpressionsType && r.Condition != "" // the CEL rule
		if !cel && r.Type != workv1.WellKnownConditionsType {
			return false
		}
	}
	return distinct(c.ConditionRules, func(r *workv1.ConditionRule) string { return r.Condition }) &&
		(c.UpdateStrategy == nil || strategyFits(c.UpdateStrategy))
}

func feedbackRuleFits(r *workv1.FeedbackRule) bool {
	return (r.Type == workv1.WellKnownStatusType || r.Type == workv1.JSONPathsType) &&
		distinct(r.JsonPaths, func(p *workv1.JsonPath) string { return p.Name })
}

// distinct reports whether all elements of a list have different keys.
func distinct[T any](list []T, key func(*T) string) bool {
	if len(list) < 2 {
		return true
	}
	seen := make(map[string]struct{}, len(list))
	for i := range list {
		seen[key(&list[i])] = struct{}{}
	}
	return len(seen) == len(list)
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
	for _, f := range a.IgnoreFields {
		if f.Condition != workv1.IgnoreFieldsConditionOnSpokePresent &&
			f.Condition != workv1.IgnoreFieldsConditionOnSpokeChange {
			return false
		}
	}
	return distinct(a.IgnoreFields, func(f *workv1.IgnoreField) string { return string(f.Condition) })
}
