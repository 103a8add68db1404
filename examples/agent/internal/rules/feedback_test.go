// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/rules"
	"github.com/spokewire/sdk-go/interpreter/native"
)

// TestWellKnown checks the well-known fields of each kind that the native interpreter returns a
// status for.
func TestWellKnown(t *testing.T) {
	for kind, tt := range map[string]struct{ status, want string }{
		"apps/v1 Deployment": {"{readyReplicas: 1, replicas: 2, availableReplicas: 3}",
			"ReadyReplicas=1 Replicas=2 AvailableReplicas=3"},
		"apps/v1 StatefulSet": {"{readyReplicas: 1, replicas: 2}", "ReadyReplicas=1 Replicas=2"},
		"apps/v1 ReplicaSet":  {"{replicas: 2}", "Replicas=2"},
		"apps/v1 DaemonSet": {"{numberReady: 1, desiredNumberScheduled: 2, numberAvailable: 3}",
			"NumberReady=1 DesiredNumberScheduled=2 NumberAvailable=3"},
		"batch/v1 Job": {`{succeeded: 1, conditions: [{type: Complete, status: "True"}]}`,
			"JobComplete=True JobSucceeded=1"},
		"batch/v1 CronJob": {"{lastScheduleTime: now}", "LastScheduleTime=now"},
		"v1 Pod": {`{phase: Running, conditions: [{type: Ready, status: "False"}]}`,
			"PodReady=False PodPhase=Running"},
		"v1 Service": {"{loadBalancer: {ingress: [{ip: 192.0.2.1}, {ip: 192.0.2.2}]}}",
			"LoadBalancerIP=192.0.2.1"},
		"networking.k8s.io/v1 Ingress": {"{loadBalancer: {ingress: [{hostname: example.com}]}}",
			"LoadBalancerHostname=example.com"},
		"v1 PersistentVolume":      {"{phase: Bound}", "Phase=Bound"},
		"v1 PersistentVolumeClaim": {"{}", ""},
		"policy/v1 PodDisruptionBudget": {"{currentHealthy: 1, desiredHealthy: 2, disruptionsAllowed: 0}",
			"CurrentHealthy=1 DesiredHealthy=2 DisruptionsAllowed=0"},
		"autoscaling/v2 HorizontalPodAutoscaler": {"{currentReplicas: 1, desiredReplicas: 2}",
			"CurrentReplicas=1 DesiredReplicas=2"},
	} {
		apiVersion, name, _ := strings.Cut(kind, " ")
		obj := object(t, fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: x}, status: %s}", apiVersion, name,
			tt.status))
		values, err := rules.Feedback(t.Context(), []workv1.FeedbackRule{{Type: workv1.WellKnownStatusType}}, obj,
			nil)
		if got := text(values); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v", kind, got, err)
		}
	}
	for _, gvk := range native.New().Kinds() {
		if gvk.Kind == "Secret" || gvk.Kind == "ServiceAccount" {
			continue // they have no status
		}
		obj := object(t, fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: x}}", gvk.GroupVersion(), gvk.Kind))
		if values, err := rules.Feedback(t.Context(), []workv1.FeedbackRule{{Type: workv1.WellKnownStatusType}},
			obj, nil); err != nil || len(values) > 0 {
			t.Errorf("%s without a status: %v, %v", gvk, values, err)
		}
	}
	for _, bad := range []string{"{apiVersion: v1, kind: Secret, metadata: {name: x}}",
		"{apiVersion: apps/v1beta1, kind: Deployment, metadata: {name: x}}",
		"{apiVersion: example.com/v1, kind: Deployment, metadata: {name: x}}"} {
		if _, err := rules.Feedback(t.Context(), []workv1.FeedbackRule{{Type: workv1.WellKnownStatusType}},
			object(t, bad), nil); err == nil || !strings.Contains(err.Error(), "use JSONPaths") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func text(values []workv1.FeedbackValue) string {
	var parts []string
	for _, v := range values {
		switch v.Value.Type {
		case workv1.Integer:
			parts = append(parts, fmt.Sprintf("%s=%d", v.Name, *v.Value.Integer))
		case workv1.String:
			parts = append(parts, fmt.Sprintf("%s=%s", v.Name, *v.Value.String))
		case workv1.Boolean:
			parts = append(parts, fmt.Sprintf("%s=%t", v.Name, *v.Value.Boolean))
		case workv1.JsonRaw:
			parts = append(parts, fmt.Sprintf("%s=%s", v.Name, *v.Value.JsonRaw))
		}
	}
	return strings.Join(parts, " ")
}

func TestJSONPaths(t *testing.T) {
	obj := object(t, `{apiVersion: example.com/v2, kind: X, metadata: {name: x}, spec: {enabled: true, ratio: 0.5, none: null}, status: {phase: Ready, items: [{id: 1}, {id: 2}], long: "`+strings.Repeat("é", 1022)+`"}}`)
	inVersion := func(_ context.Context, version string) (*unstructured.Unstructured, error) {
		if version != "v1" {
			return nil, errors.New("not served")
		}
		return object(t, "{apiVersion: example.com/v1, kind: X, metadata: {name: x}, status: {phase: old}}"), nil
	}
	for _, tt := range []struct{ name, path, version, want, err string }{
		{"text", ".status.phase", "", "v=Ready", ""},
		{"the version it has", ".status.phase", "v2", "v=Ready", ""},
		{"another version", ".status.phase", "v1", "v=old", ""},
		{"a version that is not served", ".status.phase", "v0", "", "read the object in version v0: not served"},
		{"under status", ".phase", "", "v=Ready", ""},
		{"boolean", ".spec.enabled", "", "v=true", ""},
		{"number", ".status.items[1].id", "", "v=2", ""},
		{"no integer", ".spec.ratio", "", "v=0.5", ""},
		{"list", ".status.items", "", `v=[{"id":1},{"id":2}]`, ""},
		{"object", ".status.items[0]", "", `v={"id":1}`, ""},
		{"several", ".status.items[*].id", "", "v=[1,2]", ""},
		{"nothing", ".status.nothing", "", "", ""},
		{"null", ".spec.none", "", "", ""},
		{"as long as it may be", "['status']['long','nothing']", "", "v=" + strings.Repeat("é", 1022), ""},
		{"no path", ".status[", "", "", `the JSON path ".status[" cannot be read: unterminated array`},
		{"a path that does not fit", ".status.phase[0]", "", "", "index into a value that is not a list"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := []workv1.FeedbackRule{{Type: workv1.JSONPathsType,
				JsonPaths: []workv1.JsonPath{{Name: "v", Path: tt.path, Version: tt.version},
					{Name: "always", Path: ".metadata.name"}}}}
			values, err := rules.Feedback(t.Context(), list, obj, inVersion)
			if got, want := text(values), strings.TrimPrefix(tt.want+" always=x", " "); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v, want %q", err, tt.err)
			}
		})
	}
}

// TestBounds checks that a JSON value may have 1,024 characters, not bytes, and that the first of
// two values with one name is used.
func TestBounds(t *testing.T) {
	for n, fits := range map[int]bool{1024 - 10: true, 1024 - 9: false} {
		raw, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "X", "metadata": map[string]any{"name": "x"},
			"status": map[string]any{"o": map[string]any{"text": strings.Repeat("é", n-1)}}})
		list := []workv1.FeedbackRule{{Type: workv1.JSONPathsType,
			JsonPaths: []workv1.JsonPath{{Name: "v", Path: ".status.o"}, {Name: "v", Path: ".metadata.name"}}}}
		values, err := rules.Feedback(t.Context(), list, object(t, string(raw)), nil)
		if (err == nil) != fits || len(values) != 1 || (values[0].Value.Type == workv1.JsonRaw) != fits {
			t.Errorf("%d characters: %v, %.100v", n, err, values)
		}
	}
	for _, bad := range []workv1.FeedbackRule{{Type: workv1.JSONPathsType}, {Type: "CEL"}} {
		if _, err := rules.Feedback(t.Context(), []workv1.FeedbackRule{bad},
			object(t, "{apiVersion: v1, kind: X}"), nil); err == nil {
			t.Errorf("%+v is no error", bad)
		}
	}
}

// TestCostlyPaths checks that a path with too many results ends early, and that the other paths are
// still evaluated.
func TestCostlyPaths(t *testing.T) {
	items := strings.TrimSuffix(strings.Repeat("{a: [1, 2, 3, 4, 5, 6, 7, 8, 9]}, ", 300), ", ")
	obj := object(t, "{apiVersion: v1, kind: X, metadata: {name: x}, spec: {items: ["+items+"]}}")
	for path, want := range map[string]string{
		"..['spec','spec','spec']..['items','items','items']..['a','a','a']..['a','a','a']": "",
		strings.Repeat("..", 20) + "a":                                            "",
		".spec.items[*]" + strings.Repeat("['a','a','a','a','a','a','a','a']", 9): "",
		".spec.items[*]['a','a','a','a','a','a','a','a']":                         "characters of JSON",
		".spec..a..a":            "",
		"..a[*]['','','','','']": "",
		".spec.items[*].a[*]" + strings.Repeat("['$','$','$','$']", 3): "",
		".spec.items[?(@..a)].a[?(@==1)]" + strings.Repeat("[0]", 9):   "",
		".spec.items[?(@..a[?(@..a==@..a)])]..a[?(@..a==@..a)]":        "",
	} {
		list := []workv1.FeedbackRule{{Type: workv1.JSONPathsType,
			JsonPaths: []workv1.JsonPath{{Name: "v", Path: path}, {Name: "name", Path: ".metadata.name"}}}}
		start := time.Now()
		values, err := rules.Feedback(t.Context(), list, obj, nil)
		if d := time.Since(start); d > 10*time.Second || text(values) != "name=x" {
			t.Errorf("%.40s: %s after %s", path, text(values), d)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40s: %v, want %q", path, err, want)
		}
	}
}

// TestLongText checks that a text that is too long for a status is reported as an error and left
// out.
func TestLongText(t *testing.T) {
	list := []workv1.FeedbackRule{{Type: workv1.JSONPathsType,
		JsonPaths: []workv1.JsonPath{{Name: "v", Path: ".data.text"}}}}
	for n, fits := range map[int]bool{16 << 10: true, 16<<10 + 1: false} {
		obj := object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {text: "+strings.Repeat("é", n)+"}}")
		values, err := rules.Feedback(t.Context(), list, obj, nil)
		if len(values) == 1 != fits || (err == nil) != fits || err != nil &&
			!strings.Contains(err.Error(), "v: the text has 16385 characters") {
			t.Errorf("%d characters: %d values, %v", n, len(values), err)
		}
	}
}
