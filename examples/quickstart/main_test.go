// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/broker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// output collects the written text. It calls a function at the first line with mark.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	mark string
	then func()
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.then != nil && bytes.Contains(p, []byte(o.mark)) {
		o.then()
		o.then = nil
	}
	return o.text.Write(p)
}

// folder writes manifest files to a new folder and returns its path. Names and texts alternate.
func folder(t *testing.T, namesAndTexts ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(namesAndTexts); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, namesAndTexts[i]), []byte(namesAndTexts[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// expect checks that the patterns match the text, each after the previous match.
func expect(t *testing.T, text string, patterns ...string) {
	t.Helper()
	rest := text
	for _, p := range patterns {
		at := regexp.MustCompile("(?m)" + p).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("no %q where it should be in:\n%s", p, text)
		}
		rest = rest[at[1]:]
	}
}

func TestQuickstart(t *testing.T) {
	var stdout, stderr output
	if status := run(t.Context(), nil, &stdout, &stderr); status != 0 || stderr.text.Len() > 0 {
		t.Fatalf("exit status %d\n%s\n%s", status, stdout.text.String(), stderr.text.String())
	}
	text := stdout.text.String()
	expect(t, text,
		`^  broker     mqtt://127\.0\.0\.1:\d+ \(embedded in this process\)$`,
		`^  clusters   cluster1, cluster2: in memory \(nothing is installed anywhere\)$`,
		`^  manifests  10 objects in 6 files \(shipped`,
		`^Sending 6 works to 2 clusters$`,
		`  sent      00-namespace -> cluster1: 1 object$`,
		`  applied   00-namespace on cluster`,
		`  reported  00-namespace <- cluster\d after [\d.]+ m?s$`,
		`  status    40-web <- cluster\d: 2/2 ready$`,
		`^Updating 00-namespace on cluster1: an annotation on its Namespace "quickstart"$`,
		`  sent      00-namespace -> cluster1: update$`,
		`  reported  00-namespace <- cluster1 after`,
		`^Deleting 50-greeting on cluster1$`,
		`  gone      50-greeting <- cluster1 after`,
		`^Removing all works$`,
		`^Done\. 6 files for 2 clusters: 20 objects applied and reported, one work updated, one deleted, in `,
		`^Everything that it created was removed again\.$`,
	)
	for _, step := range []string{"applied", "reported", "removed", "gone"} {
		for _, work := range []string{"00-namespace", "10-greetings-crd", "20-access", "30-config", "40-web", "50-greeting"} {
			for _, cluster := range []string{"cluster1", "cluster2"} {
				expect(t, text, `  `+step+` +`+work+` (on|<-) `+cluster+`\b`)
			}
		}
	}
}

func TestQuickstartWithOwnFilesAndBroker(t *testing.T) {
	b, err := broker.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var stdout, stderr output
	dir := folder(t, "Only One.yml", configMap)
	if status := run(t.Context(), []string{"--manifests", dir, "--broker", b.URL(), "--clusters", "3"}, &stdout,
		&stderr); status != 0 {
		t.Fatalf("exit status %d\n%s\n%s", status, stdout.text.String(), stderr.text.String())
	}
	expect(t, stdout.text.String(),
		`^  broker     `+regexp.QuoteMeta(b.URL())+`$`,
		`^  manifests  1 object in 1 file \(from `+regexp.QuoteMeta(dir)+`\)$`,
		`^Sending 1 work to 3 clusters$`,
		`^Updating only-one on cluster1: an annotation on its ConfigMap "a"$`,
		`^Deleting only-one on cluster1$`,
		`^Done\. 1 file for 3 clusters: 3 objects`,
	)
}

func TestFailures(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, tt := range []struct {
		reason string
		args   []string
		status int
		want   []string
	}{
		{"bad YAML", []string{"--manifests", folder(t, "a.yaml", configMap+"---\nkind: [\n")}, 1,
			[]string{"a.yaml, document 2 (line 5)", "bad YAML"}},
		{"an unknown kind", []string{"--manifests",
			folder(t, "a.yaml", configMap+"---\napiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n")}, 1,
			[]string{`a.yaml, document 2 (line 5): unknown kind "Widget" in "example.com/v1"`}},
		{"an empty folder", []string{"--manifests", t.TempDir()}, 1,
			[]string{"manifests folder /", "the folder has no .yaml, .yml or .json files"}},
		{"no such folder", []string{"--manifests", missing}, 1,
			[]string{"manifests folder " + missing, "no such file or directory"}},
		{"nobody at the broker's address", []string{"--broker", "mqtt://127.0.0.1:1", "--broker-timeout", "1s"}, 1,
			[]string{"broker mqtt://127.0.0.1:1 not reached for 1s", "refused"}},
		{"no broker's address", []string{"--broker", "http://broker"}, 1, []string{"http"}},
		{"no such kubeconfig", []string{"--kubeconfig", missing}, 1, []string{"kubeconfig " + missing}},
		{"a namespace that never comes", []string{"--timeout", "3s", "--manifests",
			folder(t, "a.yaml", strings.Replace(configMap, "name: a", "name: a, namespace: nowhere", 1))}, 1,
			[]string{"no progress for 3 s: work a on cluster1 is not applied: a.yaml, document 1 (line 1)",
				`namespaces "nowhere" not found`}},
		{"an unknown argument", []string{"manifests"}, 2, []string{`unknown argument "manifests"`, "--help"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var stdout, stderr output
			if status := run(t.Context(), tt.args, &stdout, &stderr); status != tt.status {
				t.Errorf("exit status %d, want %d\n%s", status, tt.status, stdout.text.String())
			}
			for _, want := range append(tt.want, "quickstart: ") {
				if !strings.Contains(stderr.text.String(), want) {
					t.Errorf("%q lacks %q", stderr.text.String(), want)
				}
			}
		})
	}
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	var stderr output
	stdout := output{mark: "Updating", then: func() { cancel(errors.New("interrupt signal received")) }}
	if status := run(ctx, nil, &stdout, &stderr); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	expect(t, stderr.text.String(), "^quickstart: interrupt signal received$")
	expect(t, stdout.text.String(), `^Removing all works \(Ctrl-C again to stop at once\)$`,
		"removed   00-namespace on cluster2", "gone      00-namespace <- cluster2")
}

func TestBrokerLost(t *testing.T) {
	b, err := broker.Open("")
	if err != nil {
		t.Fatal(err)
	}
	var stderr output
	stdout := output{mark: "Sending", then: b.Close}
	if status := run(t.Context(), []string{"--broker", b.URL(), "--broker-timeout", "500ms"}, &stdout,
		&stderr); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	expect(t, stderr.text.String(), "^quickstart: broker "+regexp.QuoteMeta(b.URL())+" not reached for 500ms: ")
}

// TestBrokerLostWhileRemoving checks that the error names the lost broker and is reported soon,
// both after an interrupt and at the end of a run.
func TestBrokerLostWhileRemoving(t *testing.T) {
	for _, tt := range []struct {
		reason, mark string // the broker closes at the first line with mark
		interrupt    bool
		want         []string
	}{
		{"lost, then interrupted", "Updating", true,
			[]string{"^quickstart: interrupt signal received$", "^not everything was removed: "}},
		{"lost at the end of a run", "Removing all works", false, []string{"^quickstart: not everything was removed: "}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			b, err := broker.Open("")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var stderr output
			stdout := output{mark: tt.mark, then: func() {
				b.Close()
				if tt.interrupt {
					cancel(errors.New("interrupt signal received"))
				}
			}}
			begin := time.Now()
			if status := run(ctx, []string{"--broker", b.URL(), "--broker-timeout", "500ms"}, &stdout, &stderr); status != 1 {
				t.Errorf("exit status %d, want 1", status)
			}
			if took := time.Since(begin); took > 20*time.Second { // far less than --timeout
				t.Errorf("the run took %v", took)
			}
			tt.want[len(tt.want)-1] += "broker " + regexp.QuoteMeta(b.URL()) + " not reached for 500ms: "
			expect(t, stderr.text.String(), tt.want...)
			expect(t, stdout.text.String(), "^Removing all works")
		})
	}
}

func TestInterruptBeforeAnythingIsSent(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	var stderr output
	stdout := output{mark: "Spokewire quickstart", then: func() { cancel(errors.New("interrupt signal received")) }}
	if status := run(ctx, nil, &stdout, &stderr); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	expect(t, stderr.text.String(), "^quickstart: interrupt signal received$")
	if strings.Contains(stdout.text.String(), "Removing") {
		t.Errorf("nothing was sent, but:\n%s", stdout.text.String())
	}
}

// TestBrokerHangs checks that a connected but silent broker is reported after the keep-alive time.
func TestBrokerHangs(t *testing.T) {
	b, err := broker.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	proxy := newProxy(t, strings.TrimPrefix(b.URL(), "mqtt://"))
	defer proxy.Close()
	var stderr output
	stdout := output{mark: "Updating", then: proxy.hang}
	begin := time.Now()
	if status := run(t.Context(), []string{"--broker", "mqtt://" + proxy.Addr().String(), "--broker-timeout", "500ms"},
		&stdout, &stderr); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	if took := time.Since(begin); took > 25*time.Second {
		t.Errorf("the run took %v", took)
	}
	expect(t, stderr.text.String(), `^quickstart: broker mqtt://\S+ not reached for 500ms`)
}

// proxy forwards bytes to a broker until it hangs. Then it still accepts connections, but forwards
// nothing.
type proxy struct {
	net.Listener
	hung atomic.Bool
}

func newProxy(t *testing.T, broker string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", broker)
			if err != nil {
				_ = client.Close()
				return
			}
			go p.pass(client, server)
			go p.pass(server, client)
		}
	}()
	return p
}

func (p *proxy) hang() { p.hung.Store(true) }

// pass copies from one connection to the other, and closes both when one ends.
func (p *proxy) pass(from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if p.hung.Load() {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// full is a writer that returns errFull.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestOutputCannotBeWritten(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"--manifests", folder(t, "a.yaml", configMap)}} {
		var stderr output
		if status := run(t.Context(), args, full{}, &stderr); status != 1 {
			t.Errorf("%v: exit status %d, want 1", args, status)
		}
		expect(t, stderr.text.String(), "^quickstart: .*no space left on device$")
	}
}
