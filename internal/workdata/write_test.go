// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workdata_test

import (
	"math/rand"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/randfill"

	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/internal/workdata"
)

// sameWriting checks that the writer writes the same as reflection, in both orders.
func sameWriting(t *testing.T, s *workv1.ManifestWorkStatus) {
	t.Helper()
	data, err := workdata.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	later, err := workdata.MarshalLater(s)
	if err != nil {
		t.Fatal(err)
	}
	// encoding/json escapes more than necessary.
	if got, want := normalText(t, data), normalText(t, later); got != want {
		t.Fatalf("written:\n%s\nby reflection:\n%s", got, want)
	}
	want, err := jsontext.Canonical(later)
	if err != nil {
		t.Fatal(err)
	}
	got, err := workdata.Canonical(s)
	if err != nil || string(got) != string(want) {
		t.Fatalf("canonical: %v\n%s\nby reflection:\n%s", err, got, want)
	}
}

// normalText rewrites the strings in JSON text with the fewest escapes. It keeps the order of
// members.
func normalText(t *testing.T, data []byte) string {
	t.Helper()
	if !jsontext.Valid(data) {
		t.Fatalf("no JSON: %s", data)
	}
	var out []byte
	for i := 0; i < len(data); i++ {
		if data[i] != '"' {
			out = append(out, data[i])
			continue
		}
		end := i + 1
		for ; data[end] != '"'; end++ {
			if data[end] == '\\' {
				end++
			}
		}
		s, _ := jsontext.Text(data[i : end+1])
		out = jsontext.AppendString(out, s)
		i = end
	}
	return string(out)
}

// TestWriteStatusEveryField fills the whole status, with nil, empty and full lists.
func TestWriteStatusEveryField(t *testing.T) {
	if !workdata.WritesAll() {
		t.Fatal("the API has fields that the writer does not know: it is not used")
	}
	for seed := range int64(300) {
		s := &workv1.ManifestWorkStatus{}
		filler(randfill.New().RandSource(rand.NewSource(seed))).NilChance(float64(seed%3)/4).NumElements(0, 4).Fill(s)
		sameWriting(t, s)
	}
}

// TestWriteStatusUnusualValues writes values that random statuses seldom contain.
func TestWriteStatusUnusualValues(t *testing.T) {
	integer := func(n int64) workv1.FeedbackValue {
		return workv1.FeedbackValue{Value: workv1.FieldValue{Type: workv1.Integer, Integer: &n}}
	}
	for _, text := range []string{"", "<a&b>", "\u2028\x7f\x00\x1f\b\f\n\r\t\"\\/", "\xff\xed\xa0\x80", "ü😀"} {
		sameWriting(t, &workv1.ManifestWorkStatus{
			Conditions: []metav1.Condition{{Type: text, Status: metav1.ConditionStatus(text), Reason: text, Message: text,
				ObservedGeneration: -1}},
			ResourceStatus: workv1.ManifestResourceStatus{Manifests: []workv1.ManifestCondition{{
				ResourceMeta: workv1.ManifestResourceMeta{Ordinal: -1 << 31, Group: text, Version: text, Kind: text, Resource: text,
					Name: text, Namespace: text},
				StatusFeedbacks: workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{
					{}, {Name: text, Value: workv1.FieldValue{Type: workv1.ValueType(text), String: &text, JsonRaw: &text,
						Boolean: new(bool)}},
					integer(0), integer(1<<53 + 1), integer(-1<<53 - 1), integer(1 << 53), integer(-1 << 53), integer(1<<63 - 1),
					integer(-1 << 63),
				}},
			}}},
		})
	}
}

// FuzzWriteStatus fills statuses from the fuzzer's bytes and compares the writer with reflection.
func FuzzWriteStatus(f *testing.F) {
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &workv1.ManifestWorkStatus{}
		filler(randfill.NewFromGoFuzz(data)).NilChance(.3).NumElements(0, 3).Fill(s)
		sameWriting(t, s)
	})
}
