// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shortGo replaces the go command for make: it shortens some arguments, so a verb runs briefly on
// one package. Otherwise it follows the recipe. It writes its commands to a file.
const shortGo = `#!/usr/bin/env bash
set -eu
args=()
for arg; do
  case $arg in
  ./...) arg=$PACKAGE ;;
  -coverpkg=./...) arg=-coverpkg=$PACKAGE ;;
  '^TestRemovedRules$') arg="$arg/^($RULE)$" ;;
  '^TestAppliedWorkRemovedRules$') arg="$arg/^($CAMPAIGN_RULE)$" ;;
  esac
  args+=("$arg")
done
if [[ ${1:-} == mod ]]; then args+=(-diff); fi
echo "${args[*]}" >>"$TYPED"
exec go "${args[@]}"
`

// removed is the rule that the short make fuzz removes. No campaign on an API server runs for it,
// because that takes minutes.
const removed = "an_idempotency_key_queues_once"

// ran is the output of a verb and its go commands, for commands that differ only in numbers.
type ran struct {
	out, called string
	status      int
}

var verbs = map[string]ran{}

// fuzz runs a little of each step of make fuzz.
var fuzz = verb("./rsync/appcontext", []string{"FUZZTIME=1x", "SEEDS=2", "RUNS=1", "CHECKS=2"},
	"== github.com/spokewire/sdk-go/rsync/appcontext Fuzz", "--- PASS: TestSimulation",
	"github.com/spokewire/sdk-go/cloudevents/work", "ok  \tgithub.com/spokewire/sdk-go/dynamicwatcher",
	"--- PASS: TestRemovedRules/an_idempotency_key_queues_once", "--- PASS: TestRolloutModel",
	"--- PASS: TestAppliedWork/Campaign", "--- PASS: TestAppliedWorkRemovedRules")

// verb runs a verb of the Makefile on one package, with smaller numbers in place of the command's.
// It must print all texts, and call go with the texts that begin with "go ".
func verb(pkg string, numbers []string, want ...string) row {
	return row{lane: makefile, try: func(t *testing.T, command string) {
		args := words(command)
		for i, arg := range args {
			name, _, _ := strings.Cut(arg, "=")
			if at := slices.IndexFunc(numbers, func(n string) bool { return strings.HasPrefix(n, name+"=") }); at >= 0 {
				args[i] = numbers[at]
			}
		}
		for _, number := range numbers {
			if !slices.Contains(args, number) {
				args = append(args, number)
			}
		}
		slices.Sort(args[2:])
		key := strings.Join(args, " ")
		if _, ok := verbs[key]; !ok {
			verbs[key] = runVerb(t, pkg, args)
		}
		if verbs[key].status != 0 {
			t.Fatalf("%s: exit status %d\n%s", key, verbs[key].status, verbs[key].out)
		}
		for _, text := range want {
			if call, ok := strings.CutPrefix(text, "go "); ok {
				wantOutput(t, verbs[key].called, call)
			} else {
				wantOutput(t, verbs[key].out, text)
			}
		}
	}}
}

func runVerb(t *testing.T, pkg string, args []string) ran {
	t.Helper()
	dir := t.TempDir()
	gocmd, typed := filepath.Join(dir, "go"), filepath.Join(dir, "typed")
	if err := os.WriteFile(gocmd, []byte(shortGo), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	out, status := attemptWith(t, []string{"TYPED=" + typed, "PACKAGE=" + pkg, "RULE=" + removed, "CAMPAIGN_RULE=none"},
		append(args, "GO="+gocmd)...)
	called, err := os.ReadFile(typed)
	if err != nil {
		t.Fatal(err)
	}
	return ran{out, string(called), status}
}

// cover runs make cover, and removes the files that it leaves in the tree.
var cover = row{lane: makefile, try: func(t *testing.T, command string) {
	verb("./rsync/store/memstore", nil, "total:").try(t, command)
	for _, name := range []string{"coverage.out", "coverage.html"} {
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
}}

// shortVuln runs govulncheck on one package.
const shortVuln = `#!/usr/bin/env bash
exec "$("$TREE/internal/tools/build.sh" --dir)/govulncheck" "${@/#.\/..././rsync/store}"
`

// vuln runs with a database without a finding, with a database with a finding, and with a missing
// database.
var vuln = row{try: func(t *testing.T, command string) {
	tree, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	tools := t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "govulncheck"), []byte(shortVuln), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	empty, finding := t.TempDir(), t.TempDir()
	vulnDatabase(t, empty, "[]", "[]")
	const id = `{"id": "GO-0000-0001", "modified": "2026-01-01T00:00:00Z"`
	vulnDatabase(t, finding, `[{"path": "stdlib", "vulns": [`+id+`}]}]`, `[`+id+`}]`)
	packed(t, filepath.Join(finding, "ID", "GO-0000-0001.json"), id+`, "schema_version": "1.3.1", "summary": "A finding of a test",
		"database_specific": {"url": "https://pkg.go.dev/vuln/GO-0000-0001"},
		"affected": [{"package": {"name": "stdlib", "ecosystem": "Go"}, "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
			"ecosystem_specific": {"imports": [{"path": "fmt", "symbols": ["Sprintf"]}]}}]}`)
	for _, tt := range []struct {
		database, want string
		fails          bool
	}{
		{empty, "No vulnerabilities found.", false},
		{finding, "store.SizeError.Error calls fmt.Sprintf", true},
		{empty + "/none", "cannot be read, so nothing was checked", true},
	} {
		args := append(words(command), "TOOL="+tools, "VULNDB=file://"+tt.database)
		out, status := attemptWith(t, []string{"TREE=" + tree}, args...)
		wantOutput(t, out, tt.want)
		if status != 0 != tt.fails {
			t.Errorf("exit status %d\n%s", status, out)
		}
	}
}}

// vulnDatabase writes the index of a vulnerability database.
func vulnDatabase(t *testing.T, folder, modules, vulns string) {
	t.Helper()
	for name, text := range map[string]string{"db": `{"modified": "2026-01-01T00:00:00Z"}`, "modules": modules,
		"vulns": vulns} {
		packed(t, filepath.Join(folder, "index", name+".json"), text)
	}
}

// packed writes a file and its gzip copy.
func packed(t *testing.T, path, text string) {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{path: []byte(text), path + ".gz": b.Bytes()} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// tidyModule runs go mod tidy where it is documented, and changes nothing.
var tidyModule = row{try: func(t *testing.T, command string) {
	args := words(command)
	execute(t, append([]string{args[0], "-C", "internal/kube"}, append(args[1:], "-diff")...)...)
}}
