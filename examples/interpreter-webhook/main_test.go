// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExplain(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"explain", "testdata/objects.yaml"}, &out); err != nil {
		t.Fatal(err)
	}
	const want = `Workload prod/web
  replicas      3, each cpu=250m memory=64Mi (webhook)
  healthy       false (webhook)
  status        {"readyReplicas":2} (webhook)
  dependency    ConfigMap settings (webhook)
  dependency    ServiceAccount web (webhook)
Deployment prod/api
  replicas      1 (native)
  healthy       true (native)
  status        {"availableReplicas":1,"replicas":1,"updatedReplicas":1} (native)
  dependency    Secret api-tls (native)
ConfigMap prod/settings
  replicas      -
  healthy       -
  status        -
  dependency    -
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestExplainFiles checks the output and the error for each content of a file.
func TestExplainFiles(t *testing.T) {
	const service = "{apiVersion: v1, kind: Service, metadata: {name: s}}\n"
	const explained = "Service s\n  replicas      -\n  healthy       true (native)\n  status        {} (native)\n  " +
		"dependency    -\n"
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
			"Deployment d\n  replicas      " + misfit + "  healthy       " + misfit +
				"  status        {} (native)\n  dependency    " +
				misfit + explained,
			file + ": 1 of 2 objects cannot be explained"},
	} {
		if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		message := ""
		if err := run(t.Context(), []string{"explain", file}, &out); err != nil {
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
	if err := run(ctx, []string{"serve", "--certs", folder, "--addr", "127.0.0.1:0"}, nil); err != nil {
		t.Error(err)
	}
	for args, want := range map[string]string{
		"": "a command is required\n", "dance": "unknown command \"dance\"\n", "explain": "explain needs one FILE, got 0\n",
		"explain a.yaml b.yaml": "explain needs one FILE, got 2\n", "serve": "",
	} {
		if err := run(t.Context(), strings.Fields(args), nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", args, err, want)
		}
	}
}

// TestHelp checks that --help and -h print the usage, also after a command.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"serve", "--help"}} {
		var out bytes.Buffer
		if err := run(t.Context(), args, &out); err != nil || out.String() != usage+"\n" {
			t.Errorf("%v: %v, and prints\n%s", args, err, out.String())
		}
	}
}
