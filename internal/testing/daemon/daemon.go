// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package daemon runs a server program beside a test: it owns the process, keeps
// the end of its log for the report of a failed test, and never leaves it behind
// as long as Stop or Kill is called. It knows nothing about what it runs.
package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stopGrace is how long a process may take to end by itself after SIGTERM.
const stopGrace = 10 * time.Second

// withFileLimit starts the program with as many open files as the system grants.
// The Go runtime raises its own soft limit, but gives children the old one back,
// and 1,024 files are not enough for a broker with thousands of clients.
const withFileLimit = `ulimit -S -n "$(ulimit -H -n)" 2>/dev/null; exec "$0" "$@"`

// How much of the log is kept, and how much of that an error text carries.
const (
	logLimit   = 128 << 10
	errorLimit = 4 << 10
)

// ErrNotReady is returned by WaitReady when the time is over, or the process has
// ended, before the check held. The error text carries the last lines of the log.
var ErrNotReady = errors.New("daemon: not ready")

// Daemon is one running program. Its methods may be called concurrently.
type Daemon struct {
	name string
	cmd  *exec.Cmd
	log  *Log
	done chan struct{}

	stopOnce sync.Once
}

// Start runs the program at path with args. Standard output and error both go to
// the log. The caller must call Stop or Kill.
func Start(path string, args ...string) (*Daemon, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", withFileLimit, path}, args...)...)
	log := &Log{}
	cmd.Stdout, cmd.Stderr = log, log
	// A grandchild that keeps the pipe open must not block Wait for ever.
	cmd.WaitDelay = time.Second
	d := &Daemon{name: path, cmd: cmd, log: log, done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("daemon: start %s: %w", path, err)
	}
	go func() {
		defer close(d.done)
		_ = cmd.Wait() // what it says is in cmd.ProcessState too
	}()
	return d, nil
}

// Done is closed when the process has ended and its whole log is read.
func (d *Daemon) Done() <-chan struct{} { return d.done }

// Running reports whether the process has not ended yet.
func (d *Daemon) Running() bool {
	select {
	case <-d.done:
		return false
	default:
		return true
	}
}

// PID is the process ID, also after the process has ended.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Log returns the last part, at most 128 KiB, of what the program wrote so far.
func (d *Daemon) Log() string { return d.log.Last(logLimit) }

// Stop asks the process to end with SIGTERM, kills it when it does not within
// ten seconds, and returns when it is gone. It is idempotent.
func (d *Daemon) Stop() {
	d.stopOnce.Do(func() { _ = d.cmd.Process.Signal(syscall.SIGTERM) })
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-d.done:
	case <-timer.C:
		d.Kill()
	}
}

// Kill ends the process with SIGKILL, as a crash would, and returns when it is
// gone. It is idempotent.
func (d *Daemon) Kill() {
	_ = d.cmd.Process.Kill()
	<-d.done
}

// WaitReady calls ready every ten milliseconds until it returns nil. It gives up
// with ErrNotReady after limit, and at once when the process has ended.
func (d *Daemon) WaitReady(limit time.Duration, ready func() error) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-d.done:
			return fmt.Errorf("%w: %s ended (%v):\n%s", ErrNotReady, d.name, d.cmd.ProcessState, d.log.Last(errorLimit))
		case <-deadline.C:
			return fmt.Errorf("%w: %s after %v: %w:\n%s", ErrNotReady, d.name, limit, err, d.log.Last(errorLimit))
		case <-tick.C:
		}
	}
}

// Require returns the path of a program that a test needs, which a package of Debian has. Without it the test fails with CI=true,
// and is skipped elsewhere.
func Require(t testing.TB, name, debian string) string {
	t.Helper()
	path, err := Find(name)
	if err != nil {
		Missing(t, fmt.Sprintf("%s is not installed (on Debian: apt-get install %s)", name, debian))
	}
	return path
}

// Missing ends a test on a machine that lacks what it needs.
func Missing(t testing.TB, message string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(message)
	}
	t.Skip(message)
}

// Find returns the path of a program: the first of PATH, then of the folders for
// system programs, which the PATH of an ordinary Debian user does not name.
func Find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, folder := range []string{"/usr/sbin", "/usr/local/sbin", "/sbin", "/opt/homebrew/sbin"} {
		path := folder + "/" + name
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("daemon: %s: %w", name, exec.ErrNotFound)
}
