// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package yamldoc_test

import (
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/yamldoc"
)

func TestPathAt(t *testing.T) {
	const raw = `{"spec":{"parts":[{"name":"a"},{"name":7}],"labels":{"a/b":[1,2]}}}`
	for until, want := range map[string]string{
		`{`: "", `{"spec":{`: "spec", `"a"`: "spec.parts[0].name", `7`: "spec.parts[1].name", `[1,2`: "spec.labels[a/b][1]",
	} {
		if got := yamldoc.PathAt([]byte(raw), int64(strings.Index(raw, until)+len(until))); got != want {
			t.Errorf("at %s: %q, want %q", until, got, want)
		}
	}
}

func TestDuplicate(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb: 2\n":                               "",
		"a: 1\nb: 2\na: 3\n":                         "a",
		"a: [{b: 1}, {b: 2, x/y: 1, x/y: 2}]":        "a[1][x/y]",
		"a: &n {b: 1, b: 2}\nc: *n\n":                "a.b",
		"a: 1\na: 2 #" + strings.Repeat("x", 64<<10): "",
	} {
		d := yamldoc.Document{Text: []byte(text)}
		if got := d.Duplicate(); got != want {
			t.Errorf("%.40s: %q, want %q", text, got, want)
		}
	}
}
