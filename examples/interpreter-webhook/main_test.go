// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// try runs a command line, and returns its error without the name of the program.
func try(ctx context.Context, args []string, out io.Writer) error {
	task, err := parse(args)
	if err != nil {
		return err
	}
	return task(ctx, out)
}

func TestExplain(t *testing.T) {
	var out bytes.Buffer
	if err := try(t.Context(), []string{"explain", "testdata/objects.yaml"}, &out); err != nil {
		t.Fatal(err)
	}
	const want = `Workload prod/web
  replicas      3 (webhook)
  requirements  {"resourceRequest":{"cpu":"250m","memory":"64Mi"},"namespace":"prod"} (webhook)
  components    -
  healthy       false (webhook)
  status        {"readyReplicas":2} (webhook)
  dependencies  [{"apiVersion":"v1","kind":"ConfigMap","namespace":"prod","name":"settings"},` +
		`{"apiVersion":"v1","kind":"ServiceAccount","namespace":"prod","name":"web"}] (webhook)
Deployment prod/api
  replicas      1 (native)
  requirements  {"namespace":"prod"} (native)
  components    -
  healthy       true (native)
  status        {"availableReplicas":1,"replicas":1,"updatedReplicas":1} (native)
  dependencies  [{"apiVersion":"v1","kind":"Secret","namespace":"prod","name":"api-tls"}] (native)
ConfigMap prod/settings
  replicas      -
  requirements  -
  components    -
  healthy       -
  status        -
  dependencies  -
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestExplainFiles checks the output and the error for each content of a file.
func TestExplainFiles(t *testing.T) {
	const service = "{apiVersion: v1, kind: Service, metadata: {name: s}}\n"
	const explained = "Service s\n  replicas      -\n  requirements  -\n  components    -\n" +
		"  healthy       true (native)\n  status        {} (native)\n  dependencies  -\n"
	const misfit = "error: refused (400): request.object does not fit *v1.Deployment: json: cannot unmarshal string " +
		"into Go struct field DeploymentSpec.spec.replicas of type int32\n"
	file := filepath.Join(t.TempDir(), "f.yaml")
	for _, test := range []struct{ reason, content, want, err string }{
		{"documents", "---\n# only a comment\n---\n" + service + "---\n" + service, explained + explained, ""},
		{"a list", "apiVersion: v1\nkind: List\nitems:\n- " + service + "- " + service, explained + explained, ""},
		{"JSON", `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}`, explained, ""},
		{"nothing", "", "", file + " has no objects"},
		{"an empty list", "{apiVersion: v1, kind: List, items: []}", "", file + " has no objects"},
		{"no YAML", service + "---\na: [\n", "", file + ", document 2: yaml: line 1: did not find expected node content"},
		{"a key twice", "kind: Pod\nkind: Job\n", "",
			file + ", document 1: yaml: unmarshal errors:\n  line 2: key \"kind\" already set in map"},
		{"text", "hello", "", file + ", document 1: the document is not an object with apiVersion and kind"},
		{"no kind", "apiVersion: v1", "", file + ", document 1: the document has no kind or no apiVersion"},
		{"no kind in a list", "{apiVersion: v1, kind: List, items: [{apiVersion: v1}]}", "",
			file + ", document 1: items[0] has no kind or no apiVersion"},
		{"no list", "{apiVersion: v1, kind: List, items: 5}", "", file + ", document 1: items of the List must be a list"},
		{"what does not fit", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: three}}\n---\n" +
			service,
			"Deployment d\n  replicas      " + misfit + "  requirements  " + misfit + "  components    -\n" +
				"  healthy       " + misfit + "  status        {} (native)\n  dependencies  " + misfit + explained,
			file + ": 1 of 2 objects cannot be explained"},
	} {
		if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		message := ""
		if err := try(t.Context(), []string{"explain", file}, &out); err != nil {
			message = err.Error()
		}
		if out.String() != test.want || message != test.err {
			t.Errorf("%s: got\n%s\nand the error %s\nwant\n%s\nand %s", test.reason, out.String(), message, test.want, test.err)
		}
	}
}

func TestServe(t *testing.T) {
	folder := t.TempDir()
	certtest.New(t).Issue(t, "webhook").Write(t, folder, "tls")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := try(ctx, []string{"serve", "--certs", folder, "--addr", "127.0.0.1:0"}, nil); err != nil {
		t.Error(err)
	}
	for args, want := range map[string]string{
		"": "a command is required", "dance": "unknown command \"dance\"", "explain": "explain needs one FILE, got 0",
		"explain a.yaml b.yaml": "explain needs one FILE, got 2", "serve": "", "serve now": "unknown argument \"now\"",
		"serve --port 1": "unknown flag --port",
	} {
		if err := try(t.Context(), strings.Fields(args), nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", args, err, want)
		}
	}
}

// TestHelp checks that --help and -h print the usage, also after a command.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"serve", "--help"}, {"explain", "-h"}} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), args, &stdout, &stderr); status != 0 || stdout.String() != usage || stderr.Len() > 0 {
			t.Errorf("%v: exit status %d, and prints\n%s%s", args, status, stdout.String(), stderr.String())
		}
	}
}

// TestExitStatus checks that a failure differs from a mistake in the command line.
func TestExitStatus(t *testing.T) {
	for args, want := range map[string]int{"explain missing.yaml": 1, "explain": 2} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), strings.Fields(args), &stdout, &stderr); status != want ||
			!strings.HasPrefix(stderr.String(), "interpreter-webhook: ") || stdout.Len() > 0 {
			t.Errorf("%s: exit status %d, want %d\n%s%s", args, status, want, stdout.String(), stderr.String())
		}
	}
}
