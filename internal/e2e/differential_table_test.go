// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// normalisations remove the differences that API.md of work lists from the outcomes of a request.
// Each has the sentence of that list.
var normalisations = []struct {
	listed string
	typed  bool // the difference exists only with the clientset
	apply  func(d *differential, r request, want, got outcome)
}{
	{"errors have reasons, codes, details and causes: their messages are for people", false,
		func(_ *differential, _ request, want, got outcome) {
			if want["reason"] != "" && got["reason"] != "" {
				delete(want, "message")
				delete(got, "message")
			}
		}},
	{"managedFields begin with the first apply", true,
		func(d *differential, r request, want, got outcome) {
			for _, o := range []outcome{want, got} {
				if !d.applied[r.name] {
					delete(o, "managers")
					delete(o, "then managers")
				}
				o["causes"] = distinctLines(writers.Replace(o["causes"]))
			}
		}},
	{"each side has its own managedFields", false,
		func(_ *differential, r request, want, got outcome) {
			for _, o := range []outcome{want, got} {
				for _, prefix := range []string{"", "then "} {
					delete(o, prefix+"managers of the status")
					if r.onAgent {
						delete(o, prefix+"managers")
					}
				}
				if r.onAgent {
					o["causes"] = distinctLines(writers.Replace(o["causes"]))
				}
			}
		}},
	{"labels, annotations and ownerReferences travel; UID, generateName and finalizers are each side's own", false,
		func(_ *differential, r request, want, got outcome) {
			if r.onAgent && !r.own {
				delete(want, "metadata")
				delete(got, "metadata")
			}
		}},
	{"a deleted work stays until its agent reports it gone", false, func(d *differential, r request, want, got outcome) {
		if d.deleting(r.name) {
			for _, part := range []string{"metadata", "generation"} {
				delete(want, part)
				delete(got, part)
			}
		}
	}},
	{"the words of a cause may be those of another release: of owners they are", false,
		func(_ *differential, _ request, want, got outcome) {
			if strings.Contains(want["causes"], "ownerReferences") {
				for _, o := range []outcome{want, got} {
					lines := strings.Split(o["causes"], "\n")
					o["causes"] = strings.Join(slices.DeleteFunc(lines, func(l string) bool {
						return strings.Contains(l, "ownerReferences") || strings.HasPrefix(l, "<nil>")
					}), "\n")
				}
			}
		}},
	{"manifests keep their bytes: nothing is taken out of their metadata", true,
		func(_ *differential, _ request, want, got outcome) {
			for _, o := range []outcome{want, got} {
				for _, part := range []string{"spec", "then spec"} {
					if o[part] != "" {
						o[part] = plainManifests(o[part])
					}
				}
			}
		}},
	{"what no typed client could read or send back is refused", true, func(_ *differential, _ request, want, got outcome) {
		if strings.HasPrefix(want["error"], "json: cannot unmarshal") ||
			strings.Contains(want["spec"], "\"subject\": {\n   \"type\": \"\"") {
			clear(want)
			clear(got)
		}
	}},
	{"an empty list or object where there was none is no new generation", true,
		func(_ *differential, r request, want, got outcome) {
			if r.dryRun {
				delete(want, "generation")
				delete(got, "generation")
			}
		}},
}

// writers replaces the names of managers that wrote without an apply.
var writers = strings.NewReplacer(
	`"before-first-apply"`, "a writer",
	`"e2e.test"`, "a writer",
)

func distinctLines(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// plainManifests returns the JSON of a spec with metadata of manifests as an API server stores it.
func plainManifests(spec string) string {
	var doc map[string]any
	if json.Unmarshal([]byte(spec), &doc) != nil {
		return spec
	}
	workload, _ := doc["workload"].(map[string]any)
	manifests, _ := workload["manifests"].([]any)
	for _, m := range manifests {
		m, _ := m.(map[string]any)
		if _, ok := m["metadata"]; !ok {
			continue
		}
		data, err := json.Marshal(m["metadata"])
		var typed metav1.ObjectMeta
		if err != nil || json.Unmarshal(data, &typed) != nil {
			continue
		}
		m["metadata"] = typed
	}
	data, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return spec
	}
	return string(data)
}
