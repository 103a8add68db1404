// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/validation/spec"
	workv1 "open-cluster-management.io/api/work/v1"
	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
)

// TestPatterns compares the patterns that are implemented in Go with those of the CRD.
func TestPatterns(t *testing.T) {
	byHand := map[string]func(string) bool{
		"status.conditions[0].reason":                                         crd.IsReason,
		"status.conditions[0].type":                                           crd.IsConditionType,
		"status.resourceStatus.manifests[0].conditions[0].reason":             crd.IsReason,
		"status.resourceStatus.manifests[0].conditions[0].type":               crd.IsConditionType,
		"spec.executor.subject.serviceAccount.name":                           crd.IsSubdomain,
		"spec.executor.subject.serviceAccount.namespace":                      crd.IsSubdomain,
		"spec.manifestConfigs[0].updateStrategy.serverSideApply.fieldManager": nil, // a prefix
	}
	for _, member := range []string{"spec", "status"} {
		s := root(t).Properties[member]
		walk(&s, path{member}, func(at path, s *spec.Schema) {
			if s.Pattern == "" {
				return
			}
			match, ok := byHand[at.String()]
			if !ok {
				t.Errorf("%s has the pattern %s, which nothing matches by hand", at, s.Pattern)
			}
			if match == nil {
				return
			}
			pattern := regexp.MustCompile(s.Pattern)
			rapid.Check(t, func(t *rapid.T) {
				text := rapid.StringMatching(`[-aZ0_.:,/ä!\n]{0,6}`).Draw(t, "text")
				if got, want := match(text), pattern.MatchString(text); got != want {
					t.Errorf("%s: %q: %v, want %v", at, text, got, want)
				}
			})
		})
	}
}

// TestTypedIsNoMoreLenient: each value that the typed check accepts is valid by the schema.
func TestTypedIsNoMoreLenient(t *testing.T) {
	fits := 0
	rapid.Check(t, func(t *rapid.T) {
		s, status := someSpec(t), someStatus(t)
		crd.Default(&s)
		if crd.SpecFits(&s) {
			fits++
			if _, errs := crd.Member("spec", encode(t, s)); len(errs) > 0 {
				t.Errorf("spec: %v", errs)
			}
		}
		if crd.StatusFits(&status) {
			fits++
			if _, errs := crd.Member("status", encode(t, status)); len(errs) > 0 {
				t.Errorf("status: %v", errs)
			}
		}
	})
	if fits == 0 {
		t.Error("nothing fitted: the objects are too random")
	}
}

// often draws one of the values, the first value more often than all others together.
func often[T any](t *rapid.T, name string, values ...T) T {
	return values[max(0, rapid.IntRange(-12, len(values)-1).Draw(t, name))]
}

func some[T any](t *rapid.T, name string, one func(*rapid.T) T) []T {
	var out []T
	for range rapid.IntRange(0, 2).Draw(t, name) {
		out = append(out, one(t))
	}
	return out
}

func someSpec(t *rapid.T) workv1.ManifestWorkSpec {
	s := workv1.ManifestWorkSpec{ManifestConfigs: some(t, "configs", someConfig)}
	s.Workload.Manifests = some(t, "manifests", func(t *rapid.T) workv1.Manifest {
		return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion":%s,"kind":%s,"metadata":%s}`,
			often(t, "version", `"apps/v1"`, `"v1"`, `""`, `"/"`, `"a/b/c"`, `1`, `null`),
			often(t, "kind", `"A"`, `"a-1"`, `""`, `"1"`, `"A_b"`, `null`, `"Ä"`),
			often(t, "metadata", `{"name":"a"}`, `{"name":"a","namespace":"b"}`, `{"name":"a.b","namespace":"b"}`,
				`{"namespace":"a.b","name":"a"}`,
				`{"name":"a","namespace":"b.c"}`, `{"name":"A/b"}`, `{"name":".."}`, `{ "name":"a"}`, `{"name":""}`, `{}`, `null`,
				`7`, `{"labels":{"a":"-"}}`,
				`{"name":"a","annotations":{"-":""}}`, `{"name":"a\u002f"}`))}}
	})
	if rapid.Bool().Draw(t, "has delete option") {
		s.DeleteOption = &workv1.DeleteOption{PropagationPolicy: often(t, "policy", workv1.DeletePropagationPolicyTypeOrphan,
			"", "x")}
	}
	if rapid.Bool().Draw(t, "has executor") {
		s.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
			Type: often(t, "subject", workv1.ExecutorSubjectTypeServiceAccount, "", "x"),
			ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Name: often(t, "name", "a", "", "A"),
				Namespace: often(t, "namespace", "a", "", "-")},
		}}
	}
	return s
}

func someConfig(t *rapid.T) workv1.ManifestConfigOption {
	c := workv1.ManifestConfigOption{FeedbackScrapeType: often(t, "scrape", workv1.FeedbackWatchType, "", "x")}
	c.ConditionRules = some(t, "rules", func(t *rapid.T) workv1.ConditionRule {
		return workv1.ConditionRule{Condition: often(t, "rule", rapid.StringN(1, 3, 9).Draw(t, "unique"), "", "a"),
			Type: often(t, "rule type", workv1.CelConditionExpressionsType, workv1.WellKnownConditionsType, "x")}
	})
	c.FeedbackRules = some(t, "feedback", func(t *rapid.T) workv1.FeedbackRule {
		return workv1.FeedbackRule{Type: often(t, "feedback type", workv1.JSONPathsType, "", "x"),
			JsonPaths: some(t, "paths", func(t *rapid.T) workv1.JsonPath {
				return workv1.JsonPath{Name: rapid.StringN(0, 2, 6).Draw(t, "path")}
			})}
	})
	if rapid.Bool().Draw(t, "has strategy") {
		c.UpdateStrategy = &workv1.UpdateStrategy{Type: often(t, "strategy", workv1.UpdateStrategyTypeServerSideApply, "",
			"x")}
		c.UpdateStrategy.ServerSideApply = &workv1.ServerSideApplyConfig{
			FieldManager: often(t, "manager", "work-agent-x", "", "me"),
			IgnoreFields: some(t, "ignored", func(t *rapid.T) workv1.IgnoreField {
				return workv1.IgnoreField{Condition: often(t, "when", workv1.IgnoreFieldsConditionOnSpokeChange,
					workv1.IgnoreFieldsConditionOnSpokePresent, "")}
			}),
		}
	}
	return c
}

func someStatus(t *rapid.T) workv1.ManifestWorkStatus {
	condition := func(t *rapid.T) metav1.Condition {
		return metav1.Condition{
			Type:               rapid.StringMatching(`[aZ0./-]{1,3}`).Draw(t, "type"),
			Status:             often(t, "status", metav1.ConditionTrue, "", "x"),
			Reason:             often(t, "reason", "R", "", "a:", "a:b", "1"),
			ObservedGeneration: often(t, "generation", int64(1), -1),
			LastTransitionTime: often(t, "time", metav1.Unix(1, 0), metav1.Time{},
				metav1.Date(10001, 1, 1, 0, 0, 0, 0, time.UTC), metav1.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)),
		}
	}
	s := workv1.ManifestWorkStatus{Conditions: some(t, "conditions", condition)}
	s.ResourceStatus.Manifests = some(t, "statuses", func(t *rapid.T) workv1.ManifestCondition {
		return workv1.ManifestCondition{
			Conditions: some(t, "manifest's conditions", condition),
			StatusFeedbacks: workv1.StatusFeedbackResult{Values: some(t, "values", func(t *rapid.T) workv1.FeedbackValue {
				return workv1.FeedbackValue{Name: rapid.StringN(0, 2, 6).Draw(t, "value"),
					Value: workv1.FieldValue{Type: often(t, "value type", workv1.String, "", "x")}}
			})},
		}
	})
	return s
}
