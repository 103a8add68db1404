// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

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
