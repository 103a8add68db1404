// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// block matches the commands of a manual.
var block = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestManual runs the commands of OPERATIONS.md that install a hub and an agent, each on its own
// cluster.
func TestManual(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile(examples + "OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, heading := range []string{"The hub", "The hub with joins", "The agent", "The agent with joins"} {
		program := strings.Fields(heading)[1]
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			_, section, _ := strings.Cut(string(manual), "\n### "+heading+"\n")
			section, _, _ = strings.Cut(section, "\n#")
			folder, script := t.TempDir(), "set -euo pipefail\n"
			if strings.Contains(heading, "joins") { // the section before it creates these
				script += "kubectl create namespace spokewire\n"
			}
			for _, match := range block.FindAllStringSubmatch(section, -1) {
				script += match[1]
			}
			script = strings.ReplaceAll(script, "go run ./examples/"+program, e2etest.Program(t, program, false))
			for _, name := range []string{"ca.crt", "hub.crt", "hub.key", "cluster1.crt", "cluster1.key", "token", "tokens.csv"} {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(name), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("bash", "-c", script)
			cmd.Dir = folder
			cmd.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig(),
				"PATH="+filepath.Dir(kube.Program(t, "kubectl"))+":"+os.Getenv("PATH"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s\n%s", err, script, out)
			}
			d := s.deployment(program)
			if err := s.createPod(d.Spec.Template); err != nil {
				t.Error(err)
			}
			secret, err := s.core.CoreV1().Secrets(namespace).Get(t.Context(), d.Spec.Template.Spec.Volumes[0].Secret.SecretName,
				metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
				if _, file, ok := strings.Cut(arg, "/credentials/"); ok && secret.Data[file] == nil {
					t.Errorf("the Secret has no file %s", file)
				}
			}
			if heading == "The hub" {
				s.apply(filepath.Join(folder, "hub.yaml"), "--dry-run=server", "--server-side", "--force-conflicts")
			}
		})
	}
}

// TestUnits checks the systemd units: they are valid, and their programs are well isolated.
func TestUnits(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		daemon.Missing(t, "systemd-analyze is missing: install Debian's package systemd")
	}
	for _, program := range []string{"hub", "agent"} {
		name := "spokewire-" + program
		text, err := os.ReadFile(examples + "systemd/" + name + ".service")
		if err != nil {
			t.Fatal(err)
		}
		unit := filepath.Join(t.TempDir(), name+".service")
		own := strings.ReplaceAll(string(text), "/usr/local/bin/"+name, e2etest.Program(t, program, false))
		if err := os.WriteFile(unit, []byte(own), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"verify", unit}, {"security", "--offline=true", "--threshold=15", unit}} {
			out, err := exec.Command(analyze, args...).CombinedOutput()
			if err != nil || args[0] == "verify" && len(out) > 0 {
				t.Errorf("systemd-analyze %v: %v\n%s", args, err, out)
			}
		}
	}
}
