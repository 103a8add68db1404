// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// signOff marks commands that TestSignOff runs.
var signOff = typedBy("internal/e2e/commands", "TestSignOff", `"commit", "-s"`)

// repository is a git repository of a fixed user, with fixed dates.
type repository struct {
	t      *testing.T
	folder string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	r := repository{t, t.TempDir()}
	r.git("init", "-q", "-b", "main")
	return r
}

// run runs a program in the repository, and returns its output and exit status.
func (r repository) run(args ...string) (string, int) {
	r.t.Helper()
	const who, date = "A Contributor", "2026-01-01T00:00:00Z"
	return attemptIn(r.t, r.folder, []string{
		"GIT_AUTHOR_NAME=" + who, "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE=" + date,
		"GIT_COMMITTER_NAME=" + who, "GIT_COMMITTER_EMAIL=a@example.com", "GIT_COMMITTER_DATE=" + date,
		"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_COUNT=0",
	}, args...)
}

// must is run for a program that must succeed.
func (r repository) must(args ...string) string {
	r.t.Helper()
	out, status := r.run(args...)
	if status != 0 {
		r.t.Fatalf("%q: exit status %d\n%s", args, status, out)
	}
	return out
}

func (r repository) git(args ...string) {
	r.t.Helper()
	r.must(append([]string{daemon.Require(r.t, "git", "git")}, args...)...)
}

// TestSignOff checks that `make dco` finds commits that are not signed off, and that the commands in
// CONTRIBUTING.md sign them off.
func TestSignOff(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs(filepath.Join(root, "internal", "tools", "dco.sh"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRepository(t)
	r.git("commit", "-q", "--allow-empty", "-m", "begin") // before the range
	r.git("checkout", "-q", "-b", "change")
	r.git("commit", "-s", "-q", "--allow-empty", "-m", "one")
	r.must(script, "main..HEAD")
	r.git("commit", "-q", "--allow-empty", "-m", "two", "-m", "Signed-off-by: Another <b@example.com>")
	out, status := r.run(script, "main..HEAD")
	wantOutput(t, out, `two: no line "Signed-off-by: A Contributor <a@example.com>"`)
	if status == 0 || strings.Contains(out, " one:") {
		t.Errorf("exit status %d\n%s", status, out)
	}
	if _, status := r.run(script, "missing..HEAD"); status == 0 {
		t.Error("a missing commit is no error")
	}
	r.git("rebase", "-q", "--signoff", "main")
	r.must(script, "main..HEAD")
}

// TestRelease builds a release of the agent in two checkouts of the same commit, and requires the same
// bytes. The checksums, the SBOM and the version of the program must be right.
func TestRelease(t *testing.T) {
	t.Parallel()
	var sums [2]string
	for i := range sums {
		r := checkout(t)
		// The flags of CI, because other tests have compiled most packages with them.
		r.must("make", "release", "PROGRAMS=agent", "PLATFORMS=linux/"+runtime.GOARCH, "GOFLAGS="+os.Getenv("GOFLAGS"))
		text, err := os.ReadFile(filepath.Join(r.folder, "dist", "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(text)
		r.folder = filepath.Join(r.folder, "dist")
		r.must("sha256sum", "--check", "SHA256SUMS")
		name := "agent-linux-" + runtime.GOARCH
		wantOutput(t, r.must("./"+name, "--version"), "agent v0.1.0 "+runtime.Version()+" linux/"+runtime.GOARCH+"\n")
		wantOutput(t, r.must("./"+name, "--help"), "--version")
		wantComponents(t, filepath.Join(r.folder, name+".cdx.json"))
	}
	if diff := cmp.Diff(sums[0], sums[1]); diff != "" {
		t.Errorf("two builds differ (-first +second):\n%s", diff)
	}
	if strings.Count(sums[0], "\n") != 2 {
		t.Errorf("want the program and its SBOM, have:\n%s", sums[0])
	}
}

// checkout copies the files of the tree into a new repository with the tag v0.1.0.
func checkout(t *testing.T) repository {
	t.Helper()
	files := execute(t, "git", "ls-files", "--cached", "--others", "--exclude-standard")
	r := newRepository(t)
	for name := range strings.Lines(files) {
		name = strings.TrimSpace(name)
		info, err := os.Stat(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, and not committed
		}
		content, readErr := os.ReadFile(filepath.Join(root, name))
		to := filepath.Join(r.folder, name)
		if err != nil || readErr != nil || os.MkdirAll(filepath.Dir(to), 0o750) != nil ||
			os.WriteFile(to, content, info.Mode().Perm()) != nil {
			t.Fatalf("copying %s: %v, %v", name, err, readErr)
		}
	}
	r.git("add", "--all")
	r.git("commit", "-q", "-m", "release")
	r.git("tag", "v0.1.0")
	return r
}

// wantComponents requires an SBOM of the agent, with modules that it links.
func wantComponents(t *testing.T, file string) {
	t.Helper()
	type component struct{ Name, Version, PURL string }
	var sbom struct {
		BOMFormat  string
		Metadata   struct{ Component component }
		Components []component
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &sbom); err != nil {
		t.Fatal(err)
	}
	main := sbom.Metadata.Component
	if sbom.BOMFormat != "CycloneDX" || main.Name != "github.com/spokewire/sdk-go" || main.Version != "v0.1.0" {
		t.Errorf("the SBOM is of %q: %+v", sbom.BOMFormat, main)
	}
	versions := map[string]string{}
	for _, c := range sbom.Components {
		versions[c.Name] = c.Version
	}
	for _, module := range []string{"k8s.io/client-go", "google.golang.org/grpc", "std"} {
		if versions[module] == "" {
			t.Errorf("the SBOM has no %s, but %d components", module, len(sbom.Components))
		}
	}
}
