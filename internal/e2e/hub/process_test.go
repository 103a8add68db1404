// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/daemon"
)

// patience bounds each wait for what the programs do by themselves.
const patience = 60 * time.Second

// builds are folders with the programs, by whether they have the race detector. That makes them some ten times slower.
var builds = map[bool]func() (string, error){
	true:  sync.OnceValues(func() (string, error) { return build("-race", "./examples/hub", "./examples/agent") }),
	false: sync.OnceValues(func() (string, error) { return build("./examples/hub") }),
}

// folders has what build has made.
var folders []string

func build(args ...string) (string, error) {
	folder, err := os.MkdirTemp("", "hub-e2e-")
	if err != nil {
		return "", err
	}
	folders = append(folders, folder)
	cmd := exec.Command("go", append([]string{"build", "-o", folder + "/"}, args...)...)
	cmd.Dir = "../../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return folder, nil
}

func TestMain(m *testing.M) {
	status := m.Run()
	for _, folder := range folders {
		_ = os.RemoveAll(folder)
	}
	os.Exit(status)
}

// process is a program that is killed and started again.
type process struct {
	t       testing.TB
	program string
	args    []string
	run     *daemon.Daemon
	before  []string // the logs of earlier runs
}

func newProcess(t testing.TB, race bool, program string, args ...string) *process {
	t.Helper()
	folder, err := builds[race]()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, program: filepath.Join(folder, program), args: args}
	t.Cleanup(p.end)
	return p
}

func (p *process) start() {
	p.t.Helper()
	var err error
	if p.run, err = daemon.Start(p.program, p.args...); err != nil {
		p.t.Fatal(err)
	}
}

// kill is SIGKILL; the process is gone when it returns.
func (p *process) kill() {
	p.run.Kill()
	p.before = append(p.before, p.run.Log())
	p.run = nil
}

// end ends the process in good order, and looks at what it had to say.
func (p *process) end() {
	if p.run == nil {
		return
	}
	p.run.Stop()
	all := strings.Join(append(p.before, p.run.Log()), "\n-- started again --\n")
	p.run = nil
	if strings.Contains(all, "DATA RACE") {
		p.t.Errorf("%s has a data race", p.program)
	}
	if p.t.Failed() || strings.Contains(all, "DATA RACE") {
		p.t.Logf("%s %v:\n%.30000s", p.program, p.args, all)
	}
}

// awaitLog waits until the process has written a line with a text since it began, or since some number of bytes, and returns the rest of that line.
func (p *process) awaitLog(since int, text string) string {
	p.t.Helper()
	var rest string
	err := p.run.WaitReady(patience, func() error {
		log := p.run.Log()
		if since <= len(log) {
			if _, after, ok := strings.Cut(log[since:], text); ok {
				if line, _, whole := strings.Cut(after, "\n"); whole || strings.HasSuffix(log, line) {
					rest = line
					return nil
				}
			}
		}
		return fmt.Errorf("it has not said %q", text)
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(rest)
}

// eventually waits until check returns nil.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
	}
}
