// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// previousPrograms builds hub and agent of the newest tag before this commit, or without a tag of the
// previous commit. It returns their paths.
func previousPrograms(t *testing.T) map[string]string {
	t.Helper()
	git := func(args ...string) (string, error) {
		c := exec.Command("git", args...)
		c.Dir = "../../.."
		out, err := c.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	revision, err := git("describe", "--tags", "--abbrev=0", "HEAD^")
	if err != nil {
		if revision, err = git("rev-parse", "--verify", "HEAD^"); err != nil {
			t.Fatalf("git has no earlier commit: run git fetch --deepen=1: %s", revision)
		}
	}
	t.Logf("the previous version is %s", revision)
	folder := t.TempDir()
	archive := filepath.Join(folder, "source.tar")
	if out, err := git("archive", "--format=tar", "-o", archive, revision); err != nil {
		t.Fatal(err, out)
	}
	if out, err := exec.Command("tar", "-xf", archive, "-C", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	programs := map[string]string{}
	for _, name := range []string{"hub", "agent"} {
		programs[name] = filepath.Join(folder, "bin-"+name)
		c := exec.Command("go", "build", "-ldflags=-s -w", "-o", programs[name], "./examples/"+name)
		c.Dir = folder
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v: %s", name, err, out)
		}
	}
	return programs
}

// TestUpgrade replaces the previous hub and agent by the current ones, and these again by the previous
// ones. Each step changes an application. No object is deleted.
func TestUpgrade(t *testing.T) {
	old := previousPrograms(t)
	for name, store := range map[string]func(*stores) string{
		"folder": (*stores).folder, "database": (*stores).database,
	} {
		t.Run(name, func(t *testing.T) { testUpgrade(t, old, store(&stores{t: t})) })
	}
}

func testUpgrade(t *testing.T, old map[string]string, store string) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	cluster := newMainCluster(t, "--broker", broker.URL())
	h := newAPIHub(t, store, "--broker", broker.URL())
	replace := func(p *process, program string) {
		if p.run != nil {
			p.end()
		}
		p.program = program
		p.start()
	}
	replaceHub := func(program string) {
		replace(h.process, program)
		h.url = h.awaitLog(0, `"Started serving" url=`)
	}
	replace(cluster.agent, old["agent"])
	replaceHub(old["hub"])
	h.put("clusters/main", documentHead+"kind: Cluster\nmetadata: {name: main}\n")
	h.configMap("changes", "0")
	h.configMap("stays", "0")
	h.place("changes", "stays")
	h.put("complete", "")
	uids := cluster.have("the previous version", map[string]string{"changes": "0", "stays": "0"})
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"new hub", func() { replaceHub(e2etest.Program(t, "hub", false)) }},
		{"new agent", func() { replace(cluster.agent, e2etest.Program(t, "agent", false)) }},
		{"previous hub", func() { replaceHub(old["hub"]) }},
		{"previous agent", func() { replace(cluster.agent, old["agent"]) }},
	} {
		step.run()
		h.configMap("changes", step.name)
		same(t, cluster.have(step.name, map[string]string{"changes": step.name, "stays": "0"}), uids)
	}
}
