// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// session runs a command of rsync's: against a server of its own, after those that have to come before it.
func session(t *testing.T, command string) {
	args := words(command)[3:] // behind go run ./examples/rsync
	clusters := "3"
	if args[0] == "serve" {
		clusters = args[2]
	}
	address := serveRsync(t, clusters)
	client := func(args ...string) string {
		t.Helper()
		return execute(t, append([]string{"go", "run", "./examples/rsync", args[0], "--server", address}, args[1:]...)...)
	}
	tree, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for i := range args {
		args[i] = strings.Replace(args[i], "examples/", tree+"/examples/", 1)
		args[i] = strings.Replace(args[i], "DIR", tree+"/examples/applied-work/manifests/v1", 1)
	}
	switch args[0] {
	case "serve":
		client("create", "--cluster", "fake+cluster"+clusters, "shop", tree+"/examples/applied-work/manifests/v1")
		wantOutput(t, client("instantiate", "shop"), "Instantiated")
	case "create":
		client(args...)
		wantOutput(t, client("list"), "shop")
	default:
		client("create", "--cluster", "fake+cluster1", "shop", tree+"/examples/applied-work/manifests/v1")
		if args[0] != "instantiate" {
			client("instantiate", "shop")
		}
		switch args[0] {
		case "instantiate":
			wantOutput(t, client(args...), "Instantiated")
		case "terminate":
			wantOutput(t, client(args...), "Terminated")
		case "status":
			watchRsync(t, address, args)
		default:
			t.Fatalf("nobody knows how to try %q", args[0])
		}
	}
}

// serveRsync starts a server until the test ends, and returns its address.
func serveRsync(t *testing.T, clusters string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	lines := start(t, "serve", "--fake", clusters, "--listen", address, "--store", filepath.Join(t.TempDir(), "rsync.db"))
	for lines.Scan() {
		if strings.Contains(lines.Text(), address) {
			return address
		}
	}
	t.Fatal("the server has ended without having said where it is")
	return ""
}

// watchRsync watches a context that is instantiated until it is shown.
func watchRsync(t *testing.T, address string, args []string) {
	t.Helper()
	lines := start(t, append([]string{args[0], "--server", address}, args[1:]...)...)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "Instantiated") {
			return
		}
	}
	t.Error("the watch has ended without having shown the context")
}

// start starts rsync and returns what it prints. When the test ends it is interrupted, and has to end in order.
func start(t *testing.T, args ...string) *bufio.Scanner {
	t.Helper()
	cmd := exec.Command(build(t, "./examples/rsync"), args...)
	cmd.Dir, cmd.Stderr = t.TempDir(), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		for lines.Scan() {
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("rsync %s: %v", strings.Join(args, " "), err)
		}
	})
	return lines
}
