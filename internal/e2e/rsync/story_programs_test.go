// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// sdk returns the root of the SDK's sources.
func sdk() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/spokewire/sdk-go").Output()
	return strings.TrimSpace(string(root)), err
}

// documented returns the arguments of the commands by which the documentation of examples/rsync brings an app to real clusters, with some words
// replaced: first those of the engine and of the agent, then the others.
func documented(t *testing.T, replace map[string]string) (engine, agent []string, others [][]string) {
	t.Helper()
	root, err := sdk()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "examples", "rsync", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 5 || !strings.HasPrefix(line, "//\tgo run ./examples/") {
			continue
		}
		args := words[4:]
		for i, word := range args {
			if other, ok := replace[word]; ok {
				args[i] = other
			}
		}
		switch {
		case args[0] == "serve" && slices.Contains(args, "--broker"):
			engine = args
		case words[3] == "./examples/agent":
			agent = args
		case engine != nil:
			others = append(others, args)
		}
	}
	if engine == nil || agent == nil || len(others) == 0 {
		t.Fatalf("examples/rsync documents %v, %v, %v", engine, agent, others)
	}
	return engine, agent, others
}

// program is one that is killed and started again. Its methods may be called from any goroutine.
type program struct {
	t      *testing.T
	folder string // in which it runs
	binary string
	args   []string

	mu     sync.Mutex
	cmd    *exec.Cmd
	starts int

	output lockedBuffer
}

// lockedBuffer is the output of all runs of a program.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what there is.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// startProgram starts one, which says in its first line where it serves. That must end in good order, and without a data race.
// It runs in a folder.
func startProgram(t *testing.T, folder, binary string, args ...string) (p *program, first string) {
	t.Helper()
	p = &program{t: t, folder: folder, binary: binary, args: args}
	first = p.start()
	t.Cleanup(func() {
		p.interrupt()
		text := p.output.String()
		if strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic: ") {
			t.Errorf("%s has a data race, or a panic", filepath.Base(binary))
		}
		if t.Failed() {
			t.Logf("what %s said in %d runs:\n%s", filepath.Base(binary), p.starts, text)
		}
	})
	return p, first
}

// start is called with mu held, or before anybody else knows of the program.
func (p *program) start() (first string) {
	cmd := exec.Command(p.binary, p.args...)
	cmd.Dir, cmd.Stderr = p.folder, &p.output
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Errorf("%s: %v", p.binary, err)
		return ""
	}
	p.cmd = cmd
	p.starts++
	lines := bufio.NewReader(out)
	if first, err = lines.ReadString('\n'); err != nil {
		p.t.Errorf("%s ended before it served: %v", p.binary, err)
	}
	go func() { _, _ = io.Copy(&p.output, lines) }() // until the program ends
	return strings.TrimSpace(first)
}

// restart kills the program and starts it again: what an orchestrator does when a machine is lost.
func (p *program) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	_ = p.cmd.Wait() // killed, which is an error
	p.start()
}

// interrupt ends the program in good order. It can be called twice.
func (p *program) interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.cmd.ProcessState != nil {
		return
	}
	stuck := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer stuck.Stop()
	_ = p.cmd.Process.Signal(os.Interrupt)
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("%s: %v", p.binary, err)
	}
}

// gate is what requests to a server pass through, where one of them can be the last of the process that sent it.
type gate struct {
	next http.Handler

	mu    sync.Mutex
	traps []*trap
}

// trap is a request at which something happens, once.
type trap struct {
	name  string
	match func(*http.Request) bool
	when  when
	do    func()
	fired bool
}

// when says what becomes of the request at which a process is killed.
type when int

const (
	unsent     when = iota // it does not get to the server
	unanswered             // it is done, and its answer is lost
	beside                 // it is of another process, and is done and answered
)

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hit := g.hit(r)
	switch {
	case hit == nil:
		g.next.ServeHTTP(w, r)
		return
	case hit.when == unanswered:
		g.next.ServeHTTP(httptest.NewRecorder(), r)
	}
	hit.do()
	if hit.when == beside {
		g.next.ServeHTTP(w, r)
		return
	}
	panic(http.ErrAbortHandler)
}

func (g *gate) hit(r *http.Request) *trap {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.traps {
		if !t.fired && t.match(r) {
			t.fired = true
			return t
		}
	}
	return nil
}

// set adds a trap.
func (g *gate) set(name string, when when, match func(*http.Request) bool, do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.traps = append(g.traps, &trap{name: name, when: when, match: match, do: do})
}

// sprung fails the test where something did not happen.
func (g *gate) sprung(t *testing.T) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range g.traps {
		if !one.fired {
			t.Errorf("nobody was killed at %s", one.name)
		}
	}
	g.traps = nil
}

// creation matches the n-th that makes an object from now on.
func creation(n int) func(*http.Request) bool {
	return func(r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/configmaps") {
			n--
			return n == 0
		}
		return false
	}
}

// request matches one that changes or deletes an object.
func request(method, name string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == method && strings.HasSuffix(r.URL.Path, "/configmaps/"+name)
	}
}

// push matches the n-th push from now on.
func push(n int) func(*http.Request) bool {
	return func(r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			n--
			return n == 0
		}
		return false
	}
}

// apiGate is the way to an API server for those who have no credentials: it returns its address, host:port.
func apiGate(t *testing.T, config *rest.Config) (*gate, string) {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	way := httputil.NewSingleHostReverseProxy(target)
	way.Transport = transport
	way.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	g := &gate{next: way}
	server := httptest.NewServer(g)
	t.Cleanup(func() {
		server.CloseClientConnections() // watches do not end by themselves
		server.Close()
	})
	return g, server.Listener.Addr().String()
}

// writeKubeconfig makes one for a server that asks for nothing.
func writeKubeconfig(t *testing.T, file, addr string) {
	t.Helper()
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "http://%s"}}], contexts: [{name: c, context: {cluster: c}}]}`, addr)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
