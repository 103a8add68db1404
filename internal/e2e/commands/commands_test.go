// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"
)

// row describes how a command is run. Exactly one of try, session and not is set.
type row struct {
	try     func(t *testing.T, command string)
	lane    lane   // lane of try
	session string // in sessions
	not     string // the reason why it is not run
}

// lane names commands that run one after the other, because they share results.
type lane string

const (
	programs lane = ""
	makefile lane = "make"
	measured lane = "benchmarks"
)

// TestTable requires a row for each command of a document, and a document for each row.
func TestTable(t *testing.T) {
	places := map[string][]string{}
	for _, c := range documents(t) {
		if !slices.Contains(places[c.text], c.at) {
			places[c.text] = append(places[c.text], c.at)
		}
	}
	if len(places) < 100 {
		t.Errorf("found %d commands: the parser has lost the documents", len(places))
	}
	for _, command := range slices.Sorted(maps.Keys(places)) {
		r, ok := commands[command]
		switch {
		case !ok:
			t.Errorf("%v: how shall this be run? Say so in table_test.go: %q", places[command], command)
		case r.session != "" && sessions[r.session] == nil:
			t.Errorf("%q: there is no session %q", command, r.session)
		case r.not != "":
			t.Logf("not run: %s: %s", command, r.not)
		}
	}
	for command := range commands {
		if places[command] == nil {
			t.Errorf("table_test.go has %q, and no document does", command)
		}
	}
}

// TestCommands runs each command that works alone. Lanes run in parallel: one compiles while
// another links.
func TestCommands(t *testing.T) {
	t.Parallel()
	for _, name := range []lane{programs, makefile, measured} {
		t.Run(cmp.Or(string(name), "programs"), func(t *testing.T) {
			t.Parallel()
			for _, command := range slices.Sorted(maps.Keys(commands)) {
				if r := commands[command]; r.try != nil && r.lane == name {
					t.Run(command, func(t *testing.T) { r.try(t, command) })
				}
			}
		})
	}
}

// TestSessions runs the commands that are steps on the same servers, each session from its first
// command to its last.
func TestSessions(t *testing.T) {
	t.Parallel() // with TestCommands, which waits at other times
	cluster := startCluster(t)
	for _, name := range slices.Sorted(maps.Keys(sessions)) {
		t.Run(name, func(t *testing.T) {
			x := newTerminal(t, cluster)
			sessions[name](x)
			for command, r := range commands {
				if r.session == name && !x.typed[command] {
					t.Errorf("%q is of this session, which does not type it", command)
				}
			}
		})
	}
}

// TestParser checks that the parser finds commands in their different places.
func TestParser(t *testing.T) {
	text := "Run `go run ./examples/x\n--flag` or `make test`, not `go get` or `Options`.\n\n" +
		"```sh\nBENCH=1 go test \\\n  ./...   # slow\n# a remark\n```\n\n```go\ngo run(ctx)\n```\n\n```\nmake   # all " +
		"verbs\n[output]\n```\n"
	var got []string
	for _, c := range markdown(text, "x.md") {
		got = append(got, c.text)
	}
	want := []string{"BENCH=1 go test ./...", "make", "go run ./examples/x --flag", "make test"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, not %q", got, want)
	}
	got = nil
	for _, c := range goDoc(
		"Package x does:\n\n\tgo run ./x --a \\\n\t  --b   and says so\n\tgit init --bare x.git\n\tx := go run\n\nSee "+
			"`make test`.\n", "x.go") {
		got = append(got, c.text)
	}
	if want := []string{"go run ./x --a --b", "git init --bare x.git", "make test"}; !slices.Equal(got, want) {
		t.Errorf("found %q, not %q", got, want)
	}
}
