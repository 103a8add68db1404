// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/codec"
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
		strings.Repeat("[", codec.MaxDepth) + strings.Repeat("]", codec.MaxDepth),
		strings.Repeat(`{"a":`, codec.MaxDepth) + "1" + strings.Repeat("}", codec.MaxDepth),
	}
}

func TestScan(t *testing.T) {
	for _, s := range scanCases() {
		if got, want := codec.Valid([]byte(s)), json.Valid([]byte(s)); got != want {
			t.Errorf("%.40q is valid: %t, want %t", s, got, want)
		}
	}
}

// TestScanDepth checks that the scanner rejects nesting that encoding/json still accepts.
func TestScanDepth(t *testing.T) {
	const depth = codec.MaxDepth + 1
	for _, s := range []string{
		strings.Repeat("[", depth) + strings.Repeat("]", depth),
		strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth),
	} {
		if codec.Valid([]byte(s)) {
			t.Errorf("%.40q with %d levels is valid", s, depth)
		}
	}
}

// TestScanStaysInside checks that the scanner rejects a text that is cut at any position.
func TestScanStaysInside(t *testing.T) {
	whole := []byte(`{"a":[1.5e3,true,"\u00e4",null,{"b":-7}],"c":"d"}`)
	for i := range whole {
		if codec.Valid(whole[:i]) {
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
	if _, ok := codec.Unquote([]byte("7")); ok {
		t.Error("a number is a string")
	}
}

// checkString checks that Unquote and AppendString agree with encoding/json on one string.
func checkString(t *testing.T, raw []byte, want string) {
	t.Helper()
	got, ok := codec.Unquote(bytes.TrimSpace(raw))
	if !ok || got != want {
		t.Fatalf("%s is read as %q, want %q", raw, got, want)
	}
	var back string
	written := codec.AppendString(nil, want)
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
		if got := string(codec.AppendString(nil, tc.value)); got != tc.want {
			t.Errorf("%s: %s: got %s, want %s", tc.name, tc.reason, got, tc.want)
		}
	}
}
