// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package hostile_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

const (
	// mostResident limits the resident memory of a program, in KiB.
	mostResident = 400 << 10
	// headroom is the address space that a program may allocate in addition to its size at the
	// start, before the kernel refuses more. The Go runtime never returns address space, therefore
	// it is larger than the memory in use.
	headroom = 1 << 30
	// longestWait is the time that an attack may delay others, in addition to the longest time
	// without an attack.
	longestWait = time.Second
)

// victim is a program under attack.
type victim struct {
	t      *testing.T
	cmd    *exec.Cmd
	exited chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
}

// start runs a program until the end of the test.
func start(t *testing.T, program string, args ...string) *victim {
	t.Helper()
	v := &victim{t: t, cmd: exec.Command(e2etest.Program(t, program, false), args...), exited: make(chan struct{})}
	v.cmd.Stdout, v.cmd.Stderr = v, v
	v.cmd.Env = append(os.Environ(), "GOMEMLIMIT=") // as in a shell
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(v.exited)
		_ = v.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = v.cmd.Process.Kill()
		<-v.exited
		if t.Failed() {
			t.Logf("%s %v:\n%s", program, args, v.death())
		}
	})
	return v
}

// Write implements [io.Writer] for the output of the program.
func (v *victim) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.output.Len() > 64<<20 {
		v.output.Reset()
	}
	return v.output.Write(p)
}

func (v *victim) tail(n int) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	text := v.output.String()
	return text[max(0, len(text)-n):]
}

// death returns the message of the Go runtime that ended the program, or the end of the output.
func (v *victim) death() string {
	text := v.tail(64 << 20)
	for _, word := range []string{"fatal error: ", "panic: ", "runtime/cgo: "} {
		if at := strings.Index(text, word); at >= 0 {
			return text[at:min(len(text), at+3000)]
		}
	}
	return v.tail(2000)
}

// after returns the word that follows a text in the output.
func (v *victim) after(text string) string {
	v.t.Helper()
	var word string
	e2etest.Eventually(v.t, fmt.Sprintf("the program prints %q", text), func() error {
		v.mu.Lock()
		defer v.mu.Unlock()
		_, rest, found := strings.Cut(v.output.String(), text)
		line, _, complete := strings.Cut(rest, "\n")
		if !found || !complete {
			return fmt.Errorf("it printed %q", v.output.String())
		}
		word = strings.Fields(line)[0]
		return nil
	})
	return word
}

// limit limits the address space of the program.
func (v *victim) limit() {
	v.t.Helper()
	most := v.status("VmSize")<<10 + headroom
	if err := unix.Prlimit(v.cmd.Process.Pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
		v.t.Fatal(err)
	}
}

// status returns a value of /proc/PID/status, in KiB.
func (v *victim) status(key string) uint64 {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			n, _ := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			return n
		}
	}
	return 0
}

func (v *victim) alive() bool {
	select {
	case <-v.exited:
		return false
	default:
		return true
	}
}

// attack is one hostile input.
type attack struct {
	name string
	run  func(t *testing.T)
}

// withstand runs attacks one by one, and calls serve again and again for other clients. An attack
// that delayed others runs once more, because the attackers use the same processors.
func (v *victim) withstand(attacks []attack, serve func() error) {
	v.t.Helper()
	calm := v.longest(serve, 2*time.Second)
	v.limit()
	for _, a := range attacks {
		v.t.Run(a.name, func(t *testing.T) {
			wait := v.under(t, a, serve)
			if wait > calm+longestWait {
				wait = min(wait, v.under(t, a, serve))
			}
			if wait > calm+longestWait {
				t.Errorf("others waited %s, %s without an attack", wait, calm)
			}
			if most := v.status("VmHWM"); most > mostResident {
				t.Errorf("the program used %d MiB, the limit is %d MiB", most>>10, mostResident>>10)
			}
			t.Logf("others waited %s; address space %d MiB, memory %d MiB, at most %d MiB",
				wait, v.status("VmSize")>>10, v.status("VmRSS")>>10, v.status("VmHWM")>>10)
		})
		if !v.alive() {
			break
		}
	}
	v.t.Logf("%d attacks; the longest wait without one was %s; peak memory %d MiB", len(attacks), calm,
		v.status("VmHWM")>>10)
}

// under returns the longest call of serve during an attack.
func (v *victim) under(t *testing.T, a attack, serve func() error) (most time.Duration) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.run(t)
	}()
	for over := false; !over; {
		select {
		case <-done:
			over = true // one more call for the leftovers of the attack
		default:
		}
		took, err := timed(serve)
		switch most = max(most, took); {
		case !v.alive():
			<-done // the attack may report errors until then
			t.Fatalf("the program has ended: %s", v.death())
		case err != nil:
			t.Errorf("others are not served: %v", err)
		}
	}
	return most
}

// longest returns the duration of the longest call in a period.
func (v *victim) longest(serve func() error, during time.Duration) (most time.Duration) {
	v.t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); {
		took, err := timed(serve)
		if err != nil {
			v.t.Fatal(err)
		}
		most = max(most, took)
	}
	return most
}

func timed(serve func() error) (time.Duration, error) {
	began := time.Now()
	err := serve()
	return time.Since(began), err
}
