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

// documented returns the arguments of the commands in the documentation of examples/rsync that
// bring an app to real clusters, with some words replaced. The commands of the engine and of the
// agent are first, then the others.
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

// program is a program that is killed and started again. Its methods are safe for concurrent use.
type program struct {
	t      *testing.T
	folder string // its working directory
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

// String returns the current content.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// startProgram starts a program in a folder. The first line of its output has its address. The
// program must end gracefully, without a data race or a panic.
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

// start is called with mu held, or before other goroutines can use the program.
func (p *program) start() (first string) {
	cmd := exec.Command(p.binary, p.args...)
	cmd.Dir, cmd.Stdout = p.folder, &p.output
	out, err := cmd.StderrPipe()
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
	for address := false; !address && err == nil; {
		var line string
		line, err = lines.ReadString('\n')
		_, first, address = strings.Cut(line, `msg="Started serving`)
		_, _ = p.output.Write([]byte(line))
	}
	if err != nil {
		p.t.Errorf("%s ended before it served: %v", p.binary, err)
	}
	_, first, _ = strings.Cut(first, "address=")
	first, _, _ = strings.Cut(first, " ")
	go func() { _, _ = io.Copy(&p.output, lines) }() // until the program ends
	return first
}

// restart kills the program and starts it again, like an orchestrator after the loss of a machine.
func (p *program) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	_ = p.cmd.Wait() // killed, which is an error
	p.start()
}

// interrupt ends the program gracefully. It can be called twice.
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

// gate is a proxy for requests to a server. A trap can make a request the last one of the process
// that sent it.
type gate struct {
	next http.Handler

	mu    sync.Mutex
	traps []*trap
}

// trap runs a function once, at a matching request.
type trap struct {
	name  string
	match func(*http.Request) bool
	when  when
	do    func()
	fired bool
}

// when defines what happens to the request at which a process is killed.
type when int

const (
	unsent     when = iota // the request does not reach the server
	unanswered             // the request is executed, and its response is lost
	beside                 // another process sent the request, which is executed and answered
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

// sprung fails the test if a trap was not used.
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

// creation matches the n-th creation of an object from now on.
func creation(n int) func(*http.Request) bool {
	return func(r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/configmaps") {
			n--
			return n == 0
		}
		return false
	}
}

// request matches a request that changes or deletes an object.
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

// apiGate serves an API server for clients without credentials. It returns the gate and its
// address, host:port.
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

// writeKubeconfig writes a kubeconfig for a server without authentication.
func writeKubeconfig(t *testing.T, file, addr string) {
	t.Helper()
	text := fmt.Sprintf(
		`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "http://%s"}}], contexts: [{name: c, context: {cluster: c}}]}`, addr)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
