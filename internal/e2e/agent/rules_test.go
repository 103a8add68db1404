// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// rulesAndFeedback: conditions and values follow the object.
func rulesAndFeedback(s *scene) {
	api := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"api","namespace":%q}}`, s.ns)
	s.create("w", s.sample("conditions-and-feedback.yaml"))
	s.applied("w")
	reports := func(what string, ready, healthy, degraded metav1.ConditionStatus, message, values string) {
		s.t.Helper()
		s.until("w", what, func(w *workv1.ManifestWork) error {
			m := w.Status.ResourceStatus.Manifests[0]
			got, err := json.Marshal(m.StatusFeedbacks.Values)
			if string(got) != values {
				err = errors.Join(err, fmt.Errorf("the values are %s, want %s", got, values))
			}
			progressing := metav1.ConditionTrue
			if healthy == metav1.ConditionTrue {
				progressing = metav1.ConditionFalse
			}
			return errors.Join(err,
				has(m.Conditions, "Ready", ready, message),
				has(m.Conditions, "Healthy", healthy, "as kubectl rollout status sees it"),
				has(m.Conditions, workv1.ManifestProgressing, progressing, ""),
				has(m.Conditions, workv1.ManifestDegraded, degraded, ""),
				has(m.Conditions, "StatusFeedbackSynced", metav1.ConditionTrue, ""),
				has(w.Status.Conditions, workv1.WorkProgressing, progressing, ""),
				has(w.Status.Conditions, workv1.WorkDegraded, degraded, ""),
				has(w.Status.Conditions, workv1.WorkComplete, "", ""),
			)
		})
	}
	always := `{"name":"image","fieldValue":{"type":"String","string":"registry.example/api:1"}},{"name":"labels","fieldValue":{"type":"JsonRaw","jsonRaw":"{\"app\":\"api\"}"}}`
	reports("is degraded after a while", "False", "False", "True", "0 of 2 replicas are ready", "["+always+"]")
	s.by("controller", api,
		`{"status":{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2}}`,
		"status")
	counts := ""
	for _, name := range []string{"ReadyReplicas", "Replicas", "AvailableReplicas"} {
		counts += fmt.Sprintf(`{"name":%q,"fieldValue":{"type":"Integer","integer":2}},`, name)
	}
	reports("is healthy", "True", "True", "False", "2 of 2 replicas are ready", "["+counts+always+
		`,{"name":"observed","fieldValue":{"type":"Integer","integer":1}}]`)

	// Invalid rules and paths are reported. The others apply.
	s.update("w", func(spec *workv1.ManifestWorkSpec) {
		*spec = *spec.DeepCopy()
		c := &spec.ManifestConfigs[0]
		c.ConditionRules = []workv1.ConditionRule{
			{Condition: "NotCompiled", Type: workv1.CelConditionExpressionsType,
				CelExpressions: []string{"object.spec.replicas >"}},
			{Condition: "NotBool", Type: workv1.CelConditionExpressionsType, CelExpressions: []string{"1"}},
			{Condition: "Missing", Type: workv1.CelConditionExpressionsType,
				CelExpressions: []string{"object.spec.nothing == 1"}},
			{Condition: "Costly", Type: workv1.CelConditionExpressionsType, CelExpressions: []string{
				"lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a + b + c >= 0)))"}},
			{Condition: "NotKnown", Type: workv1.WellKnownConditionsType},
			{Condition: "Good", Type: workv1.CelConditionExpressionsType,
				CelExpressions: []string{"true", "object.spec.replicas == 2"}, Message: "as it is", MessageExpression: "''"},
		}
		c.FeedbackRules = []workv1.FeedbackRule{{Type: workv1.JSONPathsType, JsonPaths: []workv1.JsonPath{
			{Name: "good", Path: ".status.readyReplicas"}, {Name: "broken", Path: ".status["},
			{Name: "old", Path: ".spec", Version: "v1beta9"},
			{Name: "large", Path: ".metadata.managedFields"}, {Name: "nothing", Path: ".status.nothing"},
		}}}
	})
	s.until("w", "reports what is wrong", func(w *workv1.ManifestWork) error {
		m := w.Status.ResourceStatus.Manifests[0]
		got, err := json.Marshal(m.StatusFeedbacks.Values)
		if string(got) != `[{"name":"good","fieldValue":{"type":"Integer","integer":2}}]` {
			err = errors.Join(err, fmt.Errorf("the values are %s", got))
		}
		return errors.Join(err,
			has(m.Conditions, "NotCompiled", "False", "ConditionRuleExpressionError celExpressions[0]: ERROR"),
			has(m.Conditions, "NotBool", "False", "must be a bool"),
			has(m.Conditions, "Missing", "False", "no such key: nothing"),
			has(m.Conditions, "Costly", "False", "it takes longer than 250ms"),
			has(m.Conditions, "NotKnown", "Unknown", "ConditionRuleInvalid"),
			has(m.Conditions, "Good", "True", "ConditionRuleEvaluated as it is"),
			has(m.Conditions, "Ready", "", ""), has(m.Conditions, "Healthy", "", ""),
			has(m.Conditions, "StatusFeedbackSynced", "False", `broken: the JSON path ".status[" cannot be read`),
			has(m.Conditions, "StatusFeedbackSynced", "False", "old: read the object in version v1beta9"),
			has(m.Conditions, "StatusFeedbackSynced", "False", "more than 1024"),
			has(m.Conditions, workv1.ManifestApplied, "True", ""),
		)
	})
}
