// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"maps"
	"slices"
	"testing"
)

// trial tries a command, which is one of a document.
type trial func(t *testing.T, command string)

// TestCommands tries each command of each document once.
func TestCommands(t *testing.T) {
	places := map[string][]string{}
	for _, c := range documents(t) {
		if !slices.Contains(places[c.text], c.at) {
			places[c.text] = append(places[c.text], c.at)
		}
	}
	if len(places) < 20 {
		t.Fatalf("found %d commands: the parser has lost the documents", len(places))
	}
	for command := range commands {
		if places[command] == nil {
			t.Errorf("table_test.go has %q, and no document does", command)
		}
	}
	for _, command := range slices.Sorted(maps.Keys(places)) {
		t.Run(command, func(t *testing.T) {
			try, ok := commands[command]
			if !ok {
				t.Fatalf("%v: how shall this be tried? Say so in table_test.go", places[command])
			}
			try(t, command)
		})
	}
}

// TestParser finds commands where they are.
func TestParser(t *testing.T) {
	text := "Run `go run ./examples/x\n--flag` or `make test`, not `go get` or `Options`.\n\n" +
		"```sh\nBENCH=1 go test \\\n  ./...   # slow\n# a remark\n```\n\n```go\ngo run(ctx)\n```\n\n```\nmake   # all verbs\n[output]\n```\n"
	var got []string
	for _, c := range markdown(text, "x.md") {
		got = append(got, c.text)
	}
	want := []string{"BENCH=1 go test ./...", "make", "go run ./examples/x --flag", "make test"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, not %q", got, want)
	}
	got = nil
	for _, c := range goDoc("Package x does:\n\n\tgo run ./x --a \\\n\t  --b   and says so\n\tx := go run\n\nSee `make test`.\n", "x.go") {
		got = append(got, c.text)
	}
	if want := []string{"go run ./x --a --b", "make test"}; !slices.Equal(got, want) {
		t.Errorf("found %q, not %q", got, want)
	}
}
