// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"
)

// bodies makes random requests. The same seed gives the same requests.
type bodies struct{ *rand.Rand }

type (
	object = map[string]any
	array  = []any
)

func one[T any](b bodies, from ...T) T { return from[b.Intn(len(from))] }

// chance returns true with a probability of percent.
func (b bodies) chance(percent int) bool { return b.Intn(100) < percent }

func some[T any](b bodies, most int, make func() T) []T {
	var out []T
	for range 1 + b.Intn(most) {
		out = append(out, make())
	}
	return out
}

// member returns a path in an object and a valid or invalid value for it. No value is empty: in Go
// an empty value equals a missing one, as API.md of work lists.
func (b bodies) member() (path []string, value any) {
	owner := object{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "1"}
	switch b.Intn(14) {
	case 0, 1:
		return []string{"metadata", "labels", one(b, "a", "b")}, one[any](b, "1", "2", "2", nil, "a b", 7)
	case 2:
		return []string{"metadata", "annotations", one(b, "a", "b")}, one[any](b, "1", "ü\u2028<&>", nil, 7)
	case 3:
		return []string{"metadata", "finalizers"}, one[any](b, array{"example.com/x"},
			array{"example.com/y", "example.com/x"}, nil, array{"a b"}, array{"example.com/x", "example.com/x"})
	case 4:
		return []string{"metadata", "ownerReferences"}, one[any](b, nil, array{owner}, array{owner, owner})
	case 5:
		return []string{"metadata", one(b, "resourceVersion", "uid", "generateName", "selfLink", "unknown")},
			one[any](b, "$same", "$same", "other-", "0")
	case 6:
		return []string{one(b, "kind", "apiVersion", "unknown")},
			one[any](b, "ManifestWork", "work.open-cluster-management.io/v1", "v1", 7)
	case 7:
		return []string{"spec", "deleteOption"}, one[any](b, nil, object{"propagationPolicy": "Orphan"},
			object{"ttlSecondsAfterFinished": one[any](b, 5, -1, 1.5)}, object{"propagationPolicy": "x"}, 7)
	case 8:
		account := object{"name": one(b, "a", "A"), "namespace": "n"}
		return []string{"spec", "executor"},
			one[any](b, nil, object{"subject": object{"type": "ServiceAccount", "serviceAccount": account}},
				object{"subject": object{"type": "User"}})
	case 9, 10:
		return []string{"spec", "manifestConfigs"}, one[any](b, nil, toAny(some(b, 2, b.config)), toAny(some(b, 2, b.config)))
	default:
		return []string{"spec", "workload", "manifests"}, toAny(some(b, 3, b.manifest))
	}
}

func (b bodies) manifest() object {
	m := object{"apiVersion": one(b, "v1", "apps/v1"), "kind": one(b, "A", "B"),
		"metadata": object{"name": one(b, "a", "b", "é")}}
	switch b.Intn(8) {
	case 0:
		m["deep"] = object{"n": nil, "list": array{nil, 1, 2.5, "x"}, "large": 1234567890123}
	case 1:
		m["metadata"] = object{"generateName": "G_", "labels": object{"a": "b"}}
	case 2:
		delete(m, one(b, "kind", "apiVersion", "metadata"))
	case 3:
		m[one(b, "kind", "apiVersion")] = one[any](b, 7, "a/b/c", strings.Repeat("k", 64))
	}
	return m
}

// config has every member that Go writes even if it is empty. Otherwise a typed update would add
// it, and the API server would increase the generation.
func (b bodies) config() object {
	c := object{"resourceIdentifier": object{"group": "g", "resource": "r", "name": one(b, "a", "b"),
		"namespace": one(b, "a", "b")}}
	switch b.Intn(7) {
	case 0:
		c["feedbackRules"] = array{object{"type": one(b, "JSONPaths", "WellKnownStatus", "x"),
			"jsonPaths": array{object{"name": "a", "path": ".a"}}}}
	case 1:
		c["updateStrategy"] = object{"type": one(b, "Update", "ServerSideApply", "x")}
	case 2:
		c["updateStrategy"] = object{"serverSideApply": object{
			"force": true, "fieldManager": one(b, "work-agent-x", "x"),
			"ignoreFields": array{object{"condition": one(b, "OnSpokeChange", "x"), "jsonPaths": array{".a"}}},
		}}
	case 3:
		c["conditionRules"] = array{object{"type": one(b, "CEL", "WellKnownConditions", "x"), "condition": one(b, "A", ""),
			"celExpressions": array{"true"}, "message": "m", "messageExpression": "x"}}
	case 4:
		c["feedbackScrapeType"] = one(b, "Poll", "Watch", "x")
	}
	return c
}

// merge is a merge patch of some members.
func (b bodies) merge() object {
	doc := object{}
	for range 1 + b.Intn(3) {
		path, value := b.member()
		at := doc
		for _, name := range path[:len(path)-1] {
			next, ok := at[name].(object)
			if !ok {
				next = object{}
				at[name] = next
			}
			at = next
		}
		at[path[len(path)-1]] = value
	}
	return doc
}

// operations is a JSON patch of some members.
func (b bodies) operations() array {
	return toAny(some(b, 3, func() object {
		path, value := b.member()
		op := object{"op": one(b, "add", "add", "add", "replace", "test", "remove"), "path": "/" + strings.Join(path, "/"),
			"value": value}
		if op["op"] == "remove" {
			delete(op, "value")
		}
		return op
	}))
}

// configuration returns an apply with manifests: API.md lists the difference for an apply that
// gives up the last item of a list.
func (b bodies) configuration(name string) object {
	doc := b.merge()
	for member, value := range (object{"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork"}) {
		if doc[member] == nil || b.chance(80) {
			doc[member] = value
		}
	}
	child(doc, "metadata")["name"] = name
	if workload := child(child(doc, "spec"), "workload"); workload["manifests"] == nil {
		workload["manifests"] = array{b.manifest()}
	}
	return doc
}

func child(of object, name string) object {
	m, ok := of[name].(object)
	if !ok {
		m = object{}
		of[name] = m
	}
	return m
}

// edit changes a typed object before it is written.
func (b bodies) edit(w *workv1.ManifestWork) {
	decode := func(value any, into any) {
		data, err := json.Marshal(value)
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			// the generator makes values that cannot be decoded, and Go objects cannot have them
			panic(fmt.Sprintf("%v: %v", value, err))
		}
	}
	for range 1 + b.Intn(2) {
		switch b.Intn(8) {
		case 0:
			w.Labels = one(b, nil, map[string]string{"a": "1"}, map[string]string{"a b": "1"})
		case 1:
			w.Annotations = one(b, nil, map[string]string{"a": "\x00 ü"}, map[string]string{"a b": ""})
		case 2:
			w.Finalizers = one(b, nil, []string{"example.com/x"}, []string{"a b"})
		case 3:
			owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Owner", Name: "o", UID: "1", Controller: ptr.To(true)}
			w.OwnerReferences = one(b, nil, []metav1.OwnerReference{owner}, []metav1.OwnerReference{owner, owner})
		case 4:
			w.Spec.DeleteOption = one(b, nil, &workv1.DeleteOption{}, &workv1.DeleteOption{PropagationPolicy: "Orphan"})
		case 5:
			w.Spec.ManifestConfigs = nil
			decode(toAny(some(b, 2, b.config)), &w.Spec.ManifestConfigs)
		case 6:
			w.Spec.Workload.Manifests = nil
			decode(toAny(some(b, 2, b.manifest)), &w.Spec.Workload.Manifests)
		case 7:
			w.GenerateName, w.Generation = one(b, "", "g-"), int64(b.Intn(9))
			w.SetSelfLink("/x")
		}
	}
}

// status returns a status as an agent reports it, mostly valid.
func (b bodies) status() workv1.ManifestWorkStatus {
	condition := func() metav1.Condition {
		return metav1.Condition{
			Type: one(b, "Applied", "Available", "x.y/Z", "a b"), Status: one[metav1.ConditionStatus](b, "True", "False", "True",
				"x"),
			Reason: one(b, "R", "R_", "R", "9"), Message: one(b, "", "m"), ObservedGeneration: int64(b.Intn(4)),
			LastTransitionTime: metav1.NewTime(time.Unix(1700000000, 0)),
		}
	}
	value := func() workv1.FeedbackValue {
		return workv1.FeedbackValue{Name: one(b, "a", "b", "c"),
			Value: workv1.FieldValue{Type: one(b, workv1.String, workv1.JsonRaw), String: ptr.To("s")}}
	}
	out := workv1.ManifestWorkStatus{Conditions: some(b, 2, condition)}
	for i := range 1 + b.Intn(2) {
		m := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Ordinal: int32(i), Name: "n"},
			Conditions: some(b, 2, condition)}
		m.StatusFeedbacks.Values = some(b, 2, value)
		out.ResourceStatus.Manifests = append(out.ResourceStatus.Manifests, m)
	}
	return out
}

// A spec and a status with all fields.
const (
	fullSpec = `{"deleteOption":{"propagationPolicy":"SelectivelyOrphan","ttlSecondsAfterFinished":3,"selectivelyOrphans":{"orphaningRules":[
		{"group":"g","resource":"r","name":"n","namespace":"s"}]}},
		"executor":{"subject":{"type":"ServiceAccount","serviceAccount":{"name":"n","namespace":"s"}}},
		"manifestConfigs":[{"resourceIdentifier":{"group":"g","resource":"r","name":"n","namespace":"s"},"feedbackScrapeType":"Watch",
		"feedbackRules":[{"type":"JSONPaths","jsonPaths":[{"name":"a","path":".a","version":"v1"},{"name":"b","path":".b"}]}],
		"updateStrategy":{"type":"ServerSideApply","serverSideApply":{"force":true,"fieldManager":"work-agent-x","ignoreFields":[
		{"condition":"OnSpokeChange","jsonPaths":[".a"]},{"condition":"OnSpokePresent","jsonPaths":[".b"]}]}},
		"conditionRules":[{"type":"CEL","condition":"C","celExpressions":["true"],"message":"m","messageExpression":"x"}]}],
		"workload":{"manifests":[{"apiVersion":"v1","kind":"K","metadata":{"name":"n","namespace":"s","labels":{"a":"b"},
		"annotations":{"a":"b"},"finalizers":["a/b"]},"x":1}]}}`
	fullStatus = `{"conditions":[{"type":"A","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1},
		{"type":"B","status":"False","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],
		"resourceStatus":{"manifests":[{"resourceMeta":{"ordinal":0,"group":"g","version":"v1","kind":"K","resource":"r","name":"n","namespace":"s"},
		"conditions":[{"type":"message","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}],
		"statusFeedback":{"values":[{"name":"a","fieldValue":{"type":"Integer","integer":1}},{"name":"b","fieldValue":{"type":"JsonRaw","jsonRaw":"{}"}}]}},
		{"resourceMeta":{"ordinal":1,"group":"","version":"v1","kind":"L","resource":"","name":"","namespace":""},"conditions":[],
		"statusFeedback":{"values":[{"name":"a","fieldValue":{"type":"String","string":"s"}}]}}]}}`
)

// spoilt returns a document with some missing or invalid places.
func (b bodies) spoilt(document string) any {
	var doc any
	if err := json.Unmarshal([]byte(document), &doc); err != nil {
		panic(err) // a constant of this file
	}
	for range 1 + b.Intn(2) {
		var places []func()
		var walk func(value any)
		wrong := one[any](b, nil, nil, 7, "", "x", true, -1, 1.5, object{"q": 1}, array{}, array{"a"}, array{nil},
			strings.Repeat("k", 1030))
		missing := b.chance(50)
		walk = func(value any) {
			switch value := value.(type) {
			case object:
				for _, name := range slices.Sorted(maps.Keys(value)) {
					places = append(places, func() {
						if value[name] = wrong; missing {
							delete(value, name)
						}
					})
					walk(value[name])
				}
			case array:
				for i := range value {
					places = append(places, func() { value[i] = wrong })
					walk(value[i])
				}
			}
		}
		walk(doc)
		one(b, places...)()
	}
	return doc
}

// text returns a body in its sent form.
func text(body any) string {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // the body was JSON, or is made of maps, lists and scalars
	}
	return string(data)
}

func toAny[T any](list []T) array {
	out := make(array, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}
