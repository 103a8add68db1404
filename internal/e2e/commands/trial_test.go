// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const limit = 3 * time.Minute // for one command, on a machine that is busy

// words splits a command as a shell would that has quotes and nothing else.
func words(command string) []string {
	var all []string
	word, quote, in := strings.Builder{}, rune(0), false
	for _, r := range command + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, in = r, true
		case quote == 0 && r == ' ':
			if in {
				all = append(all, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteRune(r)
			in = true
		}
	}
	return all
}

// program is a built example; go run would build each again.
type program struct {
	once sync.Once
	path string
	err  error
}

var (
	programs   = map[string]*program{}
	programsMu sync.Mutex
	bin        string // set by TestMain
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "docs")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		bin = dir
		return m.Run()
	}())
}

// build returns the program of a package such as ./examples/quickstart.
func build(t *testing.T, pkg string) string {
	t.Helper()
	programsMu.Lock()
	p := programs[pkg]
	if p == nil {
		p = &program{}
		programs[pkg] = p
	}
	programsMu.Unlock()
	p.once.Do(func() {
		p.path = filepath.Join(bin, strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-"))
		cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", p.path, pkg)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			p.path = string(out)
			p.err = err
		}
	})
	if p.err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, p.err, p.path)
	}
	return p.path
}

// execute runs a command and returns what it prints. "go run PKG" runs the built program, in a folder of its own.
func execute(t *testing.T, args ...string) string {
	t.Helper()
	dir := root
	if len(args) > 2 && args[0] == "go" && args[1] == "run" {
		args = append([]string{build(t, args[2])}, args[3:]...)
		dir = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "KUBECONFIG="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func wantOutput(t *testing.T, out, want string) {
	t.Helper()
	if !strings.Contains(out, want) {
		t.Errorf("does not print %q, but:\n%s", want, out)
	}
}

// asItIs runs a command.
func asItIs(want string) trial {
	return func(t *testing.T, command string) { wantOutput(t, execute(t, words(command)...), want) }
}

// shorter runs the program of a command with other arguments, which have each flag of the command. TREE is the top of the tree.
func shorter(args, want string) trial {
	return func(t *testing.T, command string) {
		tree, err := filepath.Abs(root)
		if err != nil {
			t.Fatal(err)
		}
		all := words(command)
		short := words(strings.ReplaceAll(args, "TREE", tree))
		for _, flag := range all {
			if strings.HasPrefix(flag, "-") && !slices.Contains(short, flag) {
				t.Errorf("%s is in the document, and not tried", flag)
			}
		}
		wantOutput(t, execute(t, append(all[:3:3], short...)...), want)
	}
}

// once runs benchmarks for one round each.
func once(t *testing.T, command string) {
	out := execute(t, append(words(command), "-benchtime=1x")...)
	wantOutput(t, out, "ns/op")
	wantOutput(t, out, "PASS")
}
