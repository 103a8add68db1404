// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
	"github.com/spokewire/sdk-go/examples/internal/install"
	"github.com/spokewire/sdk-go/internal/yamldoc"
)

// program has a flag of its own, an alert and a dashboard.
func program() install.Program {
	var extra string
	return install.Program{
		Name: "p",
		Manifests: fstest.MapFS{
			"access.yaml":  {Data: []byte("kind: First\nmetadata: {name: {{json .Values}}}\n")},
			"service.yaml": {Data: []byte("{{if false}}kind: Missing{{end}}\n")},
			"rules.yaml":   {Data: []byte("groups:\n- name: alerts of {{ $labels.job }}\n")},
			"board.json":   {Data: []byte("{\n\"title\": \"{{job}}\"\n}\n")},
		},
		Flags: func(f command.Flags) { f.StringVar(&extra, "extra", "", "") },
		Usage: "  --extra TEXT         a name\n",
		Workload: func(_ install.Options, args []string) (install.Workload, error) {
			return install.Workload{Args: args, Ports: []install.Port{{Name: "http", Address: ":80"}}, Live: "/livez", Grace: 1,
				Memory: "1Gi", Values: extra}, nil
		},
	}
}

// TestValuesStayValues checks that no value changes the structure of a manifest.
func TestValuesStayValues(t *testing.T) {
	const hostile = "a\"\n---\nkind: Second # {{.Image}} ' \u2028"
	var stdout, stderr strings.Builder
	args := []string{"--image", hostile, "--extra", hostile, "--monitoring", "--", hostile}
	if status := program().Run(t.Context(), args, &stdout, &stderr); status != 0 {
		t.Fatal(status, stderr.String())
	}
	var kinds []string
	for document, err := range yamldoc.Split([]byte(stdout.String())) {
		if err != nil {
			t.Fatal(err)
		}
		text, err := document.StrictJSON()
		if err != nil {
			t.Fatalf("%v: %s", err, document.Text)
		}
		_, kind, _ := strings.Cut(string(text), `"kind":"`)
		kind, _, _ = strings.Cut(kind, `"`)
		kinds = append(kinds, kind)
		n := strings.Count(string(text), `kind: Second # {{.Image}}`)
		if kind == "Deployment" && n != 2 || kind == "First" && n != 1 {
			t.Errorf("the values are %d times in %s", n, text)
		}
		if kind == "PrometheusRule" && !strings.Contains(string(text), "alerts of {{ $labels.job }}") ||
			kind == "ConfigMap" && !strings.Contains(string(text), `{{job}}`) {
			t.Errorf("the templates of Prometheus and Grafana are %s", text)
		}
	}
	want := []string{"First", "Namespace", "ServiceAccount", "Deployment", "PodDisruptionBudget", "Service",
		"NetworkPolicy", "ServiceMonitor", "PrometheusRule", "ConfigMap"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
}

func TestDefaults(t *testing.T) {
	for _, tt := range []struct{ name, args, want string }{
		{"no flag", "", "--a=1 --b=2"},
		{"a flag with a value", "--a=3", "--b=2 --a=3"},
		{"a flag and its value", "-b 3 --ab", "--a=1 -b 3 --ab"},
	} {
		if got := strings.Join(install.Defaults(strings.Fields(tt.args), "--a=1", "--b=2"), " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestApplyFails checks the errors of --apply without a cluster.
func TestApplyFails(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	for file, want := range map[string]string{
		"": "p install: no kubeconfig found: set --kubeconfig",
		commandtest.Kubeconfig(t, "https://127.0.0.1:1"): "p install: apply First  on https://127.0.0.1:1: ",
	} {
		var stdout, stderr strings.Builder
		status := program().Run(t.Context(), []string{"--image", "i", "--apply", "--kubeconfig", file}, &stdout, &stderr)
		if status != command.Failed || !strings.HasPrefix(stderr.String(), want) || stdout.Len() > 0 {
			t.Errorf("exit status %d, %s; want %q", status, stderr.String(), want)
		}
	}
}
