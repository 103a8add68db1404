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
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
	"github.com/spokewire/sdk-go/internal/testing/background"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

// newHub serves joins, and returns the URL and a function that creates tokens for cluster1.
func newHub(t *testing.T) (url string, token func() string) {
	t.Helper()
	dir, ca := t.TempDir(), certtest.New(t)
	o := join.ServerOptions{Store: &join.MemoryStore{}}
	o.CertFile, o.KeyFile = ca.Issue(t, "hub").Write(t, dir, "hub")
	o.CACertFile, o.CAKeyFile = ca.Write(t, dir, "ca"), ca.WriteKey(t, dir, "ca")
	server, err := join.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, server.Start)
	background.Run(t, func(ctx context.Context) error { return server.Serve(ctx, listener) })
	return "https://" + listener.Addr().String(), func() string {
		token, err := server.CreateToken(t.Context(), join.TokenOptions{Cluster: "cluster1"})
		if err != nil {
			t.Fatal(err)
		}
		return token.Reveal()
	}
}

func agentCommand(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, problem bytes.Buffer
	status = run(t.Context(), args, &out, &problem)
	return status, out.String(), problem.String()
}

func TestJoinCommand(t *testing.T) {
	url, token := newHub(t)
	dir := filepath.Join(t.TempDir(), "joined")
	if status, out, problem := agentCommand(t, "join", "--hub", url, "--token", token(), "--dir", dir); status != 0 ||
		!strings.HasPrefix(out, "joined    as cluster1, until ") || !strings.Contains(out, "agent --join "+dir) {
		t.Fatalf("%d: %s%s", status, out, problem)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, problem := agentCommand(t, "join", "--hub", url, "--token-file", file, "--dir", dir); status != 0 {
		t.Errorf("with a file, again: %s", problem)
	}
	text := token()
	status, out, problem := agentCommand(t, "join", "--hub", url, "--token", text, "--dir", t.TempDir(), "--cluster",
		"cluster2")
	if status != 1 || !strings.Contains(problem, `the agent may join only as "cluster1"`) ||
		strings.Contains(out+problem, strings.Split(text, ".")[1]) {
		t.Errorf("%d: %s%s", status, out, problem)
	}

	o, err := parse([]string{"--hub", "hub:8443", "--join", dir, "--source", "hub"})
	files := join.FilesIn(dir)
	if err != nil || o.Cluster != "cluster1" || o.Hub.CAFile != files.CA || o.Hub.CertFile != files.Cert ||
		check(o) != nil {
		t.Errorf("%+v, %v, %v", o, err, check(o))
	}
	o, err = parse([]string{"--broker", "mqtts://b", "--join", dir, "--source", "hub"})
	if err != nil || o.Broker.CAFile != files.CA || o.Broker.KeyFile != files.Key || check(o) != nil {
		t.Errorf("%+v, %v, %v", o, err, check(o))
	}
	if parts, err := o.renewer(); err != nil || len(parts) != 1 {
		t.Errorf("%v, %v", parts, err)
	}
	commandtest.Refuses(t, parse, map[string]string{
		"--hub h:1 --source hub --cluster cluster2 --join " + dir: "is for cluster cluster1",
		"--hub h:1 --source hub --hub-cert c --join " + dir:       "--hub-cert and --join are both set",
		"--hub-kubeconfig k --join " + dir:                        "--join needs --hub, not --hub-kubeconfig",
		"--hub h:1 --source hub --join " + t.TempDir():            "join first",
		"--hub h:1 --source hub --join=":                          "--join must not be empty",
	})
}

func TestJoinCommandRefuses(t *testing.T) {
	commandtest.Refuses(t, parseJoin, map[string]string{
		"--token x":                        "--hub is required",
		"--hub https://h:1":                "one of --token and --token-file is required",
		"--hub https://h:1 --token t x":    `unknown argument "x"`,
		"--hub https://h:1 --token t.t.t":  "--token: not a token: must have the form ID.SECRET.HASH",
		"--hub h --token-file /missing":    "--token-file: open /missing",
		"--hub h --token t --token-file x": "one of --token and --token-file is required",
		"--hub h --token t --dir=":         "--dir must not be empty",
	})
	commandtest.Usage(t, joinUsage, "hub", "token", "token-file", "dir", "cluster")
}

// TestAgentJoinsFirst joins with the flags of an agent, as in a Pod with an empty volume. A folder
// with a certificate needs no token.
func TestAgentJoinsFirst(t *testing.T) {
	url, token := newHub(t)
	dir, file := filepath.Join(t.TempDir(), "joined"), filepath.Join(t.TempDir(), "token")
	flags := []string{"--hub", "hub:8443", "--source", "hub", "--join", dir, "--join-hub", url}
	for want, more := range map[string][]string{
		"--cluster is required with --join-hub":         {"--join-token-file", file},
		"--join-token-file is required with --join-hub": {"--cluster", "cluster1"},
	} {
		if _, err := parse(append(flags, more...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	o, err := parse(append(flags, "--cluster", "cluster1", "--join-token-file", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := check(o); err != nil {
		t.Errorf("before the join: %v", err)
	}
	if err := o.joinFirst(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "--join-token-file: open ") {
		t.Errorf("without a token: %v", err)
	}
	if err := os.WriteFile(file, []byte(token()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.joinFirst(t.Context()); err != nil {
		t.Fatal(err)
	}
	if cluster, err := join.ClusterIn(dir); err != nil || cluster != "cluster1" || check(o) != nil {
		t.Errorf("joined as %q, %v, %v", cluster, err, check(o))
	}
	if err := errors.Join(os.Remove(file), o.joinFirst(t.Context())); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
}
