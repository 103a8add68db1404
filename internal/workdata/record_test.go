// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workdata_test

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/randfill"

	"github.com/spokewire/sdk-go/internal/workdata"
)

// record has a member of each kind that the records of sources and agents have.
type record struct {
	UID     types.UID            `json:"uid"`
	Number  int                  `json:"number,omitempty"`
	Flag    bool                 `json:"flag,omitempty"`
	At      time.Time            `json:"at,omitzero"`
	Deleted *metav1.Time         `json:"deleted,omitempty"`
	Other   *metav1.Condition    `json:"other,omitempty"`
	Object  *workv1.ManifestWork `json:"object,omitempty"`
}

var recordMembers = workdata.Object[record]{
	{Name: "uid", At: func(r *record) any { return &r.UID }},
	{Name: "number", At: func(r *record) any { return &r.Number }},
	{Name: "flag", At: func(r *record) any { return &r.Flag }},
	{Name: "at", At: func(r *record) any { return &r.At }},
	{Name: "deleted", At: func(r *record) any { return &r.Deleted }},
	{Name: "other", At: func(r *record) any { return &r.Other }},
	{Name: "object", At: func(r *record) any { return &r.Object }},
}

// sameDecoding checks that Decode decodes data as encoding/json does, and that the result does not
// share memory with data. It reports whether the parser read it.
func sameDecoding(t *testing.T, data []byte) (parsed bool) {
	t.Helper()
	var want, got record
	wantErr := json.Unmarshal(data, &want)
	text := bytes.Clone(data)
	if err := workdata.Decode(text, &got, recordMembers); (err == nil) != (wantErr == nil) ||
		err != nil && err.Error() != wantErr.Error() {
		t.Fatalf("error %v, encoding/json has %v\n%s", err, wantErr, data)
	}
	if !bytes.Equal(text, data) {
		t.Fatal("the record was changed")
	}
	clear(text)
	if !reflect.DeepEqual(want, got) { // distinguishes nil from empty
		t.Fatalf("-encoding/json +Decode:\n%s\n%s", cmp.Diff(want, got), data)
	}
	if parsed = workdata.ParseRecord(data, &record{}, recordMembers); parsed && got.Object != nil {
		exactLists(t, &got.Object.Status)
	}
	return parsed
}

// randomRecord returns the JSON of a record. With all, each field has a value.
func randomRecord(tb testing.TB, seed int64, all bool) []byte {
	tb.Helper()
	f := filler(randfill.New().RandSource(rand.NewSource(seed))).NilChance(.3).Funcs(
		func(t *time.Time, c randfill.Continue) {
			*t = time.Unix(c.Int63n(200<<30)-50<<30, c.Int63n(1e9)).UTC()
		},
		func(raw *runtime.RawExtension, c randfill.Continue) {
			text, _ := json.Marshal(map[string]any{c.String(0): c.String(9), "lastTransitionTime": []any{nil, c.Float64()}})
			raw.Raw = text
		},
		func(fields *metav1.FieldsV1, _ randfill.Continue) {
			*fields = *metav1.NewFieldsV1(`{"f:spec":{"f:workload":{}}}`)
		},
	)
	if all {
		f = f.NilChance(0)
	}
	var r record
	f.Fill(&r)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(seed%2 == 0)
	if err := e.Encode(r); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// TestDecodeEveryField fills the whole record. The parser must read all fields of the current API:
// otherwise it lacks a member.
func TestDecodeEveryField(t *testing.T) {
	for seed := range int64(200) {
		if data := randomRecord(t, seed, true); !sameDecoding(t, data) {
			t.Fatalf("seed %d is left to encoding/json:\n%.2000s", seed, data)
		}
		sameDecoding(t, randomRecord(t, seed, false))
	}
}

// TestDecodeMutated changes bytes of records.
func TestDecodeMutated(t *testing.T) {
	random, parsed := rand.New(rand.NewSource(1)), 0
	var records [50][]byte
	for i := range records {
		records[i] = randomRecord(t, int64(i), false)
	}
	const bytesOf = "\"\\{}[],:0ntA \x01\xff"
	for range 10_000 {
		data := bytes.Clone(records[random.Intn(len(records))])
		for range 1 + random.Intn(3) {
			at, length := random.Intn(len(data)), random.Intn(4)
			end := min(at+length, len(data))
			switch random.Intn(3) {
			case 0:
				data[at] = bytesOf[random.Intn(len(bytesOf))]
			case 1:
				data = append(data[:at], data[end:]...)
			default:
				data = append(data[:end], data[at:]...) // twice
			}
			if len(data) == 0 {
				break
			}
		}
		if sameDecoding(t, data) {
			parsed++
		}
	}
	if parsed == 0 || parsed == 10_000 {
		t.Errorf("the parser read %d records", parsed)
	}
}

// recordCases returns records that must be decoded as by encoding/json. The parser must not leave
// cases with usual set to it.
func recordCases() []struct {
	name, data string
	usual      bool
} {
	object := func(members string) string { return `{"uid":"u","object":{` + members + `}}` }
	manifests := func(list string) string { return object(`"spec":{"workload":{"manifests":[` + list + `]}}`) }
	return []struct {
		name, data string
		usual      bool
	}{
		{"empty", `{}`, true},
		{"spaces", ` { "object" : { "spec" : { "workload" : { "manifests" : [ { "a" : 1 } , null ] } } } }` + "\n", true},
		{"manifests", manifests(`null,1,"a",[],{},{"a":"\ud800<` + "\xff" + `","a":-0.0e1}`), true},
		{"no manifests", manifests(``), true},
		{"empty parts", object(`"metadata":{},"spec":{"workload":{}},"status":{}`), true},
		{"names of a status in a manifest", object(`"spec":{"workload":{"manifests":[{"lastTransitionTime":1,"aMeta":1}]}},` +
			`"status":{"conditions":[{"lastTransitionTime":"2024-05-06T07:08:09Z"}]}`), true},
		{"no UTF-8", object("\"metadata\":{\"name\":\"\xff\",\"labels\":{\"\xff\":\"\\ud800\"}}"), true},
		{"same label", object(`"metadata":{"labels":{"a":"1","a":"2"},"annotations":{},"finalizers":[]}`), true},
		{"parts for encoding/json", object(`"metadata":{"ownerReferences":[{"NAME":"a","x":1}],"managedFields":null}`), true},
		{"times", `{"at":"2024-05-06T07:08:09.5+02:00","deleted":"2024-05-06T07:08:09+02:00"}`, true},
		{"no times", `{"at":null,"object":{"metadata":{"creationTimestamp":null}}}`, true},

		{"null", `null`, false},
		{"nothing", ``, false},
		{"text behind", `{} 1`, false},
		{"list", `[]`, false},
		{"unknown", `{"later":1}`, false},
		{"another case", `{"UID":"u"}`, false},
		{"twice", `{"object":{"metadata":{"name":"a"}},"object":{"metadata":{"uid":"b"}}}`, false},
		{"twice, another case", object(`"spec":{"executor":{}},"Spec":{"deleteOption":{}}`), false},
		{"the enhancement's names", object(`"status":{"resourceStatus":{"manifestConditions":[{}]}}`), false},
		{"status before manifests", object(`"status":{"conditions":[{"lastTransitionTime":null}]},` +
			`"spec":{"workload":{"manifests":[{"lastTransitionTime":null}]}}`), false},
		{"null conditions", object(`"status":{"resourceStatus":{"manifests":[{"conditions":null}]}}`), false},
		{"null values", `{"uid":null,"number":null,"flag":null,"deleted":null,"other":null,"object":null}`, false},
		{"null parts", object(`"metadata":null,"spec":null,"status":null`), false},
		{"null labels", object(`"metadata":{"labels":null,"annotations":{"a":null},"finalizers":[null]}`), false},
		{"number for string", object(`"metadata":{"name":1,"uid":"u"}`), false},
		{"string for number", `{"number":"1","uid":"u"}`, false},
		{"fraction", `{"number":1.5}`, false},
		{"bad time", `{"at":"2024-05-06 07:08:09"}`, false},
		{"bad part", object(`"metadata":{"ownerReferences":{}}`), false},
		{"deep", manifests(strings.Repeat("[", 2000) + strings.Repeat("]", 2000)), false},
		{"too deep", manifests(strings.Repeat("[", 9997) + strings.Repeat("]", 9997)), false},
	}
}

func TestDecode(t *testing.T) {
	for _, tc := range recordCases() {
		t.Run(tc.name, func(t *testing.T) {
			if parsed := sameDecoding(t, []byte(tc.data)); parsed != tc.usual {
				t.Errorf("read without encoding/json: %t, want %t", parsed, tc.usual)
			}
		})
	}
}

// FuzzDecode compares Decode with encoding/json.
func FuzzDecode(f *testing.F) {
	for _, tc := range recordCases() {
		f.Add([]byte(tc.data))
	}
	for seed := range int64(4) {
		f.Add(randomRecord(f, seed, seed == 0))
	}
	f.Fuzz(func(t *testing.T, data []byte) { sameDecoding(t, data) })
}

// BenchmarkDecode decodes the record of a work with one applied manifest.
func BenchmarkDecode(b *testing.B) {
	data := []byte(`{"uid":"5f0c7c1e-0b0a-4f4e-9a63-1d8f0d5a6b11","number":3,"at":"2024-05-06T07:08:09Z",` +
		`"object":{"metadata":{"name":"work","namespace":"cluster1",` +
		`"uid":"5f0c7c1e-0b0a-4f4e-9a63-1d8f0d5a6b11","resourceVersion":"812",` +
		`"generation":3,"creationTimestamp":"2024-05-06T07:08:09Z","labels":{"app":"shop"}},"spec":{"workload":{` +
		`"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"value":"` +
		strings.Repeat("v", 900) + `"}}]}},"status":{"conditions":[{"type":"Applied","status":"True",` +
		`"observedGeneration":3,"lastTransitionTime":"2024-05-06T07:08:09Z","reason":"AppliedManifestWorkComplete",` +
		`"message":"Apply manifest work complete"}],"resourceStatus":{"manifests":[{"resourceMeta":{"ordinal":0,` +
		`"group":"","version":"v1","kind":"ConfigMap","resource":"configmaps","name":"a","namespace":"default"},` +
		`"statusFeedback":{},"conditions":[{"type":"Applied","status":"True","lastTransitionTime":` +
		`"2024-05-06T07:08:09Z","reason":"AppliedManifestComplete","message":"Apply manifest complete"}]}]}}}}`)
	for name, decode := range map[string]func(*record) error{
		"workdata":      func(r *record) error { return workdata.Decode(data, r, recordMembers) },
		"encoding-json": func(r *record) error { return json.Unmarshal(data, r) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if err := decode(&record{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
