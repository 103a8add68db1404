// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
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
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector"
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

const patience = 30 * time.Second

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
	s.cmd.Stderr = &s.stderr
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.end = sync.OnceFunc(func() {
		if err := s.cmd.Wait(); err != nil && s.cmd.ProcessState.ExitCode() >= 0 {
			t.Errorf("serve: %v\n%s", err, s.stderr.String())
		}
	})
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		s.end()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the server said %q: %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	s.addr = strings.TrimSpace(strings.TrimPrefix(line, "serving at "))
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

// call runs a client to its end and returns its output.
func call(t *testing.T, status int, args ...string) string {
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

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
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
	contains(t, call(t, 0, at("create", append(on, "one", manifests(t, "1"))...)...),
		"one: created with 2 apps on 2 clusters")
	contains(t, call(t, 0, at("create", append(on, "two", manifests(t, "2"))...)...), "two: created")
	contains(t, call(t, 1, at("create", append(on, "two", manifests(t, "2"))...)...), "rsync: app context \"two\" exists")

	ctx, cancel := context.WithTimeout(t.Context(), 4*patience) // until the end of the test
	defer cancel()
	watch := program(ctx, t, at("status", "--watch", "one")...)
	watchedFile := filepath.Join(t.TempDir(), "watched")
	watched, err := os.Create(watchedFile)
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Close()
	watch.Stdout, watch.Stderr = watched, watched
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(read(t, watchedFile), "one: Created") {
		if ctx.Err() != nil {
			t.Fatalf("the watch says %q", read(t, watchedFile))
		}
		time.Sleep(10 * time.Millisecond)
	}
	contains(t, call(t, 0, at("instantiate", "one")...), "one: queued as event 1\n", "one: Instantiated\n",
		"event 1 Instantiate Done", "web on fake+cluster2 Instantiate Done")
	contains(t, call(t, 0, at("read", "one")...), "event 2", "db on fake+cluster1 Read Done", "ConfigMap db: ready")

	// The server is killed during a watch. The store is complete, but the clusters in memory are
	// new.
	s.signal(syscall.SIGKILL)
	s = startServer(t, "--listen", s.addr, "--store", file, "--fake", "2")
	contains(t, call(t, 0, at("list")...), "one", "Instantiated", "two", "Created")
	contains(t, call(t, 0, at("update", "one", "two")...), "two: queued as event 1", "two: Instantiated",
		"event 1 Update (with one) Done")
	contains(t, call(t, 0, at("rollback", "two", "one")...), "one: queued as event", "one: Instantiated")
	contains(t, call(t, 0, at("stop", "one")...), "one: stopped")
	contains(t, call(t, 1, at("terminate", "one")...), "rsync: app context \"one\": the app context is stopped")
	contains(t, call(t, 0, at("status", "one")...), "one: Instantiated, stopped")
	contains(t, call(t, 0, at("clear-stop", "one")...), "no longer stopped")
	contains(t, call(t, 1, at("delete", "one")...), "terminate it first")
	contains(t, call(t, 0, at("terminate", "--no-wait", "--key", "k", "one")...), "one: queued as event")

	s.signal(syscall.SIGINT)
	s = startServer(t, "--listen", s.addr, "--store", file, "--fake", "2")
	contains(t, call(t, 0, at("terminate", "--key", "k", "one")...), "one: Terminated")
	contains(t, call(t, 0, at("delete", "one")...), "one: deleted")
	if err := watch.Wait(); err != nil {
		t.Errorf("%v\n%s", err, read(t, watchedFile))
	}
	contains(t, read(t, watchedFile), "Created", "Instantiating", "Instantiated", "event 2 Read Done",
		"no longer available", "one: deleted")
	contains(t, call(t, 1, at("status", "one")...), "rsync: app context \"one\": app context or event not found")
}

// TestRollout checks that a user can start, watch and control a rollout from the command line.
func TestRollout(t *testing.T) {
	s := startServer(t, "--listen", "127.0.0.1:0", "--store", filepath.Join(t.TempDir(), "store"), "--fake", "3")
	at := func(command string, args ...string) []string {
		return append([]string{command, "--server", s.addr}, args...)
	}
	file := filepath.Join(t.TempDir(), "rollout.yaml")
	text := "groups: [{name: canary, clusters: [fake+cluster2], approveAfter: true}]\nmaxConcurrency: 50%\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	on := []string{"--cluster", "fake+cluster1", "--cluster", "fake+cluster2", "--cluster", "fake+cluster3"}
	call(t, 0, at("create", append(on, "one", manifests(t, "1"))...)...)
	contains(t, call(t, 1, at("rollout", "one")...), "one has no rollout: start one with --rollout FILE")
	contains(t, call(t, 1, at("instantiate", "--rollout", "/nowhere", "one")...), "rsync: --rollout: open /nowhere")
	contains(t, call(t, 0, at("instantiate", "--no-wait", "--rollout", file, "one")...), "queued as event 1")

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	watch := program(ctx, t, at("status", "--watch", "one")...)
	stdout, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	until := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("the watch has ended without %q", want)
	}
	until("web on fake+cluster2 Instantiate Done")
	contains(t, call(t, 0, at("pause", "one")...), "rollout of event 1: InProgress", "canary: 1 of 1 succeeded",
		"clusters in no group: 0 of 2")
	until("rollout of event 1")
	call(t, 0, at("approve", "--after", "one", "canary")...)
	contains(t, call(t, 0, at("rollout", "one")...), "the rollout is paused")
	call(t, 0, at("resume", "one")...)
	until("one: Instantiated")
	contains(t, call(t, 1, at("abort", "one")...), "event 1 of app context \"one\" is Done")
	cancel()
	_ = watch.Wait()
	// The commands control the rollout in progress, not the next one.
	for range 2 {
		call(t, 0, at("instantiate", "--no-wait", "--rollout", file, "one")...)
	}
	contains(t, call(t, 0, at("pause", "one")...), "rollout of event 2")
	contains(t, call(t, 0, at("abort", "one")...), "rollout of event 2")
}

// TestRolloutWatch checks that rollout --watch ends with the rollout, and that its exit status
// reports the result of the event.
func TestRolloutWatch(t *testing.T) {
	s := startServer(t, "--listen", "127.0.0.1:0", "--store", filepath.Join(t.TempDir(), "store"), "--fake", "3")
	at := func(command string, args ...string) []string {
		return append([]string{command, "--server", s.addr}, args...)
	}
	file := filepath.Join(t.TempDir(), "rollout.yaml")
	text := "groups: [{name: canary, clusters: [fake+cluster2], approveBefore: true}]\nmaxConcurrency: 1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	on := []string{"--cluster", "fake+cluster1", "--cluster", "fake+cluster2", "--cluster", "fake+cluster3"}
	for _, end := range []struct {
		id, command, last string
		args              []string
		status            int
	}{{"one", "approve", "rollout of event 1: Done", []string{"canary"}, 0}, {"two", "abort", "Error, Aborted", nil, 1}} {
		t.Run(end.id, func(t *testing.T) {
			call(t, 0, at("create", append(on, end.id, manifests(t, end.id))...)...)
			call(t, 0, at("instantiate", "--no-wait", "--rollout", file, end.id)...)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			watch := program(ctx, t, at("rollout", "--watch", end.id)...)
			var out, stderr bytes.Buffer
			stdout, err := watch.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			watch.Stderr = &stderr
			if err := watch.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(stdout)
			for !strings.Contains(out.String(), "approval") {
				line, err := lines.ReadString('\n')
				if err != nil {
					t.Fatalf("the watch has ended: %v\n%s", err, out.String())
				}
				out.WriteString(line)
			}
			call(t, 0, at(end.command, append([]string{end.id}, end.args...)...)...)
			if _, err := out.ReadFrom(lines); err != nil {
				t.Fatal(err)
			}
			c := exitCode(watch.Wait())
			if text := out.String() + stderr.String(); c != end.status || !strings.Contains(text, end.last) {
				t.Errorf("the watch ended with %d, want %d and %q:\n%s", c, end.status, end.last, text)
			}
		})
	}
}

// TestDiffAndDetach checks that a user can preview the changes of an event, and can continue
// without a cluster.
func TestDiffAndDetach(t *testing.T) {
	s := startServer(t, "--listen", "127.0.0.1:0", "--store", filepath.Join(t.TempDir(), "store"), "--fake", "2")
	at := func(command string, args ...string) []string {
		return append([]string{command, "--server", s.addr}, args...)
	}
	on := []string{"--cluster", "fake+cluster1", "--cluster", "fake+cluster2"}
	call(t, 0, at("create", append(on, "one", manifests(t, "1"))...)...)
	call(t, 0, at("create", append(on, "two", manifests(t, "2"))...)...)
	contains(t, call(t, 0, at("diff", "one")...), "Instantiate of one: 4 to create, 0 to change",
		"fake+cluster1\n  db of one\n    + ConfigMap db")
	call(t, 0, at("instantiate", "one")...)
	contains(t, call(t, 0, at("diff", "--from", "one", "two")...), "Update of two from one: 0 to create, 4 to change",
		"~ ConfigMap db\n", ".value: 1 -> 2")
	contains(t, call(t, 1, at("diff", "--from", "two", "one")...), "rsync: ", "two")
	var d rsync.Diff
	if err := json.Unmarshal([]byte(call(t, 0, at("diff", "--terminate", "-o", "json", "one")...)), &d); err != nil ||
		d.Event != rsync.Terminate || d.Count(connector.ChangeKindDelete) != 4 {
		t.Errorf("the data is %+v: %v", d, err)
	}
	contains(t, call(t, 1, at("detach", "one", "fake+cluster3")...), "has no app on cluster fake+cluster3")
	contains(t, call(t, 0, at("detach", "one", "fake+cluster2")...), "one: detached from fake+cluster2")
	contains(t, call(t, 0, at("status", "one")...), "one: Instantiated\n  fake+cluster2 is detached")
	contains(t, call(t, 0, at("forget", "fake+cluster2")...), "fake+cluster2: forgotten")
	call(t, 0, at("detached")...) // the cluster responds, so its objects may be deleted already
	contains(t, call(t, 0, at("attach", "one", "fake+cluster2")...), "one: attached to fake+cluster2")
	if out := call(t, 0, at("status", "one")...); strings.Contains(out, "detached") {
		t.Error(out)
	}
}

// TestOverride checks that an override changes an object on its cluster, and that a context with an
// invalid override is not created.
func TestOverride(t *testing.T) {
	s := startServer(t, "--listen", "127.0.0.1:0", "--store", filepath.Join(t.TempDir(), "store"), "--fake", "2")
	at := func(command string, args ...string) []string {
		return append([]string{command, "--server", s.addr}, args...)
	}
	file := filepath.Join(t.TempDir(), "overrides.yaml")
	create := func(status int, id, patch string) string {
		t.Helper()
		text := "overrides:\n- target: {kind: ConfigMap, name: web}\n  clusters: [fake+cluster2]\n  patch: " + patch + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return call(t, status, at("create", "--cluster", "fake+cluster1", "--cluster", "fake+cluster2",
			"--override", file, id, manifests(t, "1"))...)
	}
	contains(t, create(1, "two", "[{op: test, path: /data/value, value: 2}]"), "rsync: --override "+file+": ",
		"cluster \"fake+cluster2\", ConfigMap web: overrides[0].patch: JSON patch: testing value /data/value failed")
	contains(t, create(1, "two", "[{op: replace, path: /kind, value: Secret}]"), "--override "+file+": ",
		"cluster \"fake+cluster2\", ConfigMap web: it changes kind")
	contains(t, create(1, "two", "{"), "--override "+file+": ")
	contains(t, call(t, 1, at("status", "two")...), "app context or event not found")
	contains(t, call(t, 1, at("create", "--cluster", "a+b", "--override", "/nowhere", "two", ".")...),
		"--override: open /nowhere: no such file")
	call(t, 0, at("create", "--cluster", "fake+cluster1", "--cluster", "fake+cluster2", "one", manifests(t, "1"))...)
	call(t, 0, at("instantiate", "one")...)
	contains(t, create(0, "two", `[{op: replace, path: /data/value, value: "5"}]`), "two: created")
	contains(t, call(t, 0, at("diff", "--from", "one", "two")...), "0 to create, 1 to change",
		"fake+cluster2\n", "~ ConfigMap web\n", `.data.value: 1 -> "5"`)
}

// TestObserve checks that status shows the state that the engine has observed since the last event.
func TestObserve(t *testing.T) {
	s := startServer(t, "--listen", "127.0.0.1:0", "--store", filepath.Join(t.TempDir(), "store"), "--fake", "1",
		"--observe", "drift")
	call(t, 0, "create", "--server", s.addr, "--cluster", "fake+cluster1", "one", manifests(t, "1"))
	call(t, 0, "instantiate", "--server", s.addr, "one")
	const want = "  db on fake+cluster1 observed: 1 of 1 ready\n"
	for began := time.Now(); ; {
		out := call(t, 0, "status", "--server", s.addr, "one")
		if strings.Contains(out, want) {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("want %q in %s", want, out)
		}
	}
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
	call(t, 0, "list", "--server", s.addr, "--ca", caFile, "--cert", cert, "--key-file", key)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if out, err := program(ctx, t, "list", "--server", s.addr, "--ca", caFile).CombinedOutput(); err == nil {
		t.Errorf("without a certificate: %s", out)
	}
}

// TestFailures checks the error message of each failure.
func TestFailures(t *testing.T) {
	closed := closedPort(t)
	for _, tt := range []struct {
		reason string
		args   []string
		status int
		want   string
	}{
		{"no command", nil, command.Misuse, "a command is required"},
		{"a store that is no file", []string{"serve", "--listen", closed, "--store", t.TempDir()}, command.Failed,
			"is a directory"},
		{"no etcd", []string{"serve", "--listen", closed, "--etcd", closed}, command.Failed, "--etcd " + closed + ": "},
		{"too many clusters", []string{"serve", "--listen", closed, "--fake", "many"}, command.Failed,
			`--fake: "many": must be a number`},
		{"a watch without a server", []string{"status", "--server", closed, "--watch", "x"}, command.Failed,
			"the rsync server does not answer"},
		{"no folder", []string{"create", "--cluster", "a+b", "x", "/nowhere"}, command.Failed, "/nowhere: "},
		{"no CA", []string{"list", "--ca", "/nowhere"}, command.Failed, "no such file"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var stdout, stderr strings.Builder
			if status := run(t.Context(), tt.args, &stdout, &stderr); status != tt.status ||
				!strings.Contains(stderr.String(), tt.want) || stdout.Len() > 0 {
				t.Errorf("%d, %q, %q; want %d, %q", status, stdout.String(), stderr.String(), tt.status, tt.want)
			}
		})
	}
}

func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
