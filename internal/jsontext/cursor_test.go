// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"testing"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

func TestMember(t *testing.T) {
	data := []byte(` { "a" : 1 , "b\u0041" : "x\ny", "a" : [ {} ] } `)
	if got := string(jsontext.Member(data, "a")); got != "[ {} ]" {
		t.Errorf("the last value counts, got %s", got)
	}
	if got, _ := jsontext.Text(jsontext.Member(data, "bA")); got != "x\ny" {
		t.Errorf("names and strings are decoded, got %q", got)
	}
	if got := jsontext.Member([]byte(`[1]`), "a"); got != nil {
		t.Errorf("an array has no members, got %s", got)
	}
}
