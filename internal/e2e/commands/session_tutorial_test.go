// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// code matches the Go code of a page, and its changes.
var code = regexp.MustCompile("(?s)```(go|diff)\n(.*?)```")

// steps returns the program of TUTORIAL.md: the first version, and the version after each change. Lines
// of @@ separate the hunks of a change.
func (x *terminal) steps() []string {
	x.t.Helper()
	program, all := "", []string{}
	for _, block := range code.FindAllStringSubmatch(read(x.t, "TUTORIAL.md"), -1) {
		if block[1] == "go" {
			program = block[2]
		} else {
			for hunk := range strings.SplitSeq(block[2], "@@\n") {
				before, after := sides(hunk)
				if strings.Count(program, before) != 1 {
					x.t.Fatalf("the program must have these lines once:\n%s", before)
				}
				program = strings.Replace(program, before, after, 1)
			}
		}
		all = append(all, program)
	}
	return all
}

// sides returns the lines of a hunk before and after the change.
func sides(hunk string) (before, after string) {
	for line := range strings.Lines(hunk) {
		if line[0] != '+' {
			before += line[1:]
		}
		if line[0] != '-' {
			after += line[1:]
		}
	}
	return before, after
}

// compile builds a program with the modules of the end-to-end tests.
func (x *terminal) compile(text string) string {
	x.t.Helper()
	x.file("program/main.go", strings.NewReplacer(x.swap...).Replace(text))
	binary := filepath.Join(x.t.TempDir(), "program")
	out, status := attemptIn(x.t, filepath.Join(root, "internal", "e2e"), nil,
		"go", "build", "-ldflags=-s -w", "-o", binary, filepath.Join(x.dir, "program", "main.go"))
	if status != 0 {
		x.t.Fatalf("compile: %s\n%s", out, text)
	}
	return binary
}

// aTutorial follows TUTORIAL.md. It compiles the program of each step, and runs the steps 1 and 4 to 6.
func aTutorial(x *terminal) {
	x.clear()
	x.broker()
	x.database("TUTORIAL.md", "greeter")
	x.swap = append(x.swap, ":8443", ":"+fmt.Sprint(daemon.FreeAddr(x.t).Port()))
	var programs []string
	for _, text := range x.steps() {
		programs = append(programs, x.compile(text))
	}
	x.own = programs[0]
	stored := x.start("Starting workers", "go run .")
	x.run("created", "kubectl create namespace edge1")
	x.run("created", "kubectl create configmap greeting -n edge1 --from-literal=text=hello")
	e2etest.Eventually(x.t, "the work is stored", func() error {
		out, err := x.try("", "kubectl get manifestworks -n edge1")
		if err == nil && !strings.Contains(out, "greeting") {
			err = fmt.Errorf("found %s", out)
		}
		return err
	})
	stored.stop()
	x.run("deleted", "kubectl delete manifestworks -n edge1 --all")

	x.own = programs[len(programs)-3]
	sent := x.start("Starting workers", "go run .")
	agent := x.start("Started serving works",
		"go run ./examples/agent --broker mqtt://localhost:1883 --cluster edge1 --source greeter")
	sent.logs(`"Applied" work="edge1/greeting"`)
	x.run("hello", "kubectl get configmap greeting -n default -o jsonpath='{.data.text}'")
	x.run("No resources found", "kubectl get manifestworks -n edge1")
	sent.stop()

	if _, err := x.kubectl("", "delete", "configmap", "-n", "edge1", "greeting"); err != nil {
		x.t.Fatal(err)
	}
	sent = x.start("Starting workers", "go run .")
	e2etest.Eventually(x.t, "the work of the deleted ConfigMap is deleted", func() error {
		out, err := x.kubectl("", "get", "configmap", "-n", "default", "--ignore-not-found", "greeting")
		if err == nil && out != "" {
			err = fmt.Errorf("found %s", out)
		}
		return err
	})
	sent.stop()
	x.twoControllers(programs[len(programs)-2]).stop()
	agent.stop()
	x.controllerWithoutBroker(programs[len(programs)-1])
}

// twoControllers follows step 5 of TUTORIAL.md, and returns the replica that leads in the end.
func (x *terminal) twoControllers(program string) *process {
	x.own = program
	elected := x.start("Starting workers", "go run .")
	standby := x.start("Attempting to acquire leader lease", "go run .")
	x.run("created", "kubectl create configmap greeting -n edge1 --from-literal=text=hello")
	elected.logs(`"Applied" work="edge1/greeting"`)
	elected.stop()
	standby.logs("Starting workers")
	x.run("patched", `kubectl patch configmap greeting -n edge1 --type=merge -p '{"data": {"text": "bye"}}'`)
	x.greeting("bye")
	return standby
}

// controllerWithoutBroker follows step 6 of TUTORIAL.md.
func (x *terminal) controllerWithoutBroker(program string) {
	ca := certtest.New(x.t)
	ca.Write(x.t, x.dir, "ca")
	ca.Issue(x.t, "hub", "localhost").Write(x.t, x.dir, "hub")
	ca.Issue(x.t, "edge1").Write(x.t, x.dir, "edge1")
	x.own = program
	x.start("Starting workers", "go run .")
	x.start("Started serving works", "go run ./examples/agent --hub localhost:8443 --hub-ca ca.crt --hub-cert edge1.crt "+
		"--hub-key edge1.key --hub-was mqtt://localhost:1883 --cluster edge1 --source greeter")
	x.run("patched", `kubectl patch configmap greeting -n edge1 --type=merge -p '{"data": {"text": "hello again"}}'`)
	x.greeting("hello again")
}

// greeting waits until the cluster has a text.
func (x *terminal) greeting(want string) {
	x.t.Helper()
	e2etest.Eventually(x.t, "the change is applied", func() error {
		out, err := x.try("", "kubectl get configmap greeting -n default -o jsonpath='{.data.text}'")
		if err == nil && out != want {
			err = fmt.Errorf("found %q", out)
		}
		return err
	})
}
