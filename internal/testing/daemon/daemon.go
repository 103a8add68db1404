// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package daemon runs a server program next to a test. It owns the process and keeps the end of its
// log for the report of a failed test. No process remains after Stop or Kill.
package daemon

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stopGrace is the time that a process has to end after SIGTERM.
const stopGrace = 10 * time.Second

// withFileLimit starts the program with the highest limit of open files that the system allows. The
// Go runtime raises its own soft limit, but child processes get the old limit back. 1,024 files are
// not enough for a broker with thousands of clients.
const withFileLimit = `ulimit -S -n "$(ulimit -H -n)" 2>/dev/null; exec "$0" "$@"`

// The ports of FreeAddr are below those that systems choose: 32768 and higher on Linux.
const (
	lowestPort = 16384
	ports      = 16384
)

// These constants limit the log that is kept, and the part of it in an error text, in bytes.
const (
	logLimit   = 128 << 10
	errorLimit = 4 << 10
)

// ErrNotReady is returned by WaitReady if the time is over, or the process has ended, before the
// check succeeds. The error text has the last lines of the log.
var ErrNotReady = errors.New("daemon: not ready")

// Daemon is a program that Start has started. Its methods may be called concurrently.
type Daemon struct {
	name string
	cmd  *exec.Cmd
	log  *Log
	done chan struct{}

	stopOnce sync.Once
}

// Start runs the program at path with args. The log receives standard output and standard error.
// The caller must call Stop or Kill.
func Start(path string, args ...string) (*Daemon, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", withFileLimit, path}, args...)...)
	log := &Log{}
	cmd.Stdout, cmd.Stderr = log, log
	// A grandchild that keeps the pipe open must not block Wait forever.
	cmd.WaitDelay = time.Second
	d := &Daemon{name: path, cmd: cmd, log: log, done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("daemon: start %s: %w", path, err)
	}
	go func() {
		defer close(d.done)
		_ = cmd.Wait() // cmd.ProcessState has the result too
	}()
	return d, nil
}

// Done returns a channel that is closed when the process has ended and its whole log is read.
func (d *Daemon) Done() <-chan struct{} { return d.done }

// Running reports whether the process still runs.
func (d *Daemon) Running() bool {
	select {
	case <-d.done:
		return false
	default:
		return true
	}
}

// PID returns the process ID, also after the process has ended.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Log returns the end of the program's output so far, at most 128 KiB.
func (d *Daemon) Log() string { return d.log.Last(logLimit) }

// Stop sends SIGTERM to the process, and kills it after ten seconds. It returns when the process
// has ended. It is idempotent.
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

// StopAfter calls Stop at the end of a test. It fails the test if the program reports a data race,
// and logs the end of the program's log if the test has failed.
func (d *Daemon) StopAfter(t testing.TB, name string) {
	t.Cleanup(func() {
		d.Stop()
		if strings.Contains(d.Log(), "WARNING: DATA RACE") {
			t.Errorf("%s has a data race", name)
		}
		if t.Failed() {
			t.Logf("end of the log of %s:\n%s", name, d.Log())
		}
	})
}

// Kill ends the process with SIGKILL, like a crash. It returns when the process has ended. It is
// idempotent.
func (d *Daemon) Kill() {
	_ = d.cmd.Process.Kill()
	<-d.done
}

// Freeze stops the process with SIGSTOP until Thaw: its connections stay open, and it does not answer.
// Kill also ends a frozen process.
func (d *Daemon) Freeze() { _ = d.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (d *Daemon) Thaw() { _ = d.cmd.Process.Signal(syscall.SIGCONT) }

// WaitReady calls ready every ten milliseconds until it returns nil. It returns ErrNotReady after
// limit, or immediately when the process has ended.
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

// FreeAddr returns a loopback address without a listener, for a program that cannot choose a free
// port. The system gives the port to no listener with port 0, and to no connection, also while the
// program restarts. Another caller of FreeAddr may get the same port.
func FreeAddr(t testing.TB) netip.AddrPort {
	t.Helper()
	for attempt := 1; ; attempt++ {
		listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", lowestPort+rand.IntN(ports)))
		if err == nil {
			_ = listener.Close()
			return netip.MustParseAddrPort(listener.Addr().String())
		}
		if attempt == 100 {
			t.Fatal(err)
		}
	}
}

// Require returns the path of a program that a test needs. debian is the name of its Debian
// package. Without the program, the test fails if CI is "true", and is skipped otherwise.
func Require(t testing.TB, name, debian string) string {
	t.Helper()
	path, err := Find(name)
	if err != nil {
		Missing(t, fmt.Sprintf("%s is not installed (on Debian: apt-get install %s)", name, debian))
	}
	return path
}

// Missing ends a test on a machine without a dependency of the test. The test fails if CI is
// "true", and is skipped otherwise.
func Missing(t testing.TB, message string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(message)
	}
	t.Skip(message)
}

// Find returns the path of a program. It searches PATH, and then the folders for system programs,
// which are not in the PATH of an ordinary Debian user.
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
