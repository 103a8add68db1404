// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// output collects the written text. It calls a function at the first line with mark.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	mark string
	then func()
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.then != nil && bytes.Contains(p, []byte(o.mark)) {
		o.then()
		o.then = nil
	}
	return o.text.Write(p)
}

// folder writes manifest files to a new folder and returns its path. Names and texts alternate.
func folder(t *testing.T, namesAndTexts ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(namesAndTexts); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, namesAndTexts[i]), []byte(namesAndTexts[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// expect checks that the patterns match the text, each after the previous match.
func expect(t *testing.T, text string, patterns ...string) {
	t.Helper()
	rest := text
	for _, p := range patterns {
		at := regexp.MustCompile("(?m)" + p).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("no %q where it should be in:\n%s", p, text)
		}
		rest = rest[at[1]:]
	}
}

func TestQuickstart(t *testing.T) {
	var stdout, stderr output
	if status := run(t.Context(), nil, &stdout, &stderr); status != 0 || stderr.text.Len() > 0 {
		t.Fatalf("exit status %d\n%s\n%s", status, stdout.text.String(), stderr.text.String())
	}
	text := stdout.text.String()
	expect(t, text,
		`^Sending 6 works to 2 clusters$`,
		`  sent      00-namespace -> cluster1: 1 object$`,
		`  reported  00-namespace <- cluster\d after [\d.]+(m|µ)s$`,
		`^Updating 00-namespace on cluster1: an annotation on its Namespace "quickstart"$`,
		`  applied   00-namespace on cluster1$`,
		`  reported  00-namespace <- cluster1 after`,
		`^Deleting 50-greeting on cluster1$`,
		`  gone      50-greeting <- cluster1 after`,
		`^Removing all works`,
		`^Done\. 6 files for 2 clusters: 20 objects applied and reported, one work updated, one deleted, in `,
	)
	for _, step := range []string{"applied", "reported", "removed", "gone"} {
		for _, work := range []string{"00-namespace", "10-greetings-crd", "20-access", "30-config", "40-web", "50-greeting"} {
			for _, cluster := range []string{"cluster1", "cluster2"} {
				expect(t, text, `  `+step+` +`+work+` (on|<-) `+cluster+`\b`)
			}
		}
	}
}

func TestQuickstartWithOwnFilesAndBroker(t *testing.T) {
	b := mosquitto.Start(t, mosquitto.Options{})
	var stdout, stderr output
	args := []string{"--manifests", folder(t, "one.yml", configMap), "--broker", b.URL(), "--clusters", "3"}
	if status := run(t.Context(), args, &stdout, &stderr); status != 0 {
		t.Fatalf("exit status %d\n%s\n%s", status, stdout.text.String(), stderr.text.String())
	}
	expect(t, stdout.text.String(),
		`^Sending 1 work to 3 clusters$`,
		`^Updating one on cluster1: an annotation on its ConfigMap "a"$`,
		`^Deleting one on cluster1$`,
		`^Done\. 1 file for 3 clusters: 3 objects`,
	)
}

func TestFailures(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, tt := range []struct {
		reason string
		args   []string
		status int
		want   []string
	}{
		{"bad YAML", []string{"--manifests", folder(t, "a.yaml", configMap+"---\nkind: [\n")}, 1,
			[]string{"a.yaml, document 2 (line 5): yaml"}},
		{"no kind", []string{"--manifests", folder(t, "a.yaml", "metadata: {name: a}\n")}, 1,
			[]string{"a.yaml, document 1 (line 1)", "Kind"}},
		{"no name", []string{"--manifests", folder(t, "a.yaml", strings.Replace(configMap, "name: a", "", 1))}, 1,
			[]string{"a.yaml, document 1 (line 1): metadata.name is missing"}},
		{"an empty folder", []string{"--manifests", t.TempDir()}, 1,
			[]string{"the folder has no .yaml, .yml or .json files"}},
		{"no such folder", []string{"--manifests", missing}, 1,
			[]string{"--manifests " + missing + ": no such file or directory"}},
		{"an unreachable broker", []string{"--broker", "mqtt://127.0.0.1:1", "--timeout", "1s"}, 1,
			[]string{"broker not reached for 1s", "127.0.0.1:1", "refused"}},
		{"a broker with an invalid address", []string{"--broker", "http://broker"}, 2, []string{"--broker: ", "http"}},
		{"no such kubeconfig", []string{"--kubeconfig", missing}, 1, []string{"kubeconfig", missing}},
		{"an unknown argument", []string{"manifests"}, 2, []string{`unknown argument "manifests"`, "--help"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var stdout, stderr output
			if status := run(t.Context(), tt.args, &stdout, &stderr); status != tt.status {
				t.Errorf("exit status %d, want %d\n%s", status, tt.status, stdout.text.String())
			}
			for _, want := range append(tt.want, "quickstart: ") {
				if !strings.Contains(stderr.text.String(), want) {
					t.Errorf("%q lacks %q", stderr.text.String(), want)
				}
			}
		})
	}
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	var stderr output
	stdout := output{mark: "Updating", then: func() { cancel(errors.New("interrupt signal received")) }}
	if status := run(ctx, nil, &stdout, &stderr); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	expect(t, stderr.text.String(), "^quickstart: interrupt signal received$")
	expect(t, stdout.text.String(), `^Removing all works \(Ctrl-C again to stop at once\)$`,
		"removed   00-namespace on cluster2", "gone      00-namespace <- cluster2")
}

func TestInterruptBeforeAnythingIsSent(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	var stdout, stderr output
	if status := run(ctx, nil, &stdout, &stderr); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	expect(t, stderr.text.String(), "^quickstart: interrupt signal received$")
	if strings.Contains(stdout.text.String(), "Removing") {
		t.Errorf("nothing was sent, but:\n%s", stdout.text.String())
	}
}

// TestBrokerLost checks that the error has the reason, both during and at the end of a run.
func TestBrokerLost(t *testing.T) {
	for mark, want := range map[string]string{
		"Updating":           "^quickstart: (.*\n)*not everything was removed: .*",
		"Removing all works": "^quickstart: not everything was removed: .*",
	} {
		t.Run(mark, func(t *testing.T) {
			b := mosquitto.Start(t, mosquitto.Options{})
			var stderr output
			stdout := output{mark: mark, then: b.Stop}
			if status := run(t.Context(), []string{"--broker", b.URL(), "--timeout", "2s"}, &stdout, &stderr); status != 1 {
				t.Errorf("exit status %d, want 1", status)
			}
			expect(t, stderr.text.String(), want+"(refused|closed)")
		})
	}
}

// full is a writer that returns an error.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestOutputCannotBeWritten(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"--manifests", folder(t, "a.yaml", configMap)}} {
		var stderr output
		if status := run(t.Context(), args, full{}, &stderr); status != 1 {
			t.Errorf("%v: exit status %d, want 1", args, status)
		}
		expect(t, stderr.text.String(), "^quickstart: .*no space left on device$")
	}
}
