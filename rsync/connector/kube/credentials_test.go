// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/kube"
)

// withProgram returns a configuration of a server that runs a program to get credentials.
func withProgram(a *api, script string) *rest.Config {
	config := a.config()
	config.Insecure = true
	config.ExecProvider = &clientcmdapi.ExecConfig{
		Command: "/bin/sh", Args: []string{"-c", script}, APIVersion: "client.authentication.k8s.io/v1",
		InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode,
	}
	return config
}

// TestProgramHangs: client-go runs the credential program without a context, and all requests wait
// for it. No call waits beyond its own deadline, however many calls there are. When the program
// ends, calls work again.
func TestProgramHangs(t *testing.T) {
	a := start(t, true)
	hold := filepath.Join(t.TempDir(), "hold")
	if err := os.WriteFile(hold, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, kube.Cluster{Config: withProgram(a, fmt.Sprintf(
		`while [ -e %s ]; do sleep 0.05; done; echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "s3cr3t"}}'`, hold))}, kube.Options{})
	calls := map[string]func(context.Context) error{
		"Apply":  func(ctx context.Context) error { return c.Apply(ctx, configMap("a")) },
		"Delete": func(ctx context.Context) error { return c.Delete(ctx, configMap("a")) },
		"Get":    func(ctx context.Context) error { _, err := c.Get(ctx, configMap("a")); return err },
		"Probe":  c.Probe,
	}
	for name, call := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		ended := make(chan error, 1)
		go func() { ended <- call(ctx) }()
		select {
		case err := <-ended:
			refused(t, err, connector.ErrUnreachable,
				`the configuration's program "sh", which is to get credentials, does not come to an end`)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v, want also that the time is over", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s goes on 10 s after its context has ended", name)
		}
		cancel()
	}
	cancelled, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := c.Apply(cancelled, configMap("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that is cancelled: %v", err)
	}
	for range 200 { // more than the limit of calls that are left running
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_ = c.Probe(ctx)
		cancel()
	}
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), configMap("a")); err != nil {
		t.Errorf("when the program has ended: %v", err)
	}
}

// TestProgramFails: the error names the program, and has no text of its output.
func TestProgramFails(t *testing.T) {
	a := start(t, true)
	for _, script := range []string{"echo s3cr3t; exit 1", "echo s3cr3t", "echo '{}'"} {
		c := open(t, kube.Cluster{Config: withProgram(a, script)}, kube.Options{})
		refused(t, c.Apply(t.Context(), configMap("a")), connector.ErrRetryable,
			`the configuration's program "sh", which is to get credentials, failed`)
	}
	asks := withProgram(a, "echo '{}'")
	asks.ExecProvider.InteractiveMode = clientcmdapi.AlwaysExecInteractiveMode
	refused(t, open(t, kube.Cluster{Config: asks}, kube.Options{}).Apply(t.Context(), configMap("a")),
		connector.ErrRetryable, "which is to get credentials, failed")
	if asks.ExecProvider.StdinUnavailable {
		t.Error("the caller's configuration was changed")
	}
}

// TestCertificates: invalid data inside a kubeconfig is a terminal error. Invalid files may be
// replaced, so they are a retryable error.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("s3cr3t.pem", "s3cr3t")
	for name, tt := range map[string]struct {
		cluster, user string
		class         error
	}{
		"a CA":           {"certificate-authority-data: czNjcjN0", "", connector.ErrTerminal},
		"a CA in a file": {"certificate-authority: s3cr3t.pem", "", connector.ErrRetryable},
		"a certificate":  {"", "client-certificate-data: czNjcjN0, client-key-data: czNjcjN0", connector.ErrTerminal},
	} {
		file := write(strings.ReplaceAll(name, " ", "-"), fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}],
			clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", %s}}], users: [{name: u, user: {%s}}]}`, tt.cluster, tt.user))
		refused(t, open(t, kube.Cluster{Kubeconfig: file}, kube.Options{}).Apply(t.Context(), configMap("a")), tt.class,
			"the kubeconfig "+file)
	}
	refused(t, open(t, kube.Cluster{Config: &rest.Config{Host: "https://127.0.0.1:1",
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte("s3cr3t")}}}, kube.Options{}).
		Apply(t.Context(), configMap("a")), connector.ErrTerminal, "certificate or key")
	refused(t, open(t, kube.Cluster{Config: &rest.Config{Host: "ftp://bot:s3cr3t@127.0.0.1:1"}},
		kube.Options{}).Apply(t.Context(), configMap("a")), connector.ErrTerminal, `the scheme "ftp"`)
}

// TestPrintedValuesHaveNoSecrets: a printed value never shows a password.
func TestPrintedValuesHaveNoSecrets(t *testing.T) {
	for _, host := range []string{"https://bot:s3cr3t@example.com:6443", "bot:s3cr3t@example.com",
		"https://bot:s3cr%zzt@example.com"} {
		c := kube.Cluster{Config: &rest.Config{Host: host, BearerToken: "s3cr3t", Password: "s3cr3t"}}
		for _, text := range []string{c.String(), fmt.Sprintf("%v %+v %#v %s", c, c, c, map[string]kube.Cluster{"a": c})} {
			if strings.Contains(text, "s3cr") || !strings.Contains(text, "example.com") {
				t.Errorf("%s", text)
			}
		}
	}
}
