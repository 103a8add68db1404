// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package consumer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// controllerPath is the module in testdata/controller.
const controllerPath = "example.com/restarter"

// TestConsumer adds the SDK to the controller of testdata.
func TestConsumer(t *testing.T) {
	packages := publicPackages(t)
	sdk := publish(t)
	lease(t, sdk)
	online := environment(sdk.url, goEnv(t, "GOPROXY"))
	for _, variant := range []string{"controller", "newer", "older"} {
		fill(t, variant, online, sdk, packages)
	}
	// From here on no request reaches the network, not even for paths that cannot be modules, such
	// as the folders above a package.
	offline := append(environment(sdk.url,
		"file://"+filepath.ToSlash(filepath.Join(goEnv(t, "GOMODCACHE"), "cache", "download"))), "GOSUMDB=off")

	t.Run("Documents", func(t *testing.T) { documented(t, offline) })
	t.Run("OnePackage", func(t *testing.T) { onePackage(t, offline, sdk, packages) })
	for _, variant := range []string{"controller", "newer", "older"} {
		t.Run("AllPackages/"+variant, func(t *testing.T) { allPackages(t, variant, offline, sdk, packages) })
	}
}

// publicPackages returns the packages that a user can import and that have code, by their paths in
// the SDK.
func publicPackages(t *testing.T) []string {
	t.Helper()
	c := consumer{dir: root, env: environment("off")}
	var packages []string
	for path := range strings.FieldsSeq(c.run(t, "go", "list", "./...")) {
		pkg := strings.TrimPrefix(strings.TrimPrefix(path, sdkPath), "/")
		if pkg != "" && !strings.HasPrefix(pkg, "examples/") && !strings.Contains("/"+pkg+"/", "/internal/") {
			packages = append(packages, pkg)
		}
	}
	return packages
}

// fill downloads all modules that the packages need into the module cache, with the checks of the
// checksum database. These are the modules that the uses are built from, and the modules that go
// get raises and needs the checksum of.
func fill(t *testing.T, variant string, env []string, sdk proxy, packages []string) {
	t.Helper()
	c := newConsumer(t, variant, env, packages...)
	before := c.requirements(t)
	c.get(t, sdk, packages...)
	c.run(t, "go", "list", "-mod=mod", "-deps", "-test", "./...")
	if after := c.requirements(t); len(changes(before, after)) == 0 {
		t.Errorf("%s: nothing changed in go.mod", variant)
	}
}

// onePackage adds each package alone with go get to a fresh copy of the controller.
func onePackage(t *testing.T, env []string, sdk proxy, packages []string) {
	budgets := readBudgets(t)
	linkers := make(chan struct{}, runtime.GOMAXPROCS(0))
	measured := make([]cost, len(packages))
	t.Run("parallel", func(t *testing.T) {
		for i, pkg := range packages {
			t.Run(pkg, func(t *testing.T) {
				t.Parallel()
				linkers <- struct{}{}
				defer func() { <-linkers }()
				measured[i] = use(t, env, sdk, pkg)
				if !*update {
					measured[i].compare(t, budgets[pkg], budgets[everyPackage].changes)
				}
			})
		}
	})
	for pkg := range budgets {
		if pkg != everyPackage && !slices.Contains(packages, pkg) && !*update {
			t.Errorf("%s has a budget, and is no public package", pkg)
		}
	}
	if *update && !t.Failed() {
		write(t, filepath.Join("testdata", budgetFile), []byte(budgetText(packages, measured)))
	}
}

// printed matches the expected output in the comment of a use.
var printed = regexp.MustCompile(`(?m)^// Prints: (.*)$`)

// use adds one package, and builds and runs its program or test.
func use(t *testing.T, env []string, sdk proxy, pkg string) cost {
	t.Helper()
	c := newConsumer(t, "controller", env, pkg)
	before, sums := c.requirements(t), c.sums(t)
	c.get(t, sdk, pkg)
	after := c.requirements(t)
	if after[sdkPath] != sdk.version {
		t.Errorf("go.mod has the SDK at %q", after[sdkPath])
	}
	sumsAfter := c.sums(t)
	for line := range sums {
		if !sumsAfter[line] {
			t.Errorf("go.sum has lost %q", line)
		}
	}
	got := cost{changes: changes(before, after)}
	folder := "./uses/" + pkg
	// The result of go get must be enough: by default the go command changes nothing.
	if testKit(pkg) {
		c.run(t, "go", "test", "-count=1", folder)
		got.packages = c.foreign(t, "-test", folder)
		return got
	}
	_, want := source(t, pkg)
	binary := filepath.Join(c.dir, "use")
	c.run(t, "go", "build", "-ldflags=-s -w", "-o", binary, folder)
	if out := strings.TrimSpace(c.run(t, binary)); out != want {
		t.Errorf("printed %q, not %q", out, want)
	}
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	got.packages, got.bytes = c.foreign(t, folder), info.Size()
	return got
}

// source returns the program that uses a package, and its expected output.
func source(t *testing.T, pkg string) (text, prints string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "uses", pkg, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	want := printed.FindSubmatch(content)
	if want == nil {
		t.Fatalf("the use of %s does not say what it prints", pkg)
	}
	return string(content), string(want[1])
}

// foreign counts the packages in a build that belong neither to the SDK nor to the standard library
// nor to the controller.
func (c consumer) foreign(t *testing.T, args ...string) int {
	t.Helper()
	count := 0
	for path := range strings.FieldsSeq(
		c.run(t, "go", append([]string{"list", "-deps", "-f", "{{if not .Standard}}{{with .Module}}{{.Path}}{{end}}{{end}}"},
			args...)...)) {
		if path != sdkPath && path != controllerPath {
			count++
		}
	}
	return count
}

// allPackages adds all packages, and checks that the controller still works.
func allPackages(t *testing.T, variant string, env []string, sdk proxy, packages []string) {
	c := newConsumer(t, variant, env, packages...)
	before := c.requirements(t)
	c.get(t, sdk, packages...)
	after := c.requirements(t)
	for _, change := range changes(before, after) {
		path, raised := strings.CutPrefix(change, "raise ")
		switch {
		case raised && variant == "newer":
			t.Errorf("%s is raised from %s to %s: a controller with newer ones keeps what it has", path, before[path],
				after[path])
		case strings.HasPrefix(change, "drop "):
			t.Error(change)
		}
	}
	c.run(t, "go", "list", "-export", "-test", "./...") // compiles all packages, and links no program
	tests := []string{"test", "-count=1", "."}
	if variant == "newer" {
		for _, pkg := range packages {
			if testKit(pkg) {
				tests = append(tests, "./uses/"+pkg)
			}
		}
	}
	c.run(t, "go", tests...)
	c.runAll(t, packages)
	t.Log(strings.Join(changes(before, after), ", "))
}

// runAll runs the uses of all packages except test kits. They are part of one program, which is
// linked once.
func (c consumer) runAll(t *testing.T, packages []string) {
	t.Helper()
	var imports, cases strings.Builder
	want := map[string]string{}
	for i, pkg := range packages {
		if testKit(pkg) {
			continue
		}
		text, prints := source(t, pkg)
		want[pkg] = prints
		text = strings.Replace(text, "\npackage main\n", "\npackage use\n", 1)
		text = strings.Replace(text, "\nfunc main() {", "\nfunc Main() {", 1)
		write(t, filepath.Join(c.dir, "all", pkg, "use.go"), []byte(text))
		fmt.Fprintf(&imports, "\tuse%d %q\n", i, controllerPath+"/all/"+pkg)
		fmt.Fprintf(&cases, "\tcase %q:\n\t\tuse%d.Main()\n", pkg, i)
	}
	program := "package main\n\nimport (\n\t\"os\"\n\n" + imports.String() +
		")\n\nfunc main() {\n\tswitch os.Args[1] {\n" + cases.String() + "\t}\n}\n"
	write(t, filepath.Join(c.dir, "all", "main.go"), []byte(program))
	binary := filepath.Join(c.dir, "all.bin")
	c.run(t, "go", "build", "-ldflags=-s -w", "-o", binary, "./all")
	for pkg, prints := range want {
		if out := strings.TrimSpace(c.run(t, binary, pkg)); out != prints {
			t.Errorf("%s printed %q, not %q", pkg, out, prints)
		}
	}
}

// documented runs the first commands of the README and of the SDK's package doc. The proxy has only
// our version, so it is the newest.
func documented(t *testing.T, env []string) {
	c := newConsumer(t, "controller", env)
	before := c.requirements(t)
	c.run(t, "go", strings.Fields(
		"get github.com/spokewire/sdk-go/cloudevents/work github.com/spokewire/sdk-go/cloudevents/mqtt")...)
	if added := changes(before, c.requirements(t)); !slices.Contains(added, "add github.com/eclipse/paho.golang") {
		t.Errorf("go get has done %v", added)
	}
	if out := c.run(t, "go",
		strings.Fields("run github.com/spokewire/sdk-go/examples/quickstart@latest")...); !strings.Contains(out, "deleted") {
		t.Errorf("the quickstart has printed\n%s", out)
	}
}
