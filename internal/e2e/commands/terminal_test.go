// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// terminal runs a session in its own folder, with the cluster's kubeconfig.
type terminal struct {
	t       *testing.T
	cluster *kube.Cluster
	tree    string // the top of the tree
	dir     string
	own     string   // the program that "go run ." runs
	swap    []string // pairs: a text of a document, such as an address, and its replacement
	typed   map[string]bool
}

// startCluster starts the cluster of all sessions. Its CRDs exist before the controller manager
// discovers kinds.
func startCluster(t *testing.T) *kube.Cluster {
	cluster := kube.Start(t,
		kube.Options{CRDs: []string{kube.ManifestWorkCRDs(t), filepath.Join(root, "appliedwork", "v1alpha1")}})
	cluster.StartControllerManager()
	return cluster
}

func newTerminal(t *testing.T, cluster *kube.Cluster) *terminal {
	t.Helper()
	tree, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	return &terminal{t: t, cluster: cluster, tree: tree, dir: t.TempDir(), typed: map[string]bool{}}
}

// words returns the words of a command, with more words at the end. For examples/rsync they follow
// its subcommand, as flags do.
func (x *terminal) words(command string, more []string) []string {
	x.t.Helper()
	if commands[command].session == "" {
		x.t.Fatalf("no document has %q as a step of a session", command)
	}
	x.typed[command] = true
	command, _, _ = strings.Cut(command, " <<") // a shell reads the rest
	args, replacer := words(command), strings.NewReplacer(x.swap...)
	first := 1 // index of the first argument
	if args[0] == "go" {
		first = 3
		if args[2] == "." {
			args[2] = x.own
		} else {
			args[2] = build(x.t, args[2])
		}
	}
	for i := range args[first:] {
		args[first+i] = replacer.Replace(args[first+i])
	}
	end := len(args)
	if strings.Contains(command, "./examples/rsync ") {
		end = first + 1 // its flags follow the name of a command, and precede arguments
	}
	return append([]string{x.program(args[first-1])}, slices.Concat(args[first:end], more, args[end:])...)
}

// program returns the path of a program. kubectl has the version of the cluster.
func (x *terminal) program(name string) string {
	x.t.Helper()
	if name == "kubectl" {
		return kube.Program(x.t, name)
	}
	if filepath.IsAbs(name) {
		return name
	}
	return daemon.Require(x.t, name, name)
}

func (x *terminal) command(ctx context.Context, stdin string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin = x.dir, append(os.Environ(), "KUBECONFIG="+x.cluster.Kubeconfig()),
		strings.NewReader(stdin)
	return cmd
}

// try runs a command of a document to its end.
func (x *terminal) try(stdin, command string, more ...string) (string, error) {
	x.t.Helper()
	args := x.words(command, more) // also builds the program, which is slow while other tests use the processors
	ctx, cancel := context.WithTimeout(x.t.Context(), limit)
	defer cancel()
	out, err := x.command(ctx, stdin, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return string(out), err
}

// run runs a command that must succeed and print a text.
func (x *terminal) run(want, command string, more ...string) {
	x.t.Helper()
	out, err := x.try("", command, more...)
	if err != nil {
		x.t.Fatal(err)
	}
	wantOutput(x.t, out, want)
}

// kubectl runs kubectl on the cluster.
func (x *terminal) kubectl(stdin string, args ...string) (string, error) {
	out, err := x.command(x.t.Context(), stdin, append([]string{x.program("kubectl")}, args...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %v: %w\n%s", args, err, out)
	}
	return string(out), err
}

// process is a program that runs until it ends, or until the session interrupts it.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	log  *daemon.Log
	done chan struct{}
	err  error // valid after done is closed
}

// start starts a command of a document, and waits until it prints a text.
func (x *terminal) start(want, command string, more ...string) *process {
	x.t.Helper()
	return x.begin(want, x.words(command, more)...)
}

// begin starts any program, and waits until it prints a text.
func (x *terminal) begin(want string, args ...string) *process {
	x.t.Helper()
	p := &process{t: x.t, name: strings.Join(args, " "), log: &daemon.Log{}, done: make(chan struct{})}
	p.cmd = x.command(context.Background(), "", args...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		x.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	x.t.Cleanup(func() {
		p.stop()
		if x.t.Failed() {
			x.t.Logf("%s:\n%s", p.name, p.log.Last(16<<10))
		}
	})
	p.logs(want)
	return p
}

// logs waits until the process has printed something.
func (p *process) logs(want string) {
	p.t.Helper()
	e2etest.Eventually(p.t, p.name, func() error {
		select {
		case <-p.done:
			p.t.Fatalf("%s has ended: %v\n%s", p.name, p.err, p.log.Last(16<<10))
		default:
		}
		if !strings.Contains(p.log.Last(128<<10), want) {
			return fmt.Errorf("it has not said %q", want)
		}
		return nil
	})
}

// stop interrupts the process, which must end gracefully. It can be called again.
func (p *process) stop() {
	p.t.Helper()
	stuck := time.AfterFunc(e2etest.Patience, func() { _ = p.cmd.Process.Kill() })
	defer stuck.Stop()
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	<-p.done
	if p.err != nil {
		p.t.Errorf("%s: %v\n%s", p.name, p.err, p.log.Last(4<<10))
	}
}

// file writes a file into the session's folder.
func (x *terminal) file(name, text string) {
	x.t.Helper()
	path := filepath.Join(x.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		x.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		x.t.Fatal(err)
	}
}

// take copies a folder of the tree to the same path in the session's folder.
func (x *terminal) take(folder string) {
	x.t.Helper()
	if err := os.CopyFS(filepath.Join(x.dir, folder), os.DirFS(filepath.Join(x.tree, folder))); err != nil {
		x.t.Fatal(err)
	}
}
