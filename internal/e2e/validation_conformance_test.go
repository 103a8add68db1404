// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"
)

// untracked is the allowed difference of all requests that are not applies.
var untracked = map[string]string{
	"managers":               "managedFields begin with the first apply",
	"managers of the status": "managedFields begin with the first apply",
}

// TestValidationConformance sends the same valid and invalid objects to a real API server, and to a
// source and an agent.
func TestValidationConformance(t *testing.T) {
	script := slices.Concat(typedObjects(), manifests(), specPatches(), strictPatches(), statusPatches())
	for i := range script {
		if script[i].differs == nil {
			script[i].differs = untracked
		}
	}
	conform(t, script)
}

// configured returns a step that creates a work with one manifestConfig.
func configured(name, reason string, edit func(*workv1.ManifestConfigOption)) step {
	return step{name: name, reason: reason,
		call: creates(strings.ReplaceAll(name, " ", "-"), func(w *workv1.ManifestWork) {
			c := workv1.ManifestConfigOption{ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Name: "a"}}
			edit(&c)
			w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{c}
		})}
}

func typedObjects() []step {
	account := func(namespace, name string) func(*workv1.ManifestWork) {
		return func(w *workv1.ManifestWork) {
			w.Spec.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
				Type:           workv1.ExecutorSubjectTypeServiceAccount,
				ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: namespace, Name: name},
			}}
		}
	}
	rules := func(rules ...workv1.ConditionRule) func(*workv1.ManifestConfigOption) {
		return func(c *workv1.ManifestConfigOption) { c.ConditionRules = rules }
	}
	return []step{
		{name: "plain", reason: "to be changed", call: creates("plain", func(*workv1.ManifestWork) {})},
		{name: "empty propagation policy", reason: "empty is not missing",
			call: creates("a", func(w *workv1.ManifestWork) { w.Spec.DeleteOption = &workv1.DeleteOption{} })},
		{name: "unknown propagation policy", reason: "enum", call: creates("a", func(w *workv1.ManifestWork) {
			w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: "Never"}
		})},
		{name: "executor without type", reason: "enum",
			call: creates("a", func(w *workv1.ManifestWork) { w.Spec.Executor = &workv1.ManifestWorkExecutor{} })},
		{name: "executor", reason: "fine", call: creates("executor", account("default", "a.b-c"))},
		{name: "executor without names", reason: "minLength and pattern", call: creates("a", account("", ""))},
		{name: "executor with bad names", reason: "pattern", call: creates("a", account("A", "-"))},
		{name: "executor with long names", reason: "maxLength", call: creates("a", account(strings.Repeat("a", 254), "a"))},
		configured("config", "default of the scrape type", func(*workv1.ManifestConfigOption) {}),
		configured("config scrape", "enum", func(c *workv1.ManifestConfigOption) { c.FeedbackScrapeType = "Never" }),
		configured("config strategy", "default of the type",
			func(c *workv1.ManifestConfigOption) { c.UpdateStrategy = &workv1.UpdateStrategy{} }),
		configured("config strategy unknown", "enum",
			func(c *workv1.ManifestConfigOption) { c.UpdateStrategy = &workv1.UpdateStrategy{Type: "No"} }),
		configured("config apply", "default of the manager", func(c *workv1.ManifestConfigOption) {
			c.UpdateStrategy = &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply,
				ServerSideApply: &workv1.ServerSideApplyConfig{Force: true}}
		}),
		configured("config apply manager", "pattern", func(c *workv1.ManifestConfigOption) {
			c.UpdateStrategy = &workv1.UpdateStrategy{ServerSideApply: &workv1.ServerSideApplyConfig{FieldManager: "me"}}
		}),
		configured("config ignore", "enum; empty is not missing", func(c *workv1.ManifestConfigOption) {
			c.UpdateStrategy = &workv1.UpdateStrategy{
				ServerSideApply: &workv1.ServerSideApplyConfig{IgnoreFields: []workv1.IgnoreField{{}}},
			}
		}),
		configured("config ignore twice", "map keys", func(c *workv1.ManifestConfigOption) {
			one := workv1.IgnoreField{Condition: workv1.IgnoreFieldsConditionOnSpokeChange}
			c.UpdateStrategy = &workv1.UpdateStrategy{
				ServerSideApply: &workv1.ServerSideApplyConfig{IgnoreFields: []workv1.IgnoreField{one, one, one}},
			}
		}),
		configured("config feedback", "enum",
			func(c *workv1.ManifestConfigOption) { c.FeedbackRules = []workv1.FeedbackRule{{Type: "No"}} }),
		configured("config feedback twice", "map keys", func(c *workv1.ManifestConfigOption) {
			c.FeedbackRules = []workv1.FeedbackRule{{Type: workv1.JSONPathsType,
				JsonPaths: []workv1.JsonPath{{Name: "a"}, {Name: "a"}}}}
		}),
		configured("config rule", "enum", rules(workv1.ConditionRule{Condition: "A"})),
		configured("config rule twice", "map keys", rules(
			workv1.ConditionRule{Type: workv1.WellKnownConditionsType, Condition: "A"},
			workv1.ConditionRule{Type: workv1.WellKnownConditionsType, Condition: "A"})),
		configured("config rule CEL", "x-kubernetes-validations",
			rules(workv1.ConditionRule{Type: workv1.CelConditionExpressionsType})),
		configured("config rule CEL and more", "rules are checked although a pattern does not match",
			func(c *workv1.ManifestConfigOption) {
				c.ConditionRules = []workv1.ConditionRule{{Type: workv1.CelConditionExpressionsType}}
				c.UpdateStrategy = &workv1.UpdateStrategy{ServerSideApply: &workv1.ServerSideApplyConfig{FieldManager: "me"}}
			}),
		{name: "bad update", reason: "the same for updates", call: updates("plain", "", func(w *workv1.ManifestWork) {
			w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: "Never", TTLSecondsAfterFinished: ptr.To[int64](-1)}
		})},
		{name: "default by update", reason: "the same for updates", call: updates("plain", "", func(w *workv1.ManifestWork) {
			w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{
				{ResourceIdentifier: workv1.ResourceIdentifier{Resource: "a", Name: "a"}},
			}
		})},
	}
}

func manifests() []step {
	var out []step
	for i, m := range []struct{ raw, reason, differs string }{
		{`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"b","labels":{"a":"b"},"creationTimestamp":null}}`, "fine", "manifests keep their bytes: no null is taken out of their metadata"},
		{`{"apiVersion":"v1","kind":"Role","metadata":{"name":"system:a"}}`, "names are path segments", ""},
		{`{"apiVersion":"v1","kind":"A"}`, "metadata is not required", ""},
		{`{"apiVersion":"v1"}`, "kind is required", ""},
		{`{"kind":"A"}`, "apiVersion is required", ""},
		{`{"Kind":"A","APIVersion":"v1"}`, "names are case-sensitive", ""},
		{`{}`, "both are required", ""},
		{`{"apiVersion":"","kind":""}`, "not empty", ""},
		{`{"apiVersion":"a/b/c","kind":"A_B"}`, "group version, label", ""},
		{`{"apiVersion":1,"kind":"A"}`, "a string", ""},
		{`{"apiVersion":"v1","kind":true}`, "a string", ""},
		{`{"apiVersion":"v1","kind":"A","metadata":{"name":"a/b","namespace":"B","labels":{"-":"-"}}}`, "metadata", ""},
		{`{"apiVersion":"v1","kind":"A","metadata":7}`, "metadata is an object", ""},
		{`"text"`, "not an object", ""},
		{`null`, "not an object", ""},
	} {
		differs := maps.Clone(untracked)
		if m.differs != "" {
			differs["spec"] = m.differs
		}
		out = append(out, step{name: "manifest " + m.raw, reason: m.reason, differs: differs,
			call: creates(fmt.Sprintf("manifest-%d", i), func(w *workv1.ManifestWork) {
				w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, manifest(m.raw))
			})})
	}
	return out
}

func merge(patch, reason string) step {
	return step{name: "merge " + patch, reason: reason, call: patches("plain", types.MergePatchType, patch)}
}

func specPatches() []step {
	return []step{
		merge(`{"spec":{"deleteOption":{}}}`, "default"),
		merge(`{"spec":{"deleteOption":{"propagationPolicy":""}}}`, "empty is not missing"),
		merge(`{"spec":{"deleteOption":{"propagationPolicy":null}}}`, "null is missing"),
		merge(`{"spec":{"deleteOption":null}}`, "null deletes"),
		merge(`{"spec":{"manifestConfigs":[{}]}}`, "required"),
		merge(`{"spec":{"manifestConfigs":[{"resourceIdentifier":{}}]}}`, "required, deeper"),
		merge(`{"spec":{"manifestConfigs":[{"resourceIdentifier":{"resource":"a","name":"a"},"updateStrategy":{"serverSideApply":{"ignoreFields":[{}]}}}]}}`, "defaults"),
		merge(`{"spec":{"manifestConfigs":[{"resourceIdentifier":{"resource":"a","name":"a"},"feedbackRules":[{"type":"JSONPaths","jsonPaths":[{"name":"a"}]}]}]}}`, "required"),
		merge(`{"spec":{"manifestConfigs":[{"resourceIdentifier":{"resource":"a","name":"a"},"conditionRules":[{"type":"CEL","condition":""}]}]}}`, "rule"),
		{name: "to be patched", reason: "for the next", call: creates("executes", func(*workv1.ManifestWork) {})},
		{name: "executor without a subject", reason: "it is not required", differs: map[string]string{
			everything: "the Go type has no executor without a subject: not even the API server takes back from a typed " +
				"client what it shows here",
		}, call: patches("executes", types.MergePatchType, `{"spec":{"executor":{}}}`)},
		merge(`{"spec":{"executor":{"subject":{}}}}`, "its type is"),
		merge(`{"spec":{"executor":null,"deleteOption":{"ttlSecondsAfterFinished":"1"}}}`, "type"),
		merge(`{"spec":{"workload":7}}`, "type"),
		merge(`{"spec":{"workload":{"manifests":{}}}}`, "type"),
		merge(`{"spec":{"workload":{"manifests":[7]}}}`, "type"),
		merge(`{"spec":{"workload":{"manifests":[{"kind":"A"}]}}}`, "embedded"),
		merge(`{"spec":7}`, "type"),
		{name: "merge of a status", reason: "it does not count",
			call: patches("plain", types.MergePatchType, `{"status":{"conditions":7}}`),
			differs: map[string]string{"managers": "managedFields begin with the first apply",
				"version": "it is theirs that change there"}},
		merge(`{"metadata":{"uid":"other"}}`, "immutable"),
		merge(`{"metadata":7}`, "type"),
		merge(`{"metadata":{"labels":7}}`, "type"),
		merge(`{"metadata":null}`, "the name is gone"),
		merge(`{"metadata":{"name":"other"}}`, "another name"),
		merge(`{"metadata":{"labels":{"-":"-"}}}`, "not a label"),
		merge(`{"spec":{"workload":{"manifests":[{"kind":5}]}}}`, "embedded types"),
		merge(`{"spec":null}`, "nothing is required"),
		merge(`{"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"A"}]}}}`, "something again"),
		merge(`7`, "no object"),
		merge(`{"spec":`, "malformed"),
		merge(`{"metadata":{"resourceVersion":"1"}}`, "a precondition"),
		merge(`{"nonsense":1,"spec":{"nonsense":1}}`, "pruned"),
	}
}

func strictPatches() []step {
	strictly := func(pt types.PatchType, patch, reason string) step {
		return step{name: "strict " + patch, reason: reason, call: patches("plain", pt, patch, strict),
			differs: map[string]string{
				"managers": "managedFields begin with the first apply"}}
	}
	return []step{
		strictly(types.MergePatchType, `{"metadata":{"labels":{"strict":"x"}}}`, "fine"),
		strictly(types.MergePatchType, `{"spec":{"nonsense":1}}`, "unknown"),
		strictly(types.MergePatchType, `{"nonsense":1}`, "unknown"),
		strictly(types.MergePatchType, `{"metadata":{"nonsense":1}}`, "unknown"),
		strictly(types.MergePatchType, `{"spec":{"deleteOption":null,"deleteOption":null}}`, "twice"),
		strictly(types.JSONPatchType, `[{"op":"add","path":"/spec/nonsense","value":1}]`, "unknown"),
		strictly(types.JSONPatchType, `[{"op":"test","path":"/kind","value":"ManifestWork"}]`, "the kind is there"),
	}
}

func statusPatches() []step {
	on := func(patch, reason string) step {
		return step{name: "status " + patch, reason: reason, onAgent: true, object: "plain",
			differs: map[string]string{"managers": "not tracked", "managers of the status": "not tracked"},
			call:    patches("plain", types.MergePatchType, patch, status)}
	}
	const good = `"reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"`
	return []step{
		on(`{"status":{"conditions":[{"type":"A","status":"True",`+good+`}]}}`, "fine"),
		on(`{"status":{"conditions":[{"type":"a.b/C","status":"Unknown",`+good+`},{"type":"D_e.f-1","status":"False",`+good+
			`}]}}`, "fine"),
		on(`{"status":{"conditions":[{}]}}`, "required"),
		on(`{"status":{"conditions":[{"type":"A","status":"True","reason":"R","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "the message is required"),
		on(`{"status":{"conditions":[{"type":"A","status":"Maybe","reason":"-","message":"","lastTransitionTime":"now","observedGeneration":-1}]}}`, "enum, pattern, format, minimum"),
		on(`{"status":{"conditions":[{"type":"-","status":"True",`+good+`}]}}`, "pattern"),
		on(`{"status":{"conditions":[{"type":"A","status":"True","reason":"","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "minLength"),
		on(`{"status":{"conditions":[{"type":"A","status":"True","reason":"R","message":"`+strings.Repeat("ä", 32769)+
			`","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "maxLength"),
		on(`{"status":{"conditions":[{"type":"A","status":"True",`+good+`},{"type":"A","status":"True",`+good+`}]}}`,
			"map keys"),
		on(`{"status":{"resourceStatus":{"manifests":[{}]}}}`, "required"),
		on(`{"status":{"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{}}]}}}`, "the ordinal is required"),
		on(`{"status":{"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0},"statusFeedback":{"values":[{"name":"a","fieldValue":{"type":"No"}}]}}]}}}`, "enum"),
		on(`{"status":{"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0},"statusFeedback":{"values":[{"name":"a","fieldValue":{"type":"String","string":"x"}}]}}]}}}`, "fine"),
		on(`{"status":{"resourceStatus":{"manifests":7}}}`, "type"),
		on(`{"status":7}`, "type"),
	}
}
