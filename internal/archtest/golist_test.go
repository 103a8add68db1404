// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const modulePath = "github.com/spokewire/sdk-go"

// root is the root of the tree. go test runs in the folder of the package.
var root = filepath.Join("..", "..")

// listed is a package in the output of `go list -json`.
type listed struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// name returns the path inside the module, "." for the root package, or the full path of a package
// of another module.
func name(importPath string) string {
	if importPath == modulePath {
		return "."
	}
	return strings.TrimPrefix(importPath, modulePath+"/")
}

// own reports whether a package belongs to this module.
func own(importPath string) bool {
	return importPath == modulePath || strings.HasPrefix(importPath, modulePath+"/")
}

// matches reports whether a pattern of the tables matches the package called name.
func matches(pattern, name string) bool {
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == below || strings.HasPrefix(name, below+"/")
	}
	return pattern == anything || pattern == name
}

// goList runs `go list` in the root of the module. It reads only import clauses, so the code need
// not compile. The platform is fixed, because the numbers in the tables differ slightly between
// platforms.
func goList(t *testing.T, args ...string) []listed {
	t.Helper()
	fields := "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Standard,Imports,TestImports,XTestImports"
	cmd := exec.Command("go", append([]string{"list", fields}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list %v: %v\n%s", args, err, exit.Stderr)
		}
		t.Fatalf("go list %v: %v", args, err)
	}
	var packages []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("go list %v: %v", args, err)
		}
		packages = append(packages, p)
	}
}
