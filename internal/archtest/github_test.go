// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// workflow has the fields of a workflow that the tests check.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		RunsOn    string                 `json:"runs-on"`
		Container struct{ Image string } `json:"container"`
		Steps     []struct{ Uses, Run string }
	} `json:"jobs"`
}

// readYAML decodes a file of .github.
func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(readFile(t, file)), into); err != nil {
		t.Errorf("%s: %v", file, err)
	}
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// glob returns the files that match a pattern, with paths from the root.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file matches %s: %v", pattern, err)
	}
	for i, file := range files {
		if files[i], err = filepath.Rel(root, file); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

var (
	pinned   = regexp.MustCompile(`^[\w-]+/[\w/-]+@v\d+\.\d+\.\d+$`)
	makeVerb = regexp.MustCompile(`^make ([a-z-]+)( [A-Z]+=\S.*)?$`)
	// published matches the commands of the workflow release that no verb has: they need GitHub.
	published = regexp.MustCompile(`^(gh release create |echo )`)
)

// unrunnable returns the faults of a workflow: a command that is not a verb of the Makefile, an
// action without a full version, or rights for each job.
func unrunnable(w workflow, makefile string) (wrong []string) {
	if diff := cmp.Diff(map[string]string{"contents": "read"}, w.Permissions); diff != "" {
		wrong = append(wrong, "permissions of the workflow (-want +got):\n"+diff)
	}
	for name, job := range w.Jobs {
		if job.RunsOn == "" || len(job.Steps) == 0 {
			wrong = append(wrong, name+": a job needs runs-on and steps")
		}
		for _, step := range job.Steps {
			verb := makeVerb.FindStringSubmatch(step.Run)
			switch {
			case step.Uses != "" && !pinned.MatchString(step.Uses):
				wrong = append(wrong, name+": needs a full version: "+step.Uses)
			case step.Uses != "", step.Run == ".ci/run", published.MatchString(step.Run):
			case verb == nil:
				wrong = append(wrong, name+": is no verb of the Makefile: "+step.Run)
			case !strings.Contains(makefile, "\n"+verb[1]+": "):
				wrong = append(wrong, name+": the Makefile has no "+verb[1])
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

// TestWorkflows checks that workflows run the verbs of the Makefile, and that CI runs all verbs of
// `make check`.
func TestWorkflows(t *testing.T) {
	makefile, all := readFile(t, "Makefile"), ""
	for _, file := range glob(t, ".github/workflows/*.yml") {
		var w workflow
		readYAML(t, file, &w)
		for _, wrong := range unrunnable(w, makefile) {
			t.Errorf("%s: %s", file, wrong)
		}
		all += readFile(t, file)
	}
	check := regexp.MustCompile(`(?m)^check: (.*?) ##`).FindStringSubmatch(makefile)
	verbs := append(strings.Fields(check[1]), "vuln", "dco", "release")
	run := readFile(t, ".ci/run")
	for _, verb := range verbs {
		if !strings.Contains(all, "run: make "+verb) && !strings.Contains(run, "make "+verb+"\n") {
			t.Errorf("no workflow runs make %s", verb)
		}
	}
}

// TestUnrunnable runs the check above on a workflow with each kind of mistake.
func TestUnrunnable(t *testing.T) {
	var w workflow
	if err := yaml.Unmarshal([]byte(`
jobs:
  a: {runs-on: x, steps: [{uses: actions/checkout@v5}, {run: make fmt}, {run: make none}, {run: go test ./...}]}
  b: {steps: [{uses: actions/checkout@v5.0.1}]}
permissions: {contents: write}
`), &w); err != nil {
		t.Fatal(err)
	}
	got := unrunnable(w, "\nfmt: ## x\n")
	want := []string{
		"a: is no verb of the Makefile: go test ./...", "a: needs a full version: actions/checkout@v5",
		"a: the Makefile has no none", "b: a job needs runs-on and steps",
	}
	if len(got) != 5 || !strings.HasPrefix(got[4], "permissions") {
		t.Fatalf("got %q", got)
	}
	if diff := cmp.Diff(want, got[:4]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDependabot checks that the updates cover each Go module of the tree.
func TestDependabot(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem   string `json:"package-ecosystem"`
			Directories []string
		}
	}
	readYAML(t, ".github/dependabot.yml", &config)
	want := []string{"/"}
	for _, module := range nestedModules {
		want = append(want, "/"+module)
	}
	for _, update := range config.Updates {
		if update.Ecosystem == "gomod" {
			got := slices.Sorted(slices.Values(update.Directories))
			if diff := cmp.Diff(slices.Sorted(slices.Values(want)), got); diff != "" {
				t.Errorf("directories of Go modules (-want +got):\n%s", diff)
			}
			return
		}
	}
	t.Error("no update of Go modules")
}

// TestIssueForms checks the forms for issues: each has a name, and fields with unique IDs.
func TestIssueForms(t *testing.T) {
	for _, file := range glob(t, ".github/ISSUE_TEMPLATE/*.yml") {
		if filepath.Base(file) == "config.yml" {
			continue
		}
		var form struct {
			Name, Description string
			Body              []struct {
				Type, ID   string
				Attributes struct{ Label, Value string }
			}
		}
		readYAML(t, file, &form)
		if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
			t.Errorf("%s needs a name, a description and a body", file)
		}
		ids := map[string]bool{}
		for _, field := range form.Body {
			text := field.Type == "markdown"
			if text && field.Attributes.Value == "" ||
				!text && (field.ID == "" || ids[field.ID] || field.Attributes.Label == "") {
				t.Errorf("%s: field %q (%s) needs a value, or a label and an ID of its own", file, field.ID, field.Type)
			}
			ids[field.ID] = true
		}
	}
}
