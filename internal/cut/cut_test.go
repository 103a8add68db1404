// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cut_test

import (
	"testing"

	"github.com/spokewire/sdk-go/internal/cut"
)

func TestText(t *testing.T) {
	for _, tt := range []struct {
		text         string
		most         int
		want, within string
	}{
		{"", 0, "", ""},
		{"abcdef", 6, "abcdef", "abcdef"},
		{"abcdef", 5, "abcde…", "ab…"},
		{"abcdé", 5, "abcd…", "ab…"},
		{"aéééé", 6, "aéé…", "aé…"},
	} {
		if got := cut.Text(tt.text, tt.most); got != tt.want {
			t.Errorf("Text(%q, %d) = %q, want %q", tt.text, tt.most, got, tt.want)
		}
		if got := cut.Within(tt.text, tt.most); got != tt.within {
			t.Errorf("Within(%q, %d) = %q, want %q", tt.text, tt.most, got, tt.within)
		}
	}
}
