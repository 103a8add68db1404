// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/cluster"
)

// wellKnown are the values of the rule WellKnownStatus for workloads, and their fields in the
// status.
var wellKnown = []struct{ name, field string }{
	{"ReadyReplicas", "readyReplicas"}, {"Replicas", "replicas"}, {"AvailableReplicas", "availableReplicas"},
}

// feedback returns the values that the manifest's configuration requests. JSON paths have the same
// root as in OCM's agent. Missing values are omitted.
func feedback(r cluster.Result) []workv1.FeedbackValue {
	if r.Config == nil || r.Live == nil {
		return nil
	}
	status, _, _ := unstructured.NestedMap(r.Live.Object, "status")
	var values []workv1.FeedbackValue
	add := func(name string, content any) {
		if v, ok := fieldValue(content); ok {
			values = append(values, workv1.FeedbackValue{Name: name, Value: v})
		}
	}
	for _, rule := range r.Config.FeedbackRules {
		switch rule.Type {
		case workv1.WellKnownStatusType:
			for _, w := range wellKnown {
				add(w.name, status[w.field])
			}
		case workv1.JSONPathsType:
			for _, p := range rule.JsonPaths {
				add(p.Name, lookUp(r.Live.Object, p.Path))
			}
		}
	}
	return values
}

// lookUp evaluates a JSON path in an object. It returns nil for no value or several values.
func lookUp(object map[string]any, path string) any {
	j := jsonpath.New("feedback").AllowMissingKeys(true)
	if err := j.Parse("{" + path + "}"); err != nil {
		return nil
	}
	found, err := j.FindResults(object)
	if err != nil || len(found) != 1 || len(found[0]) != 1 {
		return nil
	}
	if v := found[0][0]; v.IsValid() && (v.Kind() != reflect.Interface || !v.IsNil()) {
		return v.Interface()
	}
	return nil
}

func fieldValue(content any) (workv1.FieldValue, bool) {
	switch v := content.(type) {
	case int64:
		return workv1.FieldValue{Type: workv1.Integer, Integer: &v}, true
	case string:
		return workv1.FieldValue{Type: workv1.String, String: &v}, true
	case bool:
		return workv1.FieldValue{Type: workv1.Boolean, Boolean: &v}, true
	case map[string]any, []any:
		raw, err := json.Marshal(v)
		text := string(raw)
		// The API allows 1,024 characters.
		return workv1.FieldValue{Type: workv1.JsonRaw, JsonRaw: &text}, err == nil && len(text) <= 1024
	}
	return workv1.FieldValue{}, false
}

// anyUnready reports whether a workload with feedback rules has replicas that are not ready.
func anyUnready(results []cluster.Result) bool {
	for _, r := range results {
		if r.Config == nil || r.Live == nil || len(r.Config.FeedbackRules) == 0 {
			continue
		}
		wanted, found, _ := unstructured.NestedInt64(r.Live.Object, "spec", "replicas")
		if !found {
			wanted, found, _ = unstructured.NestedInt64(r.Live.Object, "status", "replicas")
		}
		ready, _, _ := unstructured.NestedInt64(r.Live.Object, "status", "readyReplicas")
		if found && ready < wanted {
			return true
		}
	}
	return false
}
