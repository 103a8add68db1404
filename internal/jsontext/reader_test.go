// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

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
