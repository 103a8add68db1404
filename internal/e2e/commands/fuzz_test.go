// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// greedy is a fuzz test that allocates 8 GiB of address space, and writes the allocated number of
// MiB. It touches no page, so it passes without a limit.
const greedy = `package fuzzed

import (
	"fmt"
	"os"
	"testing"
)

var kept [][]byte

func FuzzGreedy(f *testing.F) {
	f.Add(1)
	f.Fuzz(func(t *testing.T, _ int) {
		for i := range 128 {
			if err := os.WriteFile(os.Getenv("ALLOCATED"), fmt.Append(nil, i*64), 0o600); err != nil {
				t.Fatal(err)
			}
			kept = append(kept, make([]byte, 64<<20))
		}
		kept = nil
	})
}
`

// fuzzScript returns the path of the script that make fuzz calls.
func fuzzScript(t *testing.T) string {
	t.Helper()
	script, err := filepath.Abs(filepath.Join(root, "internal", "tools", "fuzz.sh"))
	if err != nil {
		t.Fatal(err)
	}
	return script
}

// makeVariable returns the default of a variable of the Makefile.
func makeVariable(t *testing.T, name string) string {
	t.Helper()
	for line := range strings.Lines(read(t, "Makefile")) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == name && words[1] == "?=" {
			return words[2]
		}
	}
	t.Fatalf("the Makefile has no variable %s", name)
	return ""
}

// TestFuzzMemory: a fuzz test that allocates without end fails with the address space of
// FUZZMEMORY.
func TestFuzzMemory(t *testing.T) {
	folder, allocated := t.TempDir(), filepath.Join(t.TempDir(), "allocated")
	for file, text := range map[string]string{"go.mod": "module greedy\n\ngo 1.26\n", "greedy_test.go": greedy} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, status := attemptIn(t, folder, []string{"ALLOCATED=" + allocated},
		fuzzScript(t), "go", "1x", makeVariable(t, "FUZZWORKERS"), makeVariable(t, "FUZZMEMORY"), "./...")
	text, err := os.ReadFile(allocated)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	most, err := strconv.Atoi(makeVariable(t, "FUZZMEMORY"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the fuzz test allocated %d MiB of %d", got, most)
	if status == 0 || !strings.Contains(out, "--- FAIL: FuzzGreedy") {
		t.Errorf("the fuzz test does not fail: exit status %d\n%s", status, out)
	}
	if got > most || got < most/4 {
		t.Errorf("it allocated %d MiB, the limit is %d", got, most)
	}
}

// TestFuzzDetectors: a binary that reserves terabytes for a detector starts, without a limit.
func TestFuzzDetectors(t *testing.T) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("the test has no build information")
	}
	detects := slices.ContainsFunc(
		info.Settings,
		func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" },
	)
	out, status := attemptIn(t, ".", nil, fuzzScript(t), "--limited", makeVariable(t, "FUZZMEMORY"), os.Args[0],
		"-test.list", "^TestFuzzDetectors$") // TestMain needs the folder of the package
	if status != 0 {
		t.Fatalf("exit status %d\n%s", status, out)
	}
	wantOutput(t, out, "TestFuzzDetectors")
	if strings.Contains(out, "no memory limit") != detects {
		t.Errorf("with a detector: %v\n%s", detects, out)
	}
}
