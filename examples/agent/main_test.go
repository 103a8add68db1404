// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

func TestNeedsKubeconfig(t *testing.T) {
	commandtest.NeedsKubeconfig(t, "agent", func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		return run(ctx, append([]string{"--cluster", "c", "--source", "hub", "--broker", "mqtt://127.0.0.1:1"}, args...),
			stdout, stderr)
	})
}

// TestWaitsForCluster checks that an agent that starts while the API server of its cluster is
// unavailable waits for the server. It reports the wait once and is not ready. A permanent error
// ends the agent.
func TestWaitsForCluster(t *testing.T) {
	established := v1alpha1.CRD()
	conditions := []any{map[string]any{"type": "Established", "status": "True"}}
	if err := unstructured.SetNestedSlice(established.Object, conditions, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		serve  func(w http.ResponseWriter)
		status int
		want   string // of standard output, or of standard error
	}{
		{"it comes", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(established)
		}, 0, `"Started serving works" cluster=c apiServer=http://127.0.0.1:`},
		{"it forbids", func(w http.ResponseWriter) { http.Error(w, "not you", http.StatusForbidden) }, command.Failed,
			": apply the manifests of agent install, which have the CRD and the rights of the agent\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			proxy := tcpproxy.Start(t, "127.0.0.1:1")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var stdout, stderr daemon.Log
			args := []string{"--cluster", "c", "--source", "hub", "--broker", "mqtt://127.0.0.1:1", "--listen", "127.0.0.1:0",
				"--kubeconfig", commandtest.Kubeconfig(t, "http://"+proxy.Addr())}
			ended := make(chan int, 1)
			go func() { ended <- run(ctx, args, &stdout, &stderr) }()
			eventually(t, func() string { return stdout.String() + stderr.String() },
				`"Failed to reach the API server, retrying until it answers"`)
			_, ready, _ := strings.Cut(stderr.String(), `"Started listening" cluster=c address=`)
			ready, _, _ = strings.Cut(ready, "\n")
			eventually(t, func() string { return get(t, "http://"+ready+"/readyz") },
				"503 the API server of the cluster has not answered yet")

			var calls atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if calls.Add(1) == 1 { // like a server that starts
					http.Error(w, "not yet", http.StatusServiceUnavailable)
					return
				}
				tt.serve(w)
			}))
			defer server.Close()
			proxy.Forward(server.Listener.Addr().String())
			eventually(t, func() string { return stdout.String() + stderr.String() }, tt.want)
			if tt.status == 0 {
				if got := get(t, "http://"+ready+"/readyz"); strings.Contains(got, "API server") {
					t.Errorf("it still waits: %s", got)
				}
				proxy.Block()
				proxy.Cut()
				eventually(t, stderr.String, `level=ERROR msg="Lost the API server of the cluster" cluster=c apiServer=http://`)
				proxy.Unblock()
				eventually(t, stderr.String, `level=INFO msg="Reached the API server of the cluster again" cluster=c`)
				cancel()
			}
			select {
			case status := <-ended:
				if status != tt.status {
					t.Errorf("exit status %d, want %d; %s", status, tt.status, stderr.String())
				}
			case <-time.After(patience):
				t.Fatalf("it does not end: %s%s", stdout.String(), stderr.String())
			}
			if n := strings.Count(stderr.String(), "Failed to reach the API server"); n != 1 {
				t.Errorf("it is logged %d times: %s", n, stderr.String())
			}
		})
	}
}

const patience = 2 * time.Minute

// eventually waits until the text contains want.
func eventually(t *testing.T, text func() string, want string) {
	t.Helper()
	got := ""
	for end := time.Now().Add(patience); !strings.Contains(got, want); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q, want %q", got, want)
		}
		got = text()
	}
}

// get returns the status code and the body of a response, or the error.
func get(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return fmt.Sprintf("%d %s", response.StatusCode, body)
}

// TestRefusesBroker checks that invalid broker options are reported before all other errors, also
// without a kubeconfig.
func TestRefusesBroker(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--broker", "tcp://b"}, `--broker "tcp://b" has the scheme "tcp"`},
		{[]string{"--broker", "mqtts://b", "--broker-ca", "main.go"},
			"--broker-ca main.go contains no certificate in PEM"},
		{[]string{"--broker", "mqtts://b", "--broker-cert", "main.go"},
			"only one of --broker-cert and --broker-key is set"},
		{[]string{"--broker", "mqtt://b", "--password-file", "missing"}, "--password-file: open missing"},
		{[]string{"--broker", "mqtt://b", "--cluster", "A B"}, `--cluster: "A B": `},
	} {
		var stdout, stderr strings.Builder
		status := run(t.Context(), append([]string{"--cluster", "c", "--source", "hub"}, tt.args...), &stdout, &stderr)
		if status != command.Misuse || !strings.HasPrefix(stderr.String(), "agent: "+tt.want) || stdout.Len() > 0 {
			t.Errorf("%q: %d, %q, want %q", tt.args, status, stderr.String(), tt.want)
		}
	}
}

// TestMisuse checks the answers to wrong files and addresses.
func TestMisuse(t *testing.T) {
	const agent = "--cluster c --source hub "
	commandtest.Misuse(t, "agent", run, map[string]string{
		agent + "--broker here":                                      `--broker "here" has no scheme`,
		agent + "--broker mqtt://b --kubeconfig /nope":               "--kubeconfig: open /nope: no such file",
		agent + "--broker mqtt://b --kubeconfig text":                "--kubeconfig text: not a kubeconfig",
		agent + "--broker mqtt://b --broker-ca text":                 `--broker-ca is set, but --broker "mqtt://b:1883" is`,
		agent + "--hub b":                                            `invalid --hub: "b": write host:port`,
		agent + "--hub b:1 --hub-ca text --hub-insecure":             "--hub-ca is set with --hub-insecure",
		agent + "--hub b:1 --hub-ca text":                            "--hub-ca text contains no certificate in PEM",
		agent + "--hub b:1 --hub-cert text":                          "only one of --hub-cert and --hub-key is set",
		agent + "--hub b:1 --hub-token-file /nope":                   "--hub-token-file: open /nope: no such file",
		"--cluster c --hub-kubeconfig /nope":                         "--hub-kubeconfig: open /nope: no such file",
		agent + "--broker mqtts://b --broker-cert /a --broker-key b": "--broker-cert /a, --broker-key b: open /a",
	})
}

// TestWorks checks that no two sample works have the same object, so one cluster can have all of
// them.
func TestWorks(t *testing.T) {
	files, err := filepath.Glob("works/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	owners := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workv1.ManifestWork
		if err := yaml.UnmarshalStrict(data, &w); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, m := range w.Spec.Workload.Manifests {
			var obj metav1.PartialObjectMetadata
			if err := yaml.Unmarshal(m.Raw, &obj); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			key := fmt.Sprintf("%s %s/%s", obj.GroupVersionKind(), obj.Namespace, obj.Name)
			if owner := owners[key]; owner != "" {
				t.Errorf("%s: %s is in %s as well", file, key, owner)
			}
			owners[key] = file
		}
	}
}
