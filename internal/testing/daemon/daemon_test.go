// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a shell script and waits until it has printed "up".
func start(t *testing.T, script string) *daemon.Daemon {
	t.Helper()
	d, err := daemon.Start("/bin/sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Kill)
	err = d.WaitReady(time.Minute, func() error {
		if !strings.Contains(d.Log(), "up") {
			return errors.New("not up")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestStopAsksFirst(t *testing.T) {
	d := start(t, `trap 'echo goodbye; exit 0' TERM; echo up; while :; do sleep 0.01; done`)
	if !d.Running() || d.PID() == 0 {
		t.Fatalf("Running() = %v, PID() = %d, want a running process", d.Running(), d.PID())
	}
	d.Stop()
	d.Stop()
	if d.Running() {
		t.Error("Running() = true after Stop")
	}
	if !strings.HasSuffix(d.Log(), "goodbye") {
		t.Errorf("Log() = %q, want it to end with what the program says on SIGTERM", d.Log())
	}
}

// TestFrozenProcess checks that a frozen process handles a signal only after Thaw, and that Kill ends
// one.
func TestFrozenProcess(t *testing.T) {
	script := `trap 'echo received' USR1; echo up; while :; do sleep 0.01; done`
	d := start(t, script)
	d.Freeze()
	stopped := func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.PID()))
		if err == nil && !strings.Contains(string(stat), ") T ") {
			err = fmt.Errorf("its state is %s", stat)
		}
		return err
	}
	if err := d.WaitReady(time.Minute, stopped); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(d.PID(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	d.Thaw()
	if err := d.WaitReady(time.Minute, func() error {
		if !strings.Contains(d.Log(), "received") {
			return errors.New("no signal")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	d.Freeze()
	d.Kill()
	if d.Running() {
		t.Error("a frozen process runs after Kill")
	}
}

func TestKillDoesNotAsk(t *testing.T) {
	d := start(t, `trap 'echo goodbye; exit 0' TERM; echo up; while :; do sleep 0.01; done`)
	d.Kill()
	d.Kill()
	if d.Running() || strings.Contains(d.Log(), "goodbye") {
		t.Errorf("Running() = %v, Log() = %q, want a process that had no chance to speak", d.Running(), d.Log())
	}
}

// tb is a testing.TB that keeps its clean-up and its output.
type tb struct {
	testing.TB
	cleanup func()
	output  string
	failed  bool
}

func (t *tb) Cleanup(f func())                  { t.cleanup = f }
func (t *tb) Failed() bool                      { return t.failed }
func (t *tb) Logf(format string, args ...any)   { t.output += fmt.Sprintf(format, args...) }
func (t *tb) Errorf(format string, args ...any) { t.failed = true; t.Logf(format, args...) }

func TestStopAfterReportsDataRace(t *testing.T) {
	for script, want := range map[string]string{
		"echo up; exec sleep 60": "",
		"echo 'WARNING: DATA RACE'; echo up; exec sleep 60": "x has a data race" +
			"end of the log of x:\nWARNING: DATA RACE\nup",
	} {
		d, it := start(t, script), &tb{TB: t}
		d.StopAfter(it, "x")
		it.cleanup()
		if d.Running() || it.output != want {
			t.Errorf("%s: Running() = %v, output %q, want %q", script, d.Running(), it.output, want)
		}
	}
}

func TestWaitReadyReportsWhy(t *testing.T) {
	never := func() error { return errors.New("still cold") }
	t.Run("ended", func(t *testing.T) {
		d, err := daemon.Start("/bin/sh", "-c", "echo bad option >&2; exit 3")
		if err != nil {
			t.Fatal(err)
		}
		err = d.WaitReady(time.Minute, never)
		if !errors.Is(err, daemon.ErrNotReady) || !strings.Contains(err.Error(), "exit status 3") ||
			!strings.Contains(err.Error(), "bad option") {
			t.Errorf("err = %v, want ErrNotReady with exit status and log", err)
		}
	})
	t.Run("too slow", func(t *testing.T) {
		d := start(t, "echo up; exec sleep 60")
		err := d.WaitReady(20*time.Millisecond, never)
		if !errors.Is(err, daemon.ErrNotReady) || !strings.Contains(err.Error(), "still cold") {
			t.Errorf("err = %v, want ErrNotReady with the reason of the check", err)
		}
	})
}

func TestLogKeepsTheEnd(t *testing.T) {
	d := start(t, `i=0; while [ $i -lt 8000 ]; do i=$((i+1)); echo "line $i of a log that is longer than what is kept"; done; echo up; exec sleep 60`)
	log := d.Log()
	if len(log) > 128<<10 {
		t.Errorf("len(Log()) = %d, want at most 128 KiB", len(log))
	}
	if !strings.HasSuffix(log, "\nup") || strings.Contains(log, "line 1 of") {
		t.Errorf("Log() ends with %q, want the last lines only", log[len(log)-40:])
	}
}

func TestFreeAddr(t *testing.T) {
	addr := daemon.FreeAddr(t)
	listener, err := net.Listen("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if !addr.Addr().IsLoopback() || addr.Port() >= 32768 {
		t.Errorf("FreeAddr() = %s, want a port that the system does not choose", addr)
	}
}

func TestFind(t *testing.T) {
	if _, err := daemon.Find("sh"); err != nil {
		t.Errorf("Find(sh) = %v", err)
	}
	if _, err := daemon.Find("no-such-program-anywhere"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("Find of a missing program = %v, want exec.ErrNotFound", err)
	}
}
