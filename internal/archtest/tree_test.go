// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	copyrightLine = "// SPDX-FileCopyrightText: The Spokewire Authors"
	licenseLine   = "// SPDX-License-Identifier: Apache-2.0"
)

// ignored are the extensions of files that .gitignore excludes, or that may be large.
var ignored = []string{".test", ".prof", ".html", ".out"}

// walk calls visit for each file and folder of the tree, with its slash path from the root. It
// skips folders that start with a dot, because they belong to tools.
func walk(t *testing.T, visit func(path string, entry fs.DirEntry)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == "." {
			return nil
		}
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		visit(path, entry)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFolders(t *testing.T) {
	walk(t, func(path string, entry fs.DirEntry) {
		if !entry.IsDir() {
			return
		}
		if !strings.Contains(path, "/") && !slices.Contains(folders, path) {
			t.Errorf("%s is a top-level folder that rules_test.go does not list", path)
		}
		const replacement = "internal/maestro/ocmcommon/" // has the names of the module that it replaces
		if slices.Contains(forbiddenFolders, entry.Name()) && !strings.HasPrefix(path, replacement) {
			t.Errorf("%s: types and helpers sit with their owner, not in a folder %s", path, entry.Name())
		}
	})
}

// TestLargeFiles finds the output of a go build in the root before it is committed.
func TestLargeFiles(t *testing.T) {
	const largest = 256 << 10
	walk(t, func(path string, entry fs.DirEntry) {
		if entry.IsDir() || slices.Contains(ignored, filepath.Ext(path)) {
			return
		}
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > largest {
			t.Errorf("%s has %d bytes: is it a program?", path, info.Size())
		}
	})
}

func TestNestedModules(t *testing.T) {
	walk(t, func(path string, entry fs.DirEntry) {
		if entry.Name() != "go.mod" || path == "go.mod" {
			return
		}
		if folder := strings.TrimSuffix(path, "/go.mod"); !slices.Contains(nestedModules, folder) {
			t.Errorf("%s is a module that rules_test.go does not list", folder)
		}
	})
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(gomod), modulePath+"/") {
		t.Error("go.mod requires a nested module: they are never released, so users could not resolve it")
	}
	// A replace applies only in the main module, so users would build other code.
	if strings.Contains(string(gomod), "\nreplace ") {
		t.Error("go.mod has a replace line, which users of the module do not get")
	}
}

// TestVersions checks that nested modules use the same versions of dependencies as the SDK. One
// module of another version makes all its importers compile again: a thousand packages for a
// logging module.
func TestVersions(t *testing.T) {
	ours := versions(t, ".")
	for _, module := range []string{"internal/e2e", "internal/peers", "internal/tools"} {
		shared := 0
		for path, version := range versions(t, module) {
			want, ok := ours[path]
			if !ok {
				continue
			}
			shared++
			if version != want {
				t.Errorf("%s/go.mod has %s %s, the SDK %s: raise the SDK's, or replace it there", module, path, version, want)
			}
		}
		if shared < 30 {
			t.Errorf("%s/go.mod: found %d modules that both have", module, shared)
		}
	}
}

// required and replaced match lines of a go.mod.
var (
	required = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`)
	replaced = regexp.MustCompile(`(?m)^(?:replace |\t)(\S+) => \S+ (v\S+)`)
)

// versions returns the versions of the modules that a module is built with.
func versions(t *testing.T, folder string) map[string]string {
	t.Helper()
	gomod, err := os.ReadFile(filepath.Join(root, folder, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, lines := range []*regexp.Regexp{required, replaced} {
		for _, match := range lines.FindAllStringSubmatch(string(gomod), -1) {
			all[match[1]] = match[2]
		}
	}
	return all
}

func TestLicenseHeaders(t *testing.T) {
	walk(t, func(path string, entry fs.DirEntry) {
		if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.Contains("/"+path, "/testdata/") {
			return
		}
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Error(err)
			return
		}
		// Generated code has the header after its first line.
		head := strings.SplitN(string(content), "\n", 10)
		i := slices.Index(head, copyrightLine)
		if i < 0 || i+1 >= len(head) || head[i+1] != licenseLine {
			t.Errorf("%s does not start with\n%s\n%s", path, copyrightLine, licenseLine)
		}
	})
}

// domain matches the names of the project before a slash: API groups, and prefixes of labels and
// annotations. A group without a slash, as in RBAC, has no version that could differ.
var domain = regexp.MustCompile(`[a-z.]*\bspokewire\.[a-z.]+/`)

// TestOneDomain checks that API groups, labels and annotations have the domain spokewire.io.
func TestOneDomain(t *testing.T) {
	found := map[string]string{}
	walk(t, func(path string, entry fs.DirEntry) {
		if entry.IsDir() || !slices.Contains([]string{".go", ".yaml", ".md", ".json"}, filepath.Ext(path)) {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range domain.FindAllString(string(text), -1) {
			found[name] = path
		}
	})
	want := []string{
		"hub.spokewire.io/",
		"policy.spokewire.example/", // of a sample program
		"rsync.spokewire.io/",
		"spokewire.github.io/", // agents replace this prefix in existing AppliedWorks
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !slices.Contains(want, name) {
			t.Errorf("%s has %s: use hub.spokewire.io", found[name], name)
		}
	}
}
