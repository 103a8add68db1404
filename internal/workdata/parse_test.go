// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workdata_test

import (
	"encoding/json"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/randfill"

	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/internal/workdata"
)

var limits = workdata.Limits{Depth: 9000, Elements: 1 << 18}

// formats lists, for each format, the functions that write and read the data of a status event.
var formats = []struct {
	name    string
	marshal func(*workv1.ManifestWorkStatus) ([]byte, error)
	bundle  bool
	reflect func([]byte, workdata.Limits) (*workv1.ManifestWorkStatus, error)
}{
	{"enhancement", workdata.Marshal, false, workdata.Reflect},
	{"bundle", workdata.MarshalBundle, true, workdata.ReflectBundle},
}

// filler fills statuses with times that JSON can represent.
func filler(f *randfill.Filler) *randfill.Filler {
	return f.NumElements(1, 3).Funcs(func(t *metav1.Time, c randfill.Continue) {
		*t = metav1.NewTime(time.Unix(c.Int63n(200<<30)-50<<30, 0))
	})
}

// sameReading checks that the parser reads data as reflection does, or leaves the data to
// reflection. It reports whether the parser read it.
func sameReading(t *testing.T, data []byte) (parsed bool) {
	t.Helper()
	before := slices.Clone(data)
	for _, r := range formats {
		got, ok := workdata.Parse(data, limits, r.bundle)
		if !slices.Equal(before, data) {
			t.Fatal("the data was changed")
		}
		if !ok {
			continue
		}
		parsed = true
		want, err := r.reflect(data, limits)
		if err != nil {
			t.Fatalf("%s: the parser reads what reflection refuses: %v\n%s", r.name, err, data)
		}
		if !reflect.DeepEqual(want, got) { // distinguishes nil from empty
			t.Fatalf("%s: -reflection +parser:\n%s\n%s", r.name, cmp.Diff(want, got), data)
		}
		exactLists(t, got)
	}
	return parsed
}

// exactLists checks that lists have no spare capacity, so an append cannot overwrite another list.
func exactLists(t *testing.T, s *workv1.ManifestWorkStatus) {
	t.Helper()
	exact := len(s.Conditions) == cap(s.Conditions) && len(s.ResourceStatus.Manifests) == cap(s.ResourceStatus.Manifests)
	for _, m := range s.ResourceStatus.Manifests {
		exact = exact && len(m.Conditions) == cap(m.Conditions) &&
			len(m.StatusFeedbacks.Values) == cap(m.StatusFeedbacks.Values)
	}
	if !exact {
		t.Fatal("a list has room")
	}
}

// statusCases returns data that the parser must read as reflection does. The parser must not leave
// cases with usual set to reflection.
func statusCases() []struct {
	name, data string
	usual      bool
} {
	condition := func(members string) string { return `{"conditions":[{"lastTransitionTime":null,` + members + `}]}` }
	value := func(members string) string {
		return `{"resourceStatus":{"manifests":[{"resourceMeta":{},"statusFeedback":{"values":[{"name":"a","fieldValue":{` +
			members + `}}]}}]}}`
	}
	return []struct {
		name, data string
		usual      bool
	}{
		{"empty", `{}`, true},
		{"empty lists", `{"conditions":[],"resourceStatus":{"manifestConditions":[]}}`, true},
		{"the API's names", `{"resourceStatus":{"manifests":[{"resourceMeta":{"name":"x","ordinal":-1},"conditions":[]}]}}`,
			true},
		{"of a bundle", `{"conditions":[],"resourceStatus":[{"resourceMeta":{}}]}`, true},
		{"spaces", " { \"conditions\" : [ { \"lastTransitionTime\": \"2024-05-06T07:08:09Z\" } ] } ", true},
		{"escapes", condition(`"message":"a\"b\n\u00fc\ud83d\ude00\ud800"`), true},
		{"escaped names", condition(`"messag\u0065":"a"`), true},
		{"no UTF-8", condition("\"message\":\"\xff\""), true},
		{"zone and fraction", `{"conditions":[{"lastTransitionTime":"2024-05-06T07:08:09.123+02:00"}]}`, true},
		{"all kinds of values",
			value(`"type":"String","integer":-9223372036854775808,"string":"","boolean":false,"jsonRaw":"{\"a\":1}"`), true},
		{"a value like a name", condition(`"message":"lastTransitionTime","reason":"lastTransitionTime\":"`), true},
		{"minus zero", condition(`"observedGeneration":-0`), true},

		{"no object", `[]`, false},
		{"null", `null`, false},
		{"text behind", `{} {}`, false},
		{"cut", `{"conditions":[{"lastTransitionTime":null`, false},
		{"both names", `{"resourceStatus":{"manifestConditions":[],"manifests":[]}}`, false},
		{"twice", `{"conditions":[],"conditions":null}`, false},
		{"twice, deep", condition(`"type":"a","type":"b"`), false},
		{"unknown", `{"later":1}`, false},
		{"unknown, deep", condition(`"later":1`), false},
		{"another case", condition(`"Message":"a"`), false},
		{"null list", `{"conditions":null}`, false},
		{"null entry", `{"conditions":[null]}`, false},
		{"null string", condition(`"message":null`), false},
		{"number for string", condition(`"message":1`), false},
		{"string for number", condition(`"observedGeneration":"1"`), false},
		{"fraction", condition(`"observedGeneration":1.0`), false},
		{"exponent", condition(`"observedGeneration":1e1`), false},
		{"out of range", condition(`"observedGeneration":9223372036854775808`), false},
		{"out of range, 32 bits", `{"resourceStatus":{"manifests":[{"resourceMeta":{"ordinal":2147483648}}]}}`, false},
		{"null value", value(`"integer":null`), false},
		{"no time", `{"conditions":[{"type":"Applied"}]}`, false},
		{"bad time", `{"conditions":[{"lastTransitionTime":"yesterday"}]}`, false},
		{"empty time", `{"conditions":[{"lastTransitionTime":""}]}`, false},
		{"escaped time", `{"conditions":[{"lastTransitionTim\u0065":"2024-05-06T07:08:09Z"}]}`, false},
		{"space before a colon", `{"conditions":[{"lastTransitionTime" :"2024-05-06T07:08:09Z"}]}`, false},
		{"a name within a name", condition(`"my-lastTransitionTime":null`), false},
	}
}

func TestParseStatus(t *testing.T) {
	for _, tc := range statusCases() {
		t.Run(tc.name, func(t *testing.T) {
			if parsed := sameReading(t, []byte(tc.data)); parsed != tc.usual {
				t.Errorf("read without reflection: %t, want %t", parsed, tc.usual)
			}
		})
	}
}

// TestParseStatusEveryField fills the whole status. The parser must read all fields of the current
// API without reflection: otherwise it lacks a member.
func TestParseStatusEveryField(t *testing.T) {
	for seed := range int64(300) {
		f := filler(randfill.New().RandSource(rand.NewSource(seed))).NilChance(float64(seed%3)/4).NumElements(0, 5)
		s := &workv1.ManifestWorkStatus{}
		f.Fill(s)
		for _, r := range formats {
			data, err := r.marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := workdata.Parse(data, limits, r.bundle); !ok && seed%3 == 0 { // nil lists are null in a bundle
				t.Fatalf("seed %d: %s leaves it to reflection:\n%s", seed, r.name, data)
			}
			sameReading(t, data)
		}
		api, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		sameReading(t, api)
	}
}

// TestParseStatusBlocks parses more and longer strings than one block can store.
func TestParseStatusBlocks(t *testing.T) {
	s := &workv1.ManifestWorkStatus{}
	for i := range 600 {
		s.Conditions = append(s.Conditions, metav1.Condition{
			Type: strings.Repeat("t", i), Reason: strings.Repeat("ab", i%7), Message: strings.Repeat("ü", i%90),
		})
	}
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if !sameReading(t, data) {
		t.Error("it was left to reflection")
	}
}

// TestFrequentStrings checks that known and other words are read correctly.
func TestFrequentStrings(t *testing.T) {
	for _, word := range append([]string{"", "A", "zzz", "Appliedx"}, workdata.Words...) {
		data, err := json.Marshal(map[string]any{"conditions": []map[string]any{{"lastTransitionTime": nil, "reason": word}}})
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := workdata.Parse(data, limits, false); !ok || s.Conditions[0].Reason != word {
			t.Errorf("%q is read as %v", word, s)
		}
	}
}

// FuzzParseStatus compares the parser with reflection.
func FuzzParseStatus(f *testing.F) {
	for _, tc := range statusCases() {
		f.Add([]byte(tc.data))
	}
	for _, name := range []string{"status.json", "gone.json", "enhancement/status.json"} {
		event, err := os.ReadFile(filepath.Join("..", "..", "codec", "testdata", filepath.FromSlash(name)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(jsontext.Member(event, "data"))
	}
	for seed := range int64(5) {
		s := &workv1.ManifestWorkStatus{}
		filler(randfill.New().RandSource(rand.NewSource(seed))).NilChance(.2).Fill(s)
		for _, r := range formats {
			data, err := r.marshal(s)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) { sameReading(t, data) })
}
