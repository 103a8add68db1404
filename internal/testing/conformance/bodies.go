// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	badPolicy = `"deleteOption":{"propagationPolicy":"x"}`
	badRule   = `"manifestConfigs":[{"resourceIdentifier":{"name":"a","resource":"r"},"conditionRules":[{"type":"CEL","condition":""}]}]`
	badLabel  = `"labels":{"a b":"1"}`
)

// wrongBodies sends bodies with several mistakes at once. The error names all mistakes, or the
// first that the server finds.
func wrongBodies(r *Recorder) {
	out, err := r.hub().Create(r.ctx, simple("app", "1"), metav1.CreateOptions{})
	r.object("create", out, err)
	merge := func(label, data string) {
		out, err := r.hub().Patch(r.ctx, "app", types.MergePatchType, []byte(data), metav1.PatchOptions{})
		r.object(label, out, err)
	}
	merge("kind and label", `{"kind":"Other","metadata":{`+badLabel+`}}`)
	merge("kind, uid and spec", `{"kind":"Other","metadata":{"uid":"other"},"spec":{"workload":7}}`)
	merge("kind and rule", `{"kind":"Other","spec":{`+badPolicy+`,`+badRule+`}}`)
	merge("kind and manifest", `{"kind":"Other","spec":{"workload":{"manifests":[{"apiVersion":"v1"}]}}}`)
	merge("kind and unreadable manifest",
		`{"kind":"Other","spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":5}]}}}`)
	merge("another group", `{"apiVersion":"x/v1"}`)
	merge("no group", `{"apiVersion":"v1"}`)
	merge("apiVersion that is none", `{"apiVersion":"a/b/c"}`)
	merge("apiVersion that is none, and labels", `{"apiVersion":"a/b/c","metadata":{"labels":7}}`)
	merge("kind and labels of wrong types", `{"metadata":{"labels":7},"kind":7,"apiVersion":null,"spec":7}`)
	merge("labels of a wrong type and no apiVersion", `{"metadata":{"labels":7},"apiVersion":null}`)
	merge("labels of a wrong type and spec", `{"metadata":{"labels":7},"spec":7}`)
	merge("label and rule", `{"metadata":{`+badLabel+`},"spec":{`+badRule+`}}`)
	merge("policy and manifest", `{"spec":{`+badPolicy+`,"workload":{"manifests":[{"apiVersion":"v1"}]}}}`)
	merge("policy and unreadable manifest", `{"spec":{`+badPolicy+
		`,"workload":{"manifests":[{"apiVersion":"v1","kind":5}]}}}`)
	merge("config of a wrong type and unreadable manifest",
		`{"spec":{"manifestConfigs":[{"feedbackRules":[["a"]]}],"workload":{"manifests":[{"apiVersion":"v1","kind":"K","metadata":{"labels":7}}]}}}`)
	merge("null configs", `{"spec":{"manifestConfigs":[null,null]}}`)
	merge("a null path",
		`{"spec":{"manifestConfigs":[{"resourceIdentifier":{"name":"a","resource":"r"},"feedbackRules":[{"type":"JSONPaths","jsonPaths":[null]}]}]}}`)
	out, err = r.hub().Patch(r.ctx, "app", types.JSONPatchType, []byte(`[{"op":"replace","path":"/kind","value":"Other"},`+
		`{"op":"remove","path":"/spec/workload/manifests/0/kind"},{"op":"add","path":"/metadata/labels","value":{"a b":"1"}}]`), metav1.PatchOptions{})
	r.object("json, kind, label and manifest", out, err)
	wrongApplies(r)
}

func wrongApplies(r *Recorder) {
	apply := func(label, name, manager, metadata, rest string) {
		body := fmt.Sprintf(`%s"metadata":{"name":%q%s}%s}`, applyHead, name, metadata, rest)
		out, err := r.hub().Patch(r.ctx, name, types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: manager})
		r.object(label, out, err)
	}
	const someManifests = `,"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"K"}]}}`
	apply("apply, label, uid and policy", "app", "m", `,"uid":"other",`+badLabel, `,"spec":{`+badPolicy+`}`)
	apply("apply, label and rule", "app", "m", `,`+badLabel, `,"spec":{`+badRule+`}`)
	apply("apply, create with label and policy", "new", "m", `,`+badLabel, `,"spec":{`+badPolicy+`}`)
	apply("apply, create with a manifest's metadata of another kind", "new", "m", ``,
		`,"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"K","metadata":{"q":1}}]}}`)
	apply("apply, create with an empty workload", "empty", "m1", ``, `,"spec":{"workload":{}}`)
	apply("apply, manifests by another", "empty", "m2", ``, someManifests)
	apply("apply, other manifests by the first", "empty", "m1", ``, strings.ReplaceAll(someManifests, `"K"`, `"L"`))
	apply("apply, create without a spec", "bare", "m1", ``, ``)
	apply("apply, then manifests by another", "bare", "m2", ``, someManifests)
}

// statusBodies sends statuses of agents that do not use the Go types.
func statusBodies(r *Recorder) {
	out, err := r.hub().Create(r.ctx, simple("app", "1"), metav1.CreateOptions{})
	r.err("create", err)
	_ = out
	r.Settle()
	try := func(label string, pt types.PatchType, data string) {
		out, err := r.spoke().Patch(r.ctx, "app", pt, []byte(data), metav1.PatchOptions{}, "status")
		r.object(label, out, err)
	}
	merge := func(label, data string) { try(label, types.MergePatchType, data) }
	jsonp := func(label, data string) { try(label, types.JSONPatchType, data) }
	condition := func(rest string) string {
		return `{"status":{"conditions":[{"status":"True","reason":"R","lastTransitionTime":"2026-01-01T00:00:00Z"` + rest +
			`}]}}`
	}
	value := func(rest string) string {
		return `{"status":{"resourceStatus":{"manifests":[{"resourceMeta":{"ordinal":0},"conditions":[],"statusFeedback":{"values":[{"name":"a"` + rest + `}]}}]}}}`
	}
	jsonp("json, a condition of no status", `[{"op":"add","path":"/status/conditions","value":[]}]`)
	jsonp("json, remove no status", `[{"op":"remove","path":"/status"}]`)
	jsonp("json, null for no status", `[{"op":"replace","path":"/status","value":null}]`)
	merge("condition without type", condition(`,"message":""`))
	merge("condition without message", condition(`,"type":"A"`))
	merge("condition of type message, without message", condition(`,"type":"message"`))
	merge("condition without status", strings.Replace(condition(`,"type":"A","message":""`), `"status":"True",`, ``, 1))
	merge("feedback without value", value(``))
	merge("feedback without type", value(`,"fieldValue":{"integer":1}`))
	merge("feedback of type null", value(`,"fieldValue":{"type":null}`))
	merge("null condition", `{"status":{"conditions":[null]}}`)
	merge("null feedback",
		`{"status":{"resourceStatus":{"manifests":[{"resourceMeta":{"ordinal":0},"conditions":[],"statusFeedback":{"values":[null,null]}}]}}}`)
	merge("apiVersion that is none", `{"apiVersion":"a/b/c","status":{}}`)
	merge("another kind", strings.Replace(condition(`,"type":"A","message":""`), `{"status"`, `{"kind":"Other","status"`,
		1))
	jsonp("json, null", `[{"op":"replace","path":"/status","value":null}]`)
	jsonp("json, null again", `[{"op":"add","path":"/status","value":null}]`)
	merge("conditions", condition(`,"type":"A","message":""`))
	jsonp("json, manifests of no resourceStatus", `[{"op":"add","path":"/status/resourceStatus/manifests","value":[]}]`)
	jsonp("json, remove", `[{"op":"remove","path":"/status"}]`)
	out, err = r.spoke().Patch(r.ctx, "app", types.MergePatchType,
		[]byte(`{"spec":{`+badPolicy+`},"metadata":{`+badLabel+`}}`), metav1.PatchOptions{})
	r.object("policy and label", out, err)
}

// travel records which parts of an object the other side also has.
func travel(r *Recorder) {
	out, err := r.hub().Create(r.ctx, simple("app", "1"), metav1.CreateOptions{})
	created := r.object("create", out, err)
	const all = `{"metadata":{"generateName":"app-","finalizers":["example.com/hub"],"labels":{"a":"1"},"annotations":{"a":"1"},` +
		`"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"x","uid":"1"}]}}`
	out, err = r.hub().Patch(r.ctx, "app", types.MergePatchType, []byte(all), metav1.PatchOptions{})
	r.object("metadata on the hub", out, err)
	r.Settle()
	spoke := r.onSpoke("on the spoke")
	if spoke == nil || created == nil {
		return
	}
	r.line("the same uid", fmt.Sprint(spoke.UID == created.UID))
	out, err = r.spoke().Patch(r.ctx, "app", types.MergePatchType, []byte(
		`{"metadata":{"generateName":"other-","finalizers":["example.com/spoke"],"labels":{"b":"1"},"annotations":{"b":"1"}}}`), metav1.PatchOptions{})
	r.object("metadata on the spoke", out, err)
	r.Settle()
	out, err = r.hub().Get(r.ctx, "app", metav1.GetOptions{})
	r.object("on the hub", out, err)
}
