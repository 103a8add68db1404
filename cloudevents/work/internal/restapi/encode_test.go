// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/yaml"
)

// encodings returns the JSON of the encoder and that of its delegate, without empty statuses.
func encodings(t *testing.T, obj runtime.Object) (got, want string) {
	t.Helper()
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	var a, b bytes.Buffer
	version := schema.GroupVersion{Group: workv1.GroupName, Version: "v1"}
	if err := codecs.EncoderForVersion(info.Serializer, version).Encode(obj, &a); err != nil {
		t.Fatal(err)
	}
	if err := codecs.CodecFactory.EncoderForVersion(info.Serializer, version).Encode(obj, &b); err != nil {
		t.Fatal(err)
	}
	return a.String(), emptyStatuses.Replace(b.String())
}

var emptyStatuses = strings.NewReplacer(`,"status":{"resourceStatus":{}}`, "", `,"resourceStatus":{}}`, "}")

func encoded(manifests ...workv1.Manifest) *workv1.ManifestWork {
	w := &workv1.ManifestWork{TypeMeta: ownType, ObjectMeta: metav1.ObjectMeta{
		Name: "w", Namespace: "cluster1", UID: "u", ResourceVersion: "7", Generation: 2,
		CreationTimestamp: metav1.Unix(1, 0), Labels: map[string]string{"b": "<&>", "a": ""},
		Annotations: map[string]string{"text": `,"spec":{"workload":{}`}, Finalizers: []string{"f"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", Time: ptr.To(metav1.Unix(2, 0)),
			FieldsV1: metav1.NewFieldsV1(`{"f:spec": {"f:workload":{}}}`)}},
	}}
	w.Spec.Workload.Manifests = manifests
	return w
}

func raw(s string) workv1.Manifest {
	return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(s)}}
}

// TestEncodeIsThatOfEncodingJSON compares the JSON of works, lists and events with that of
// apimachinery's serializer.
func TestEncodeIsThatOfEncodingJSON(t *testing.T) {
	full := encoded(raw(`{"kind":"A"}`))
	full.Spec.Executor = &workv1.ManifestWorkExecutor{}
	full.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: "<>"}
	full.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{}}
	full.Status.Conditions = []metav1.Condition{{
		Type: "Applied", Message: "a \u2028 & b", LastTransitionTime: metav1.Unix(3, 0),
	}}
	deleted := encoded()
	deleted.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(9, 0)))
	objects := []runtime.Object{
		full, deleted, encoded(raw(`{}`), raw(`{"a":[1,2.50,"\"\\"]}`), raw(`{"a":"b c"}`)),
		encoded(raw("{\n\t\"a\" : [ 1 ] }")), encoded(raw(`{"a":"<&>"}`), raw(`{"a":"é – \u003c"}`)),
		encoded(raw(`{"a":"` + "\u2028" + `"}`)),
		encoded(workv1.Manifest{}), encoded(workv1.Manifest{RawExtension: runtime.RawExtension{
			Object: &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "A"}}}}),
		&workv1.ManifestWorkList{Items: []workv1.ManifestWork{}}, &workv1.ManifestWorkList{},
		&workv1.ManifestWorkList{
			ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "<", RemainingItemCount: ptr.To[int64](3)},
			Items:    []workv1.ManifestWork{*full, *deleted},
		},
		&metav1.Status{Message: "<"},
		&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: []byte("{\"a\":\"\\u003c\"}\n")}},
	}
	many := &workv1.ManifestWorkList{}
	for i := range 100 {
		many.Items = append(many.Items, *encoded(raw(fmt.Sprintf(`{"a":%q}`, strings.Repeat("x", 50*i)))))
	}
	bookmark := &workv1.ManifestWork{TypeMeta: ownType, ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9"}}
	const want = `{"kind":"ManifestWork","apiVersion":"work.open-cluster-management.io/v1",` +
		`"metadata":{"resourceVersion":"9"}}` + "\n"
	if got, _ := encodings(t, bookmark); got != want {
		t.Errorf("a bookmark: %s, want %s", got, want)
	}
	for _, obj := range append(objects, many) {
		got, want := encodings(t, obj)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%T (-want +got):\n%s", obj, diff)
		}
	}
}

// writes records the sizes of writes.
type writes []int

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, len(p))
	return len(p), nil
}

// TestEncodeListIsCompressed checks that the first write of a large list is large enough: the API
// server's handlers then compress the response.
func TestEncodeListIsCompressed(t *testing.T) {
	list := &workv1.ManifestWorkList{}
	for range 300 {
		list.Items = append(list.Items, *encoded(raw(fmt.Sprintf(`{"a":%q}`, strings.Repeat("x", 2000)))))
	}
	var sizes writes
	if err := (encoder{}).Encode(list, &sizes); err != nil {
		t.Fatal(err)
	}
	const threshold = 128 << 10 // of k8s.io/apiserver
	if len(sizes) < 2 || sizes[0] <= threshold {
		t.Errorf("writes of %d bytes", sizes)
	}
}

// FuzzCanonical checks that encoding/json does not change canonical JSON.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a": 1}`, `"\\"`, `"<"`, `"\""`, "\"\u2028\"", `[1,2]`, "\"\xe2\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !canonical(data) {
			return
		}
		w := encoded(workv1.Manifest{RawExtension: runtime.RawExtension{Raw: data}})
		var buffer bytes.Buffer
		info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
		if err := info.Serializer.Encode(w, &buffer); err != nil {
			return // invalid JSON
		}
		if got, want := encodings(t, w); got != want {
			t.Errorf("%s\n%s", got, want)
		}
	})
}

// TestEncodeReturnsErrors encodes works with parts that are not JSON.
func TestEncodeReturnsErrors(t *testing.T) {
	fields := encoded()
	fields.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1("{")
	manifest := encoded(raw(`{"a" }`))
	for name, obj := range map[string]runtime.Object{
		"fields": fields, "manifest": manifest,
		"list": &workv1.ManifestWorkList{Items: []workv1.ManifestWork{*encoded(), *fields}},
	} {
		if err := codecs.EncoderForVersion(ofJSON.Serializer, schema.GroupVersion(workv1.GroupVersion)).
			Encode(obj, &bytes.Buffer{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestEncodeOtherForms compares YAML and indented JSON of works and lists with compact JSON.
func TestEncodeOtherForms(t *testing.T) {
	full := encoded(raw(`{"kind":"A","text":"<&>\u2028"}`))
	full.Status.Conditions = []metav1.Condition{{Type: "Applied", Message: "<&>"}}
	version := schema.GroupVersion{Group: workv1.GroupName, Version: "v1"}
	for _, obj := range []runtime.Object{
		full, encoded(), &workv1.ManifestWork{TypeMeta: ownType},
		&workv1.ManifestWorkList{Items: []workv1.ManifestWork{*full, *encoded()}}, &workv1.ManifestWorkList{},
	} {
		want, _ := encodings(t, obj)
		for name, e := range map[string]runtime.Encoder{"YAML": ofYAML.Serializer, "indented": ofJSON.PrettySerializer} {
			var got bytes.Buffer
			if err := codecs.EncoderForVersion(e, version).Encode(obj, &got); err != nil {
				t.Fatal(err)
			}
			var a, b any
			if err := errors.Join(yaml.Unmarshal(got.Bytes(), &a), json.Unmarshal([]byte(want), &b)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(b, a); diff != "" {
				t.Errorf("%s differs from JSON (-JSON +%s):\n%s", name, name, diff)
			}
			if !strings.Contains(got.String(), "\n") || strings.HasPrefix(got.String(), "{") != (name == "indented") {
				t.Errorf("%s is %s", name, got.String())
			}
		}
	}
}
