// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"fmt"
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

	"k8s.io/client-go/rest"
)

// agentProcess is examples/quickstart/work-agent as a process. What it wants of the cluster passes through here, where it
// can be killed at any of its writes.
type agentProcess struct {
	t          *testing.T // of the whole test
	binary     string
	args       []string
	kubeconfig string
	api        http.Handler

	mu       sync.Mutex
	killAt   int // the write, counted down to 0, at which it is killed; 0: none
	executed bool
	killed   bool
	cmd      *exec.Cmd
	exited   chan struct{}
	output   bytes.Buffer
}

// buildExample builds a program of the examples, with the race detector if the test has it.
func buildExample(t *testing.T, pkg string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), filepath.Base(pkg))
	build := exec.CommandContext(t.Context(), "go", "build", "-race", "-o", binary, pkg)
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// newAgentProcess does not start it.
func newAgentProcess(t *testing.T, binary string, config *rest.Config, broker, cluster string) *agentProcess {
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
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	a := &agentProcess{t: t, binary: binary, api: proxy}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c}}]}`, server.URL)
	if err := os.WriteFile(a.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a.args = []string{"--broker", broker, "--source", "hub", "--cluster", cluster, "--kubeconfig", a.kubeconfig}
	t.Cleanup(a.stop)
	return a
}

// ServeHTTP passes a request on, unless it is the one at which the process is killed: then before it, or after it was
// executed and before it was answered.
func (a *agentProcess) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	due := false
	if r.Method != http.MethodGet && a.killAt > 0 {
		a.killAt--
		due = a.killAt == 0
	}
	executed := a.executed
	a.mu.Unlock()
	if !due {
		a.api.ServeHTTP(w, r)
		return
	}
	if executed {
		a.api.ServeHTTP(httptest.NewRecorder(), r)
	}
	a.mu.Lock()
	a.killed = true
	_ = a.cmd.Process.Kill()
	exited := a.exited
	a.mu.Unlock()
	<-exited
	panic(http.ErrAbortHandler)
}

// arm has the process killed at the n-th write from now on, after that was executed or before.
func (a *agentProcess) arm(n int, executed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.killAt, a.executed, a.killed = n, executed, false
}

// disarm reports whether the process was killed.
func (a *agentProcess) disarm() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.killAt = 0
	return a.killed
}

// run starts the process if it is not there, as whatever runs agents does.
func (a *agentProcess) run() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.exited != nil {
		select {
		case <-a.exited:
		default:
			return
		}
	}
	cmd := exec.Command(a.binary, a.args...)
	cmd.Stdout, cmd.Stderr = &lockedWriter{a}, &lockedWriter{a}
	exited := make(chan struct{})
	a.cmd, a.exited = cmd, exited
	if err := cmd.Start(); err != nil {
		a.t.Error(err)
		close(exited)
		return
	}
	go func() {
		defer close(exited)
		_ = cmd.Wait() // most are killed
	}()
}

// stop ends the process in good order and shows what it had to say if the test has failed.
func (a *agentProcess) stop() {
	a.mu.Lock()
	cmd, exited := a.cmd, a.exited
	a.mu.Unlock()
	if cmd == nil || cmd.Process == nil {
		return
	}
	_ = cmd.Process.Signal(os.Interrupt)
	<-exited
	a.mu.Lock()
	defer a.mu.Unlock()
	text := a.output.String()
	if strings.Contains(text, "DATA RACE") {
		a.t.Error("the agent has a data race")
	}
	if a.t.Failed() {
		a.t.Logf("the agent of %s:\n%s", a.args[5], text)
	}
}

// lockedWriter is the output of all the processes, one after the other.
type lockedWriter struct{ *agentProcess }

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.output.Write(p)
}
