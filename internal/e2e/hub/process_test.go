// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

var eventually = e2etest.Eventually

func TestMain(m *testing.M) { os.Exit(e2etest.Main(m)) }

// process is a program that is killed and started again.
type process struct {
	t       testing.TB
	program string
	args    []string
	run     *daemon.Daemon
	before  []string // the logs of earlier runs
}

// newProcess returns a process that is not started. The race detector makes a program about ten
// times slower.
func newProcess(t testing.TB, race bool, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, program: e2etest.Program(t, program, race), args: args}
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

// kill sends SIGKILL, and returns when the process has ended.
func (p *process) kill() {
	p.run.Kill()
	p.before = append(p.before, p.run.Log())
	p.run = nil
}

// end ends the process gracefully, and checks its log.
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

// awaitLog waits until the process has logged a line with a text after the first since bytes of its
// log. It returns the rest of that line.
func (p *process) awaitLog(since int, text string) string {
	p.t.Helper()
	var rest string
	err := p.run.WaitReady(e2etest.Patience, func() error {
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
