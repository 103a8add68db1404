// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package yamldoc_test

import (
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/yamldoc"
)

const placed = `# a file
---
a: {b: [x, {c: text}]}
literal: |
  one

    two
folded: >
  one
  two
quoted: "é = x"
escaped: "\\x41 = x"
several: one
  two
anchor: &t plain
alias: *t
indented: |1
  one
`

// TestPlaces checks that each value and each character of a text has its place in the file, where
// possible.
func TestPlaces(t *testing.T) {
	var d yamldoc.Document
	for part, err := range yamldoc.Split([]byte(placed)) {
		if err != nil {
			t.Fatal(err)
		}
		d = part
	}
	p := d.Places()
	lines := strings.Split(placed, "\n")
	at := func(place yamldoc.Place) string {
		return string([]rune(lines[place.Line-1])[place.Column-1:])
	}
	for _, tt := range []struct{ got, want string }{
		{at(p.Key("a")), "a: {b: [x, {c: text}]}"},
		{at(p.Key("a", "b")), "b: [x, {c: text}]}"},
		{at(p.Value("a", "b")), "[x, {c: text}]}"},
		{at(p.Value("a", "b", "1", "c")), "text}]}"},
		{at(p.Value("a", "b", "7")), "[x, {c: text}]}"},
		{at(p.Value("a", "no", "no")), "{b: [x, {c: text}]}"},
		{at(p.Key("a", "no")), "{b: [x, {c: text}]}"},
		{at(p.Value("a", "b", "0", "no")), "x, {c: text}]}"},
		{at(p.Value()), "a: {b: [x, {c: text}]}"},
		{at(p.Text("literal").At(1, 1)), "one"},
		{at(p.Text("literal").At(3, 3)), "two"},
		{at(p.Text("literal").At(0, 0)), "|"},
		{at(p.Text("folded").At(1, 5)), ">"},
		{at(p.Text("quoted").At(1, 5)), `x"`},
		{at(p.Text("escaped").At(1, 5)), `"\\x41 = x"`},
		{at(p.Text("several").At(1, 5)), "one"},
		{at(p.Text("anchor").At(1, 3)), "ain"},
		{at(p.Text("alias").At(1, 3)), "ain"},
		{at(p.Text("indented").At(1, 2)), "one"},
		{at(p.Text("a").At(1, 1)), "{b: [x, {c: text}]}"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

// TestPlacesOfJSON checks that JSON values in a file have places too.
func TestPlacesOfJSON(t *testing.T) {
	for d, err := range yamldoc.Split([]byte("{\"a\": 1}\n{\n  \"a\": \"x == y\"}")) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Line == 1 {
			continue
		}
		if got := d.Places().Text("a").At(1, 6); got != (yamldoc.Place{Line: 3, Column: 14}) {
			t.Error(got)
		}
	}
}

// TestPlacesOfBadDocuments checks that values of invalid text have the place of the document.
func TestPlacesOfBadDocuments(t *testing.T) {
	for _, text := range []string{"\na: [", "\n" + strings.Repeat("{", 700_000), "\n" +
		strings.Repeat("a", yamldoc.MaxBytes)} {
		for d, err := range yamldoc.Split([]byte(text)) {
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Places().Text("a", "b").At(1, 1); got != (yamldoc.Place{Line: 2}) &&
				got != (yamldoc.Place{Line: 2, Column: 1}) {
				t.Errorf("%.10q: %+v", text, got)
			}
		}
	}
}

// FuzzPlaces checks that places are within the file.
func FuzzPlaces(f *testing.F) {
	f.Add(placed, "literal", 1)
	f.Add("{\"a\": {\"b\": [1]}}", "a.b.0", 1)
	f.Fuzz(func(t *testing.T, text, path string, line int) {
		for d, err := range yamldoc.Split([]byte(text)) {
			if err != nil {
				return
			}
			places, parts := d.Places(), strings.Split(path, ".")
			for _, place := range []yamldoc.Place{places.Key(parts...), places.Value(parts...), places.Text(parts...).Place} {
				if place.Line < 1 || place.Line > 2+strings.Count(text, "\n")+strings.Count(text, "\r") ||
					place.Column < 0 {
					t.Errorf("%q: %+v", text, place)
				}
			}
			if at := places.Text(parts...).At(line, 1); at.Line < 1 {
				t.Errorf("%q: line %d is at %+v", text, line, at)
			}
		}
	})
}
