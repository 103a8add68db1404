// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// asProgram is the environment variable that makes the test binary run as the program. Servers and
// clients are then separate processes.
const asProgram = "RSYNC_EXAMPLE_IS_THE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

const patience = 2 * time.Minute

func program(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(ctx, self, args...)
	c.Env = append(os.Environ(), asProgram+"=yes")
	return c
}

// server is a server process.
type server struct {
	t      *testing.T
	cmd    *exec.Cmd
	addr   string
	stderr bytes.Buffer
	end    func()
}

func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{t: t, cmd: program(context.Background(), t, append([]string{"serve"}, args...)...)}
	log, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	copied := make(chan struct{})
	s.end = sync.OnceFunc(func() {
		<-copied
		if err := s.cmd.Wait(); err != nil && s.cmd.ProcessState.ExitCode() >= 0 {
			t.Errorf("serve: %v\n%s", err, s.stderr.String())
		}
	})
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		s.end()
	})
	buffered := bufio.NewReader(log)
	line, err := buffered.ReadString('\n')
	_, after, found := strings.Cut(line, `"Started serving an rsync engine" address=`)
	go func() {
		defer close(copied)
		_, _ = io.Copy(&s.stderr, buffered)
	}()
	if err != nil || !found {
		t.Fatalf("the server logged %q: %v", line, err)
	}
	s.addr, _, _ = strings.Cut(after, " ")
	return s
}

// signal sends a signal to the server and waits for its end.
func (s *server) signal(signal os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
	s.end()
}

// client runs a client to its end and returns its output.
func client(t *testing.T, status int, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := program(ctx, t, args...).CombinedOutput()
	if c := exitCode(err); c != status {
		t.Fatalf("%q ended with %d (%v), want %d:\n%s", args, c, err, status, out)
	}
	return string(out)
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := err.(*exec.ExitError); ok { //nolint:errorlint // what exec returns
		return e.ExitCode()
	}
	return -1
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, p := range parts {
		i := strings.Index(rest, p)
		if i < 0 {
			t.Fatalf("no %q where it should be in:\n%s", p, text)
		}
		rest = rest[i+len(p):]
	}
}

func manifests(t *testing.T, value string) string {
	t.Helper()
	dir := t.TempDir()
	for _, app := range []string{"db", "web"} {
		if err := os.Mkdir(filepath.Join(dir, app), 0o700); err != nil {
			t.Fatal(err)
		}
		text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + app + "}\ndata: {value: " + value + "}\n"
		if err := os.WriteFile(filepath.Join(dir, app, "app.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestPrograms checks the life of a context: clients control it, and servers are killed, restarted
// and stopped.
func TestPrograms(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store")
	s := startServer(t, "--listen", "127.0.0.1:0", "--store", file, "--fake", "2")
	at := func(command string, args ...string) []string {
		return append([]string{command, "--server", s.addr}, args...)
	}
	on := []string{"--cluster", "fake+cluster1", "--cluster", "fake+cluster2"}
	contains(t, client(t, 0, at("create", append(on, "one", manifests(t, "1"))...)...),
		"one: created with 2 apps on 2 clusters")
	contains(t, client(t, 0, at("create", append(on, "two", manifests(t, "2"))...)...), "two: created")
	contains(t, client(t, 1, at("create", append(on, "two", manifests(t, "2"))...)...),
		"rsync: app context \"two\" exists")
	contains(t, client(t, 0, at("diff", "one")...), "Instantiate of one: 4 to create, 0 to change",
		"fake+cluster1\n  db of one\n    + ConfigMap db")

	ctx, cancel := context.WithTimeout(t.Context(), 4*patience) // until the end of the test
	defer cancel()
	watch := program(ctx, t, at("status", "--watch", "two")...)
	var watched bytes.Buffer
	watch.Stdout, watch.Stderr = &watched, &watched
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	contains(t, client(t, 0, at("instantiate", "one")...), "one: Instantiated\n")
	contains(t, client(t, 0, at("status", "one")...), `"State": "Instantiated"`, `"event": "Instantiate"`, `"app": "db"`)

	// The store is complete, but the clusters in memory are new.
	s.signal(syscall.SIGKILL)
	s = startServer(t, "--listen", s.addr, "--store", file, "--fake", "2")
	contains(t, client(t, 0, at("list")...), "one Instantiated", "two Created")
	contains(t, client(t, 0, at("update", "one", "two")...), "two: Instantiated")
	contains(t, client(t, 1, at("delete", "two")...), "terminate it first")
	contains(t, client(t, 0, at("diff", "--terminate", "two")...), "Terminate of two", "4 to delete")
	contains(t, client(t, 1, at("detach", "--cluster", "fake+cluster3", "two")...), "has no app on cluster fake+cluster3")
	client(t, 0, at("detach", "--cluster", "fake+cluster2", "two")...)
	contains(t, client(t, 0, at("status", "two")...), `"Detached": [`, `"name": "cluster2"`)

	s.signal(syscall.SIGINT)
	s = startServer(t, "--listen", s.addr, "--store", file, "--fake", "2")
	contains(t, client(t, 0, at("terminate", "two")...), "two: Terminated")
	client(t, 0, at("delete", "two")...)
	contains(t, client(t, 1, at("status", "two")...), "rsync: app context \"two\": app context or event not found")
	_ = watch.Wait() // it may have missed changes: memory has no history after a restart
	contains(t, watched.String(), `"State":"Created"`)
}

// TestProgramsOverTLS checks that a server with a client CA accepts only clients with its
// certificates.
func TestProgramsOverTLS(t *testing.T) {
	dir := t.TempDir()
	ca := certtest.New(t)
	caFile := ca.Write(t, dir, "ca")
	cert, key := ca.Issue(t, "me").Write(t, dir, "me")
	s := startServer(t, "--listen", "127.0.0.1:0", "--store", filepath.Join(dir, "store"), "--cert", cert, "--key-file",
		key, "--client-ca", caFile)
	client(t, 0, "list", "--server", s.addr, "--ca", caFile, "--cert", cert, "--key-file", key)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	cert, key = certtest.New(t).Issue(t, "other").Write(t, dir, "other")
	if out, err := program(ctx, t, "list", "--server", s.addr, "--ca", caFile, "--cert", cert, "--key-file",
		key).CombinedOutput(); err == nil {
		t.Errorf("with a certificate of another CA: %s", out)
	}
}

// TestFailures checks the error message of each failure.
func TestFailures(t *testing.T) {
	closed := daemon.FreeAddr(t).String()
	cert, key := certtest.New(t).Issue(t, "me").Write(t, t.TempDir(), "me")
	for _, tt := range []struct {
		reason string
		args   []string
		status int
		want   string
	}{
		{"no command", nil, command.Misuse, "a command is required"},
		{"a store that is no file", []string{"serve", "--listen", closed, "--store", t.TempDir()}, command.Failed,
			"--store "},
		{"no etcd", []string{"serve", "--listen", closed, "--store", "etcd://" + closed}, command.Failed,
			"--store etcd://" + closed + ": "},
		{"no PostgreSQL", []string{"serve", "--listen", closed, "--store", "postgres://u:secret@" + closed + "/db"},
			command.Failed, `--store: open the store "default": PostgreSQL at ` + closed},
		{"the other scheme", []string{"serve", "--listen", closed, "--store",
			"postgresql://u@" + closed + "/db?password=secret"},
			command.Failed, `--store: open the store "default": PostgreSQL at ` + closed},
		{"a watch without a server", []string{"status", "--server", closed, "--watch", "x"}, command.Failed,
			"the rsync server does not answer"},
		{"no CA", []string{"list", "--ca", "/nowhere", "--cert", cert, "--key-file", key}, command.Misuse, "no such file"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Chdir(t.TempDir())
			var stdout, stderr strings.Builder
			if status := run(t.Context(), tt.args, &stdout, &stderr); status != tt.status ||
				!strings.Contains(stderr.String(), tt.want) || strings.Contains(stderr.String(), "secret") ||
				stdout.Len() > 0 {
				t.Errorf("%d, %q, %q; want %d, %q", status, stdout.String(), stderr.String(), tt.status, tt.want)
			}
		})
	}
}

// TestMisuse checks the answers to wrong files and addresses.
func TestMisuse(t *testing.T) {
	commandtest.Misuse(t, "rsync", run, map[string]string{
		"serve --broker here":                          `--broker "here" has no scheme`,
		"serve --broker mqtt://me:s3cr3t@here":         "--broker contains user or password: use --username and --password-file",
		"serve --broker mqtts://b --broker-ca text":    "--broker-ca text contains no certificate in PEM",
		"serve --broker-ca text":                       "--broker is empty",
		"serve --kubeconfig-dir /nope":                 "--kubeconfig-dir: open /nope: no such file",
		"serve --git ftp://host/fleet.git":             "--git: ",
		"serve --client-ca text --cert x --key-file y": "--client-ca text contains no certificate in PEM",
		"list --ca /nope --cert x --key-file y":        "--ca: open /nope: no such file",
		"create --cluster a+b shop /nope":              "DIR: open /nope: no such file",
		"create --cluster a+b shop text":               "DIR: open text: not a directory",
	})
}

func TestUsage(t *testing.T) {
	commandtest.Usage(t, usage(), "listen", "store", "fake", "kubeconfig-dir", "git", "broker", "broker-ca", "broker-cert",
		"broker-key", "username", "password-file", "client-ca", "server",
		"ca", "cluster", "watch", "terminate", "cert", "key-file", "log-format")
	commandtest.Refuses(t, parse, map[string]string{
		"":                         "unknown command",
		"go":                       `unknown command "go"`,
		"--log-format list":        "--log-format",
		"list a":                   `list needs no arguments, and has ["a"]`,
		"update a":                 `update needs FROM TO, and has ["a"]`,
		"status a --watch":         "flags come before arguments",
		"status --terminate a":     "--terminate",
		"serve --listen :9031":     "is no loopback address",
		"serve --listen 0.0.0.0:1": "is no loopback address",
		"list --server h:1":        "is no loopback address",
		"serve --listen here":      "must be host:port",
		"serve --cert f":           "must be given together",
		"serve --client-ca f":      "must be given together",
		"list --ca f":              "must be given together",
		"serve --store=":           "--store must not be empty",
		"serve --fake 0":           "--fake must be from 1 to 10000",
		"serve --fake many":        "--fake",
		"serve --server h:1":       "--server",
		"create a .":               "create needs --cluster",
		"create --cluster c1 a .":  "provider+name",
		"create --cluster p+ a .":  "provider+name",
		"detach --cluster +c a":    "provider+name",
		"delete --store f a":       "--store",
	})
}
