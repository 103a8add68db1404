// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
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
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// process is the agent as a process. Its requests to the managed cluster pass through a proxy here,
// which can kill it at any of its writes.
type process struct {
	t      *testing.T // of the whole test
	binary string
	args   []string
	api    http.Handler

	mu       sync.Mutex
	killAt   int // the write, counted down to 0, that kills it; 0: no write
	executed bool
	killed   bool
	writes   int
	reads    int                 // all reads except watches
	before   func(*http.Request) // called with each request before it is forwarded
	cmd      *exec.Cmd
	exited   chan struct{}
	output   bytes.Buffer
}

// throughProxy is the kubeconfig of an API server behind the proxy, which counts its writes too.
const throughProxy = "<through the proxy>"

// newProcess returns a process that is not started.
func newProcess(t *testing.T, config *rest.Config, args ...string) *process {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
	proxy.FlushInterval = -1 // watches
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	p := &process{t: t, binary: e2etest.Program(t, "agent", true), api: proxy}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(
		`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range args {
		if args[i] == throughProxy {
			args[i] = kubeconfig
		}
	}
	p.args = append(args, "--kubeconfig", kubeconfig)
	t.Cleanup(p.stop)
	return p
}

// ServeHTTP forwards a request. At the write that kills the process, it kills before the request is
// forwarded, or after it is executed and before the response.
func (p *process) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	due, before := false, p.before
	if r.Method == http.MethodGet && r.URL.Query().Get("watch") == "" {
		p.reads++
	}
	if r.Method != http.MethodGet {
		p.writes++
		if p.killAt > 0 {
			p.killAt--
			due = p.killAt == 0
		}
	}
	executed := p.executed
	p.mu.Unlock()
	if before != nil {
		before(r)
	}
	if !due {
		p.api.ServeHTTP(w, r)
		return
	}
	if executed {
		p.api.ServeHTTP(httptest.NewRecorder(), r)
	}
	p.mu.Lock()
	p.killed = true
	_ = p.cmd.Process.Kill()
	exited := p.exited
	p.mu.Unlock()
	<-exited
	panic(http.ErrAbortHandler)
}

// arm kills the process at the n-th write from now on, before or after the execution.
func (p *process) arm(n int, executed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killAt, p.executed, p.killed = n, executed, false
}

// disarm reports whether the process was killed.
func (p *process) disarm() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killAt = 0
	return p.killed
}

// written returns the number of writes that the process has sent to the cluster.
func (p *process) written() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

// requests returns the number of requests that the process has sent, without watches.
func (p *process) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reads + p.writes
}

// observe calls before with each request before it is forwarded; nil ends the calls.
func (p *process) observe(before func(*http.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = before
}

// run starts the process if it is not running, as a supervisor of agents does.
func (p *process) run() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exited != nil {
		select {
		case <-p.exited:
		default:
			return
		}
	}
	cmd := exec.Command(p.binary, p.args...)
	cmd.Stdout, cmd.Stderr = &lockedWriter{p}, &lockedWriter{p}
	exited := make(chan struct{})
	p.cmd, p.exited = cmd, exited
	if err := cmd.Start(); err != nil {
		p.t.Error(err)
		close(exited)
		return
	}
	go func() {
		defer close(exited)
		_ = cmd.Wait() // many are killed
	}()
}

// kill ends the process immediately.
func (p *process) kill() {
	p.mu.Lock()
	_ = p.cmd.Process.Kill()
	exited := p.exited
	p.mu.Unlock()
	<-exited
}

// stop ends the process gracefully, and shows its output if the test has failed.
func (p *process) stop() {
	p.mu.Lock()
	cmd, exited := p.cmd, p.exited
	p.mu.Unlock()
	if cmd == nil || cmd.Process == nil {
		return
	}
	_ = cmd.Process.Signal(os.Interrupt)
	<-exited
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.output.String()
	if strings.Contains(text, "DATA RACE") {
		p.t.Error("the agent has a data race")
	}
	if p.t.Failed() {
		p.t.Logf("the agent %v:\n%.20000s", p.args, text)
	}
}

// log returns the output, with the quotes of values as in the program. The caller holds mu.
func (p *process) log() string { return strings.ReplaceAll(p.output.String(), `\"`, `"`) }

// lockedWriter collects the output of all processes, one after the other.
type lockedWriter struct{ *process }

func (w *lockedWriter) Write(content []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.output.Write(content)
}

// fetch requests a path from the newest process.
func (p *process) fetch(path string) (status int, body string, err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	p.mu.Lock()
	lines := strings.Split(p.output.String(), `msg="Started listening" `)
	p.mu.Unlock()
	_, addr, _ := strings.Cut(lines[len(lines)-1], "address=")
	addr, _, _ = strings.Cut(addr, "\n")
	response, err := client.Get("http://" + addr + path)
	if err != nil {
		return 0, "", err
	}
	content, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	return response.StatusCode, string(content), err
}
