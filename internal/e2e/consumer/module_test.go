// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package consumer_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// consumer is a copy of the controller's module, for one test.
type consumer struct {
	dir string
	env []string
}

// newConsumer copies the controller, with the requirements of a variant, and the named uses.
func newConsumer(t *testing.T, variant string, env []string, uses ...string) consumer {
	t.Helper()
	c := consumer{dir: t.TempDir(), env: env}
	if err := os.CopyFS(c.dir, os.DirFS(filepath.Join("testdata", "controller"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		copyFile(t, filepath.Join(c.dir, name), filepath.Join("testdata", variant, name))
	}
	for _, use := range uses {
		name := "main.go"
		if testKit(use) {
			name = "use_test.go"
		}
		copyFile(t, filepath.Join(c.dir, "uses", use, name), filepath.Join("testdata", "uses", use, name))
	}
	return c
}

// testKit reports whether a package is for tests only. Its use is then a test.
func testKit(pkg string) bool {
	return strings.HasSuffix(pkg, "test")
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, content)
}

// environment returns the environment of a user, with the given proxies.
func environment(proxies ...string) []string {
	return append(os.Environ(), "GOWORK=off", "GOPROXY="+strings.Join(proxies, ","), "GONOSUMDB="+sdkPath,
		"GOTOOLCHAIN=local")
}

// run runs a command in the module and returns what it writes to its standard output.
func (c consumer) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, exit.Stderr)
		}
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return string(out)
}

// get adds packages of the SDK to the module.
func (c consumer) get(t *testing.T, sdk proxy, packages ...string) {
	t.Helper()
	args := []string{"get"}
	for _, pkg := range packages {
		args = append(args, sdkPath+"/"+pkg+"@"+sdk.version)
	}
	c.run(t, "go", args...)
}

// requirements returns the versions in the module's go.mod.
func (c consumer) requirements(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(c.dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Replace)+len(file.Exclude) > 0 {
		t.Error("go.mod has replace or exclude lines")
	}
	versions := map[string]string{}
	for _, r := range file.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	return versions
}

// sums returns the lines of the module's go.sum.
func (c consumer) sums(t *testing.T) map[string]bool {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(c.dir, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for line := range bytes.Lines(content) {
		lines[strings.TrimSpace(string(line))] = true
	}
	return lines
}

// changes returns the changes of requirements, sorted: "add PATH", "raise PATH" and "drop PATH".
func changes(before, after map[string]string) []string {
	var all []string
	for _, path := range slices.Sorted(maps.Keys(after)) {
		switch old, ok := before[path]; {
		case path == sdkPath:
		case !ok:
			all = append(all, "add "+path)
		case old != after[path]:
			all = append(all, "raise "+path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[path]; !ok {
			all = append(all, "drop "+path)
		}
	}
	slices.Sort(all)
	return all
}
