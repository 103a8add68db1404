// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2etest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// folderVariable names a folder that the tests of all packages share, so each program is linked
// only once. The Makefile sets it.
const folderVariable = "SPOKEWIRE_E2E_PROGRAMS"

// programs are the programs that were built for this package.
var programs struct {
	sync.Mutex
	built  map[string]func() (string, error) // by path
	folder string                            // our own folder, if none is shared
}

// Program returns the path of the program of an example, such as "agent", built with or without the
// race detector. The first call builds it, and [Main] removes it.
func Program(t testing.TB, name string, race bool) string {
	t.Helper()
	path, err := build(name, race)()
	if err != nil {
		t.Fatalf("go build ./examples/%s: %v", name, err)
	}
	return path
}

// Prepare starts to build an example, while the servers of a test start.
func Prepare(name string, race bool) {
	built := build(name, race)
	go func() { _, _ = built() }() // a call of Program reports the error
}

// Main runs the tests of a package, removes the programs that were built for it, and returns the exit status.
func Main(m interface{ Run() int }) (status int) {
	status = m.Run()
	programs.Lock()
	building := programs.built
	programs.Unlock()
	for _, built := range building {
		_, _ = built() // a test has reported the error
	}
	if err := os.RemoveAll(programs.folder); err != nil {
		fmt.Fprintf(os.Stderr, "e2etest: remove the programs: %v\n", err)
		return max(status, 1)
	}
	return status
}

func build(name string, race bool) func() (string, error) {
	programs.Lock()
	defer programs.Unlock()
	key := fmt.Sprint(name, race)
	if programs.built[key] == nil {
		if programs.built == nil {
			programs.built = map[string]func() (string, error){}
		}
		programs.built[key] = sync.OnceValues(func() (string, error) { return link(name, race) })
	}
	return programs.built[key]
}

// folder returns the folder of the programs.
func folder() (string, error) {
	if shared := os.Getenv(folderVariable); shared != "" {
		return shared, nil
	}
	programs.Lock()
	defer programs.Unlock()
	if programs.folder == "" {
		var err error
		if programs.folder, err = os.MkdirTemp("", "e2e-programs-"); err != nil {
			return "", err
		}
	}
	return programs.folder, nil
}

// link builds an example. If another package has built it already, the go command finds it up to
// date.
func link(name string, race bool) (string, error) {
	to, err := folder()
	if err != nil {
		return "", err
	}
	args := []string{"build", "-ldflags=-s -w"}
	if race {
		to, args = filepath.Join(to, "race"), append(args, "-race")
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(to, name)
	lock, err := os.Create(path + ".lock")
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/spokewire/sdk-go").Output()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", append(args, "-o", path, "./examples/"+name)...)
	cmd.Dir = string(root[:len(root)-1])
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
}
