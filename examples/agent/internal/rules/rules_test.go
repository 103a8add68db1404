// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/examples/agent/internal/rules"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return obj
}

const (
	deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, generation: 1}, spec: {replicas: 2}, status: {readyReplicas: 1, observedGeneration: 1,
		conditions: [{type: Available, status: "True"}]}}`
	bare   = `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}`
	job    = `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, status: {conditions: [{type: Failed, status: "True"}]}}`
	newJob = `{apiVersion: batch/v1, kind: Job, metadata: {name: j}}`
	pod    = `{apiVersion: v1, kind: Pod, metadata: {name: p}, status: {phase: Succeeded}}`
)

func cel(expressions ...string) workv1.ConditionRule {
	return workv1.ConditionRule{Condition: "C", Type: workv1.CelConditionExpressionsType, CelExpressions: expressions}
}

func says(rule workv1.ConditionRule, message, expression string) workv1.ConditionRule {
	rule.Message, rule.MessageExpression = message, expression
	return rule
}

func TestEvaluate(t *testing.T) {
	e, err := rules.New()
	if err != nil {
		t.Fatal(err)
	}
	wellKnown := workv1.ConditionRule{Condition: workv1.ManifestComplete, Type: workv1.WellKnownConditionsType}
	healthy := workv1.ConditionRule{Condition: "Healthy", Type: workv1.WellKnownConditionsType}
	const evaluated, failed, invalid = workv1.ConditionRuleEvaluated, workv1.ConditionRuleExpressionError,
		workv1.ConditionRuleInvalid
	for _, tt := range []struct {
		name    string
		rule    workv1.ConditionRule
		object  string
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		{"all are true", cel("true", "object.spec.replicas == 2"), deployment, "True", evaluated, "Manifest is C"},
		{"one is false", cel("object.spec.replicas == 2", "object.status.readyReplicas == 2"), deployment, "False", evaluated,
			"Manifest is not C"},
		{"what follows a false one is not asked", cel("false", "object.no.such == 1"), deployment, "False", evaluated,
			"Manifest is not C"},
		{"a field that is not there", cel("object.status.phase == 'x'"), bare, "False", failed,
			"celExpressions[0]: no such key: status"},
		{"an optional one", cel("object.?status.?phase.orValue('') == ''"), bare, "True", evaluated, "Manifest is C"},
		{"conditions", cel("hasConditions(object.status) && object.status.conditions.exists(c, c.type == 'Available' && " +
			"c.status == 'True')"), deployment, "True", evaluated, "Manifest is C"},
		{"no conditions", cel("has(object.status) && hasConditions(object.status)"), bare, "False", evaluated,
			"Manifest is not C"},
		{"functions that have limits", cel("'a-b'.replace('-', '+') == 'a+b' && 'a-a'.replace('a', 'b', 1) == 'b-a'",
			"['a', 'b'].join() + ['a', 'b'].join('-') == 'aba-b'",
			"'%s %d'.format(['a', 1]) == 'a 1'",
			"[1, 1].distinct() == [1] && [[1], [2]].flatten(1) == [1, 2] && [[1], [2]].flatten() == [1, 2]",
			"'abc'.indexOf('c') == 2 && 'aba'.lastIndexOf('a') == 2 && 'aba'.indexOf('a', 1) == 2",
			"sets.contains([1, 2], [1]) && sets.equivalent([1], [1, 1]) && !sets.intersects([1], [2])",
			"'a,b'.split(',') == ['a', 'b']"), bare, "True", evaluated, "Manifest is C"},
		{"a message", says(cel("true"), "as it is", ""), bare, "True", evaluated, "as it is"},
		{"an expression for it", says(cel("true"), "as it is", "object.kind + ' ' + string(result)"), bare, "True", evaluated,
			"ConfigMap true"},
		{"an empty one leaves the message", says(cel("true"), "as it is", "''"), bare, "True", evaluated, "as it is"},
		{"a bad one is said", says(cel("true"), "as it is", "object.no"), bare, "True", evaluated,
			"messageExpression: no such key: no"},
		{"result is no variable of conditions", cel("result"), bare, "False", failed, `unknown variable "result"`},
		{"no bool", cel("1"), bare, "False", failed, "celExpressions[0]: result is a int, must be a bool"},
		{"no CEL", cel("1 +"), bare, "False", failed, "unexpected end of the expression"},
		{"too long", cel("'" + strings.Repeat("x", 16<<10) + "' == ''"), bare, "False", failed, "at most 16384"},
		{"nothing", cel(), bare, "Unknown", invalid, "write celExpressions"},
		{"an unknown type", workv1.ConditionRule{Condition: "C", Type: "Rego"}, bare, "Unknown", invalid,
			`the type "Rego" is unknown`},
		{"a job that has failed", wellKnown, job, "True", evaluated, "Job is finished"},
		{"a job that has just begun", wellKnown, newJob, "False", evaluated, "Job is not finished"},
		{"a pod", wellKnown, pod, "True", evaluated, "Pod is in phase Succeeded"},
		{"a pod in other words", says(wellKnown, "", "'phase ' + object.status.phase"), pod, "True", evaluated,
			"phase Succeeded"},
		{"a kind that never completes", wellKnown, deployment, "Unknown", invalid,
			"objects of kind Deployment have no well-known condition: use CEL"},
		{"a deployment that is not healthy", healthy, deployment, "False", evaluated, "Manifest is not Healthy"},
		{"a kind without health", healthy, bare, "Unknown", invalid, "no well-known health"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // the second pass uses the compiled rule
				c := e.Evaluate(t.Context(), tt.rule, object(t, tt.object))
				if c.Type != tt.rule.Condition || c.Status != tt.status || c.Reason != tt.reason ||
					!strings.Contains(c.Message, tt.message) {
					t.Errorf("%+v, want %s, %s, %q", c, tt.status, tt.reason, tt.message)
				}
			}
		})
	}
}

// TestCost checks that a costly expression ends early.
func TestCost(t *testing.T) {
	e, err := rules.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, expression := range []string{
		"lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a + b + c >= 0)))",
		"lists.range(100000000).size() == 1",
		"('" + strings.Repeat("x", 8000) + "').matches('(x+x+)+y')",
	} {
		began := time.Now()
		c := e.Evaluate(t.Context(), cel(expression), object(t, bare))
		if d := time.Since(began); c.Status != metav1.ConditionFalse || d > 5*time.Second {
			t.Errorf("%.60s: %+v after %s", expression, c, d)
		}
	}
}

// TestWork checks that one costly function call returns an error within seconds, because a call
// cannot be interrupted.
func TestWork(t *testing.T) {
	e, err := rules.New()
	if err != nil {
		t.Fatal(err)
	}
	text := "'" + strings.Repeat("x", 1100) + "'"
	for _, expression := range []string{
		text + ".replace('', " + text + ") != ''",
		text + ".replace('', " + text + ", 1000) != ''",
		"lists.range(1000).map(i, " + text + ").join() != ''",
		"['a', 'b', 'c'].map(a, 'a').join(" + text + ") != '' && lists.range(1000).map(i, 'a').join(" + text + ") != ''",
		"('" + strings.Repeat("%s", 1000) + "').format(lists.range(1000).map(i, " + text + ")) != ''",
		"'%s'.format([lists.range(1000).map(i, {'a': " + text + "})]) != ''",
		"lists.range(50000).distinct().size() > 0",
		"!sets.intersects(lists.range(50000), lists.range(50000).map(i, -1 - i))",
		"sets.contains(lists.range(50000), lists.range(50000))",
		"sets.equivalent(lists.range(50000), lists.range(50000))",
		"[lists.range(1000)].map(l, lists.range(1100).map(i, l).flatten()).size() > 0",
		text + ".indexOf(" + text + ") == 0",
		text + ".lastIndexOf(" + text + ") == 0",
	} {
		began := time.Now()
		c := e.Evaluate(t.Context(), cel(expression), object(t, bare))
		if d := time.Since(began); c.Status != metav1.ConditionFalse || c.Reason != workv1.ConditionRuleExpressionError ||
			d > 5*time.Second {
			t.Errorf("%.60s: %s, %s: %.200s after %s", expression, c.Status, c.Reason, c.Message, d)
		}
	}
	c := e.Evaluate(t.Context(), cel(text+".replace('', "+text+") != ''"), object(t, bare))
	if !strings.Contains(c.Message, "replace would take more than 1,000,000 steps") {
		t.Errorf("%.200s", c.Message)
	}
	// Many small calls share the same limit.
	c = e.Evaluate(t.Context(), cel("lists.range(10000).all(i, '"+strings.Repeat("x", 10000)+"'.replace('y', '') != '')"),
		object(t, bare))
	if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "more than 4,000,000 steps") &&
		!strings.Contains(c.Message, "longer than 250ms") {
		t.Errorf("%.300v", c)
	}
}
