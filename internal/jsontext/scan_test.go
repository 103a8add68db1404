// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// scanCases returns valid and invalid texts for each rule of JSON.
func scanCases() []string {
	return []string{
		"", " ", "null", "nul", "nulls", "true", "tru", "false", "False", " null ", "\t\r\n1\n", "\v1", "\u00a01",
		"0", "-0", "00", "01", "-", "--1", "+1", "1.", ".5", "1.5", "1e", "1e5", "1E+5", "1e-", "1.5e-7", "1e5.5", "0x1",
		"1_0", "NaN",
		`""`, `"`, `"a`, `"\"`, `"\\"`, `"\/\b\f\n\r\t"`, `"\a"`, `"\u"`, `"\u12"`, `"\u12g4"`, `"\u12F4"`, `"\ud800"`,
		`"\ud83d\ude00"`,
		"\"\n\"", "\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"\xff\"", "\"\u2028\"", `'a'`,
		"[]", "[ ]", "[1]", "[1,]", "[,1]", "[1 2]", "[1,2]", "[", "]", "[1", "[1,", "[[]]", "[[]", "[]]",
		"{}", "{ }", `{"a":1}`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{"a" : 1 , "b" : 2}`, `{a:1}`, `{1:1}`,
		`{"a":1 "b":2}`, `{"a"::1}`,
		"{", "}", `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1}}`, `{"a":{"b":[{"c":null}]}}`, `{"a":1,"a":2}`,
		`{"a\u0062":"\u00e4"}`,
		"1 2", "{}{}", "null,", "[1}", "{]",
		nested("[", "", "]", 10_000), nested(`{"a":`, "1", "}", 10_000),
		nested("[", "", "]", 10_001), nested(`{"a":`, "1", "}", 10_001),
	}
}

func nested(open, value, closing string, depth int) string {
	return strings.Repeat(open, depth) + value + strings.Repeat(closing, depth)
}

func TestScan(t *testing.T) {
	for _, s := range scanCases() {
		if got, want := jsontext.Valid([]byte(s)), json.Valid([]byte(s)); got != want {
			t.Errorf("%.40q is valid: %t, want %t", s, got, want)
		}
	}
}

// TestScanRejectsCutText checks that the scanner rejects a text that is cut at any position.
func TestScanRejectsCutText(t *testing.T) {
	whole := []byte(`{"a":[1.5e3,true,"\u00e4",null,{"b":-7}],"c":"d"}`)
	for i := range whole {
		if jsontext.Valid(whole[:i]) {
			t.Errorf("%s is valid", whole[:i])
		}
	}
}

// FuzzScan compares the scanner with encoding/json.
func FuzzScan(f *testing.F) {
	for _, s := range scanCases() {
		if len(s) < 1000 { // mutants of the deepest texts would use all the time
			f.Add([]byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		valid := json.Valid(data)
		if got := jsontext.Valid(data); got != valid {
			t.Fatalf("valid: %t, want %t", got, valid)
		}
		if !valid {
			return
		}
		var want any
		if err := json.Unmarshal(data, &want); err != nil {
			return // a number out of range
		}
		if s, ok := want.(string); ok {
			checkString(t, data, s)
		}
		out, err := jsontext.Canonical(data)
		if err != nil {
			t.Fatal(err)
		}
		var got any
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("the canonical form is not JSON: %v\n%s", err, out)
		}
		if !reflect.DeepEqual(want, got) { // cmp.Diff takes minutes for deep values
			t.Fatalf("the canonical form means something else:\n got %v\nwant %v", got, want)
		}
		again, err := jsontext.Canonical(out)
		if err != nil || string(again) != string(out) {
			t.Fatalf("the canonical form of %s is %s, %v", out, again, err)
		}
	})
}
