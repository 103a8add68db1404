// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// scanCases returns valid and invalid texts for each rule of JSON.
func scanCases() []string {
	return []string{
		"", " ", "null", "nul", "nulls", "true", "tru", "false", "False", " null ", "\t\r\n1\n", "\v1", "\u00a01",
		"0", "-0", "00", "01", "-", "--1", "+1", "1.", ".5", "1.5", "1e", "1e5", "1E+5", "1e-", "1.5e-7", "1e5.5", "0x1", "1_0", "NaN",
		`""`, `"`, `"a`, `"\"`, `"\\"`, `"\/\b\f\n\r\t"`, `"\a"`, `"\u"`, `"\u12"`, `"\u12g4"`, `"\u12F4"`, `"\ud800"`, `"\ud83d\ude00"`,
		"\"\n\"", "\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"\xff\"", "\"\u2028\"", `'a'`,
		"[]", "[ ]", "[1]", "[1,]", "[,1]", "[1 2]", "[1,2]", "[", "]", "[1", "[1,", "[[]]", "[[]", "[]]",
		"{}", "{ }", `{"a":1}`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{"a" : 1 , "b" : 2}`, `{a:1}`, `{1:1}`, `{"a":1 "b":2}`, `{"a"::1}`,
		"{", "}", `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1}}`, `{"a":{"b":[{"c":null}]}}`, `{"a":1,"a":2}`, `{"a\u0062":"\u00e4"}`,
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

// TestReaderLimits checks the nesting depth and the number of elements that a reader accepts.
func TestReaderLimits(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`[[1],{"a":2}]`, ""},
		{`[[[1]]]`, "nested too deep at byte 2"},
		{`[[1],{"a":{}}]`, "nested too deep at byte 10"},
		{`[1,2,3,4]`, "more than 3 elements at byte 7"},
	} {
		got := ""
		r := jsontext.NewReader([]byte(tc.text), 2, 3)
		for r.Open('['); r.Element(); {
			r.Value()
		}
		err := r.End()
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.text, got, tc.want)
		}
		var syntax *jsontext.SyntaxError
		if want := strings.HasPrefix(tc.want, "more"); errors.As(err, &syntax) && syntax.TooMany != want {
			t.Errorf("%s: too many elements: %t", tc.text, syntax.TooMany)
		}
	}
}

// TestScanStaysInside checks that the scanner rejects a text that is cut at any position.
func TestScanStaysInside(t *testing.T) {
	whole := []byte(`{"a":[1.5e3,true,"\u00e4",null,{"b":-7}],"c":"d"}`)
	for i := range whole {
		if jsontext.Valid(whole[:i]) {
			t.Errorf("%s is valid", whole[:i])
		}
	}
}

func TestStrings(t *testing.T) {
	for _, s := range scanCases() {
		var want string
		if json.Unmarshal([]byte(s), &want) == nil && strings.HasPrefix(s, `"`) {
			checkString(t, []byte(s), want)
		}
	}
	if _, ok := jsontext.Text([]byte("7")); ok {
		t.Error("a number is a string")
	}
}

// checkString checks that Unquote and AppendString agree with encoding/json on one string.
func checkString(t *testing.T, raw []byte, want string) {
	t.Helper()
	got, ok := jsontext.Text(bytes.TrimSpace(raw))
	if !ok || got != want {
		t.Fatalf("%s is read as %q, want %q", raw, got, want)
	}
	var back string
	written := jsontext.AppendString(nil, want)
	if err := json.Unmarshal(written, &back); err != nil || back != want {
		t.Fatalf("%q is written as %s", want, written)
	}
}

func TestAppendString(t *testing.T) {
	for _, tc := range []struct{ name, reason, value, want string }{
		{"plain", "as it is", "a<b>&ü\u2028", "\"a<b>&ü\u2028\""},
		{"escapes", "the short ones where there are", "\"\\\b\t\n\f\r\x00\x1f\x7f", `"\"\\\b\t\n\f\r\u0000\u001f` + "\x7f\""},
		{"not UTF-8", "replaced byte by byte, as in encoding/json", "a\xff\xfeb\xe2\x82", "\"a\uFFFD\uFFFDb\uFFFD\uFFFD\""},
		{"replacement", "kept", "\uFFFD", "\"\uFFFD\""},
	} {
		if got := string(jsontext.AppendString(nil, tc.value)); got != tc.want {
			t.Errorf("%s: %s: got %s, want %s", tc.name, tc.reason, got, tc.want)
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
		out, err := canonical(data)
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
		again, err := canonical(out)
		if err != nil || string(again) != string(out) {
			t.Fatalf("the canonical form of %s is %s, %v", out, again, err)
		}
	})
}
