// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package input_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

const (
	// hint is the last line after a mistake in the command line, which exits with 2.
	hint = "Run with --help for the usage.\n"
	// patience limits a program, which must stop by itself.
	patience = 2 * time.Minute
)

// message matches a message of a program, or of one of its commands.
var message = regexp.MustCompile(`^[a-z-]+( [a-z]+)*: `)

var update = flag.Bool("update", false, "replace the expected texts by the present ones")

func TestMain(m *testing.M) { os.Exit(e2etest.Main(m)) }

// TestPrograms runs the command lines of testdata/PROGRAM.txt in a copy of testdata/files, and
// compares the standard error of each with the lines below it.
func TestPrograms(t *testing.T) {
	for _, name := range []string{"quickstart", "hub", "agent", "rsync", "work-apiserver"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := filepath.Join("testdata", name+".txt")
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			program := e2etest.Program(t, name, true)
			var present strings.Builder
			for _, paragraph := range strings.SplitAfter(string(text), "\n\n") {
				line, want, _ := strings.Cut(strings.TrimSuffix(paragraph, "\n")+"\n", "\n")
				got := standardError(t, program, strings.Fields(strings.TrimPrefix(line, "$ "+name)))
				if want = strings.TrimRight(want, "\n"); got != want && !*update {
					t.Errorf("%s\ngot:\n%s\nwant:\n%s", line, got, want)
				}
				present.WriteString("\n" + line + "\n" + got + "\n")
			}
			if *update {
				if err := os.WriteFile(page, []byte(present.String()[1:]), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// standardError runs a program that must fail, and returns its error. The hint must follow a mistake
// in the command line, and only that. Such a mistake must leave no file or folder behind.
func standardError(t *testing.T, program string, args []string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(filepath.Join("testdata", "files"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := entries(t, folder)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stderr bytes.Buffer
	command := exec.CommandContext(ctx, program, args...)
	command.Dir, command.Stderr = folder, &stderr
	command.Env = []string{"HOME=" + folder, "PATH=" + os.Getenv("PATH")}
	err := command.Run()
	var exit *exec.ExitError
	text, hinted := strings.CutSuffix(stderr.String(), hint)
	if !errors.As(err, &exit) || exit.ExitCode() < 1 || exit.ExitCode() > 2 || hinted != (exit.ExitCode() == 2) {
		t.Errorf("%s: %v, standard error:\n%s", strings.Join(args, " "), err, stderr.String())
	}
	if left := entries(t, folder); hinted && len(left) != len(files) {
		t.Errorf("%s: left %v, want %v", strings.Join(args, " "), left, files)
	}
	var own []string
	for line := range strings.Lines(text) {
		if message.MatchString(line) { // other lines are log messages
			own = append(own, strings.TrimSuffix(line, "\n"))
		}
	}
	return strings.Join(own, "\n")
}

func entries(t *testing.T, folder string) []os.DirEntry {
	t.Helper()
	all, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
