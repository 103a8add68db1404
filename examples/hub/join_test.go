// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

// hubCommand runs the program with arguments, and returns its status and output.
func hubCommand(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, problem bytes.Buffer
	status = run(t.Context(), args, &out, &problem)
	return status, out.String(), problem.String()
}

// command runs a command that calls the API of the hub, as an editor.
func (s *site) command(args ...string) (status int, stdout, stderr string) {
	s.t.Helper()
	return hubCommand(s.t, append(args, "--api", s.url, "--token-file", s.tokenFile())...)
}

// newCerts makes the certificates of a first installation.
func newCerts(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "certs")
	if status, _, problem := hubCommand(t, "certs", "--name", "127.0.0.1", "--dir", dir); status != 0 {
		t.Fatal(problem)
	}
	return dir
}

// TestJoinAndRevoke checks tokens, joins and revocations over gRPC, and after a restart of the hub.
func TestJoinAndRevoke(t *testing.T) {
	s, certs := newSite(t), newCerts(t)
	o, err := parse([]string{"--grpc", "127.0.0.1:0", "--certs", certs, "--join-listen", "127.0.0.1:0",
		"--listen", "127.0.0.1:0", "--store", t.TempDir()})
	if err == nil {
		err = check(o)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.options = o
	s.start()
	url := s.said.find(t, `"Started serving joins" url=`)
	createToken := func(cluster string) join.Token {
		t.Helper()
		status, out, problem := s.command("token", "create", "--cluster", cluster, "--lifetime", "5m")
		text, rest, _ := strings.Cut(out, "\n")
		token, err := join.ParseToken(text)
		if status != 0 || err != nil || !strings.Contains(rest, "agent join --hub https://127.0.0.1:0 --token "+text) {
			t.Fatalf("%d, %v: %s%s", status, err, out, problem)
		}
		return token
	}
	token := createToken("c1")
	if _, out, _ := s.command("token", "list"); !strings.Contains(out, token.ID()+"   c1        1 ") {
		t.Errorf("list: %s", out)
	}
	dir := t.TempDir()
	if _, err := join.Join(t.Context(), join.Options{URL: url, Token: token, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	files := join.FilesIn(dir)
	client := grpc.Options{
		Address:  s.said.find(t, `"Started serving events" address=`),
		CAFile:   files.CA,
		CertFile: files.Cert,
		KeyFile:  files.Key,
	}
	transport, err := grpc.New(client)
	if err != nil {
		t.Fatal(err)
	}
	s.agentOver(transport, "c1")
	s.must("PUT", "/api/v1/clusters/c1", cluster("c1", ""))
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=one"))
	s.must("PUT", "/api/v1/placements/p", placement("p", "shop", all))
	if got := s.status("shop"); got != "Synced Healthy 1" {
		t.Errorf("status %q", got)
	}

	unused := createToken("c2")
	if status, out, problem := s.command("token", "delete", unused.ID()); status != 0 {
		t.Errorf("delete: %s%s", out, problem)
	}
	if status, _, problem := s.command("token", "delete", unused.ID()); status != 1 ||
		!strings.Contains(problem, "there is no such token") {
		t.Errorf("delete again: %d %s", status, problem)
	}
	if status, out, problem := s.command("revoke", "c-1"); status != 0 ||
		!strings.Contains(out, "cluster/c-1 revoked; there is no Cluster document and no agent with this name") {
		t.Errorf("revoke an unknown cluster: %s%s", out, problem)
	}
	if status, out, problem := s.command("revoke", "c1"); status != 0 || out != "cluster/c1 revoked\n" {
		t.Fatalf("revoke: %s%s", out, problem)
	}
	refused := func() {
		t.Helper()
		other, err := grpc.New(client)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := other.Connect(t.Context(), cloudevents.ConnectOptions{
			Filters: []string{"/sources/+/clusters/c1/manifests"},
			Receive: func(cloudevents.Message) {}, Refuse: func(string, error) {},
		})
		if err == nil {
			_ = conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "was revoked: join again with a new token") {
			t.Errorf("a revoked agent: %v", err)
		}
	}
	refused()
	s.must("PUT", "/api/v1/applications/shop", application("shop", "a=two"))
	s.stop()
	s.options.GRPC = client.Address
	s.start()
	s.said.find(t, `"Started serving events" address=`)
	refused()
	s.objects("c1", `x/a={"v":"one"}`)

	token = createToken("c1")
	url = s.said.find(t, `"Started serving joins" url=`)
	if _, err := join.Join(t.Context(), join.Options{URL: url, Token: token, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if got := s.status("shop"); got != "Synced Healthy 2" {
		t.Errorf("after another join: status %q", got)
	}
	s.objects("c1", `x/a={"v":"two"}`)
}

func TestCerts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	args := []string{"certs", "--name", "hub.example.com", "--name", "10.0.0.1", "--broker-name", "broker", "--dir", dir}
	if status, out, problem := hubCommand(t, args...); status != 0 || strings.Count(out, "created") != 5 {
		t.Fatalf("%d: %s%s", status, out, problem)
	}
	content := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	before := map[string]string{}
	for _, name := range []string{"ca", "hub", "broker", "client"} {
		before[name] = content(name+".crt") + content(name+".key")
		if info, err := os.Stat(filepath.Join(dir, name+".key")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s.key: %v, %v", name, info.Mode(), err)
		}
	}
	for _, name := range []string{"hub.crt", "hub.key"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if status, out, _ := hubCommand(t, args...); status != 0 || strings.Count(out, "kept") != 4 || strings.Count(out,
		"created") != 1 {
		t.Errorf("again: %d: %s", status, out)
	}
	for name, was := range before {
		if same := content(name+".crt")+content(name+".key") == was; same != (name != "hub") {
			t.Errorf("%s: unchanged %v", name, same)
		}
	}
}

func TestJoinFlags(t *testing.T) {
	commandtest.Refuses(t, parse, map[string]string{
		"--grpc :1 --join-listen :2":                               "--join-listen needs --certs",
		"--grpc :1 --join-listen 2 --certs c":                      `--join-listen: "2": must be`,
		"--grpc :1 --join-listen :2 --certs c --join-url http://x": "must be https://HOST:PORT",
		"--grpc :1 --certs c --join-url https://x":                 "--join-url needs --join-listen",
		"--grpc :1 --certs c --cert-lifetime 1h":                   "--cert-lifetime needs --join-listen",
		"--grpc :1 --certs c --join-listen :2 --cert-lifetime 1ms": "--cert-lifetime must be 1s or more",
		"--grpc :1 --certs c --join-listen :2 --cert-lifetime x":   "--cert-lifetime",
	})
	o, err := parse([]string{"--broker", "mqtts://b", "--certs", t.TempDir(), "--join-listen", ":0"})
	if err == nil {
		err = check(o)
	}
	if err == nil || !strings.Contains(err.Error(), "ca.crt") || !strings.Contains(err.Error(), "hub certs") {
		t.Errorf("an empty folder: %v", err)
	}
	if status, _, problem := hubCommand(t, "token", "list", "--api", "http://127.0.0.1:1"); status != 1 ||
		!strings.Contains(problem, "is a hub running with this --listen?") {
		t.Errorf("without a hub: %d %s", status, problem)
	}
}

func TestTokensNeedJoinListen(t *testing.T) {
	s := newSite(t)
	s.start()
	for _, args := range [][]string{{"token", "create", "--cluster", "c1"}, {"token", "list"}, {"revoke", "c1"}} {
		status, _, problem := s.command(args...)
		if status != 1 || !strings.Contains(problem, "start it with --certs and --join-listen") {
			t.Errorf("%v: %d %s", args, status, problem)
		}
	}
}

// TestReplicasShareJoins checks that a follower forwards the commands, and that the next leader has the
// tokens and the revocations.
func TestReplicasShareJoins(t *testing.T) {
	one, certs := newSite(t), newCerts(t)
	o, err := parse([]string{"--grpc", "127.0.0.1:0", "--certs", certs, "--join-listen", "127.0.0.1:0",
		"--listen", "127.0.0.1:0", "--store", database(t)})
	if err != nil {
		t.Fatal(err)
	}
	one.options = o
	two := &site{t: t, options: o}
	one.start()
	joins := one.said.find(t, `"Started serving joins" url=`)
	two.start()
	eventually(t, "the second replica follows", func() bool {
		code, _ := two.call("GET", "/readyz", "")
		return code == http.StatusOK
	})
	command := func(args ...string) string {
		t.Helper()
		status, out, problem := two.command(args...)
		if status != 0 {
			t.Fatalf("%v: %s", args, problem)
		}
		line, _, _ := strings.Cut(out, "\n")
		return line
	}
	parsed := func(text string) join.Token {
		t.Helper()
		token, err := join.ParseToken(text)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	joinTo := func(url string, token join.Token) (join.Files, error) {
		dir := t.TempDir()
		_, err := join.Join(t.Context(), join.Options{URL: url, Token: token, Dir: dir})
		return join.FilesIn(dir), err
	}
	revoked, err := joinTo(joins, parsed(command("token", "create", "--cluster", "c1")))
	if err != nil {
		t.Fatal(err)
	}
	command("revoke", "c1")
	used, later := parsed(command("token", "create", "--cluster", "c2")), parsed(command("token", "create",
		"--cluster", "c3"))
	if _, err := joinTo(joins, used); err != nil {
		t.Fatal(err)
	}
	one.stop()

	joins = two.said.find(t, `"Started serving joins" url=`)
	if _, err := joinTo(joins, used); err == nil || !strings.Contains(err.Error(), "already used") {
		t.Errorf("a token that the earlier leader has accepted: %v", err)
	}
	admitted, err := joinTo(joins, later)
	if err != nil {
		t.Fatal(err)
	}
	for cluster, files := range map[string]join.Files{"c1": revoked, "c3": admitted} {
		transport, err := grpc.New(grpc.Options{
			Address:  two.said.find(t, `"Started serving events" address=`),
			CAFile:   files.CA,
			CertFile: files.Cert,
			KeyFile:  files.Key,
		})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := transport.Connect(t.Context(), cloudevents.ConnectOptions{
			Filters: []string{"/sources/+/clusters/" + cluster + "/manifests"},
			Receive: func(cloudevents.Message) {}, Refuse: func(string, error) {},
		})
		if err == nil {
			_ = conn.Close()
		}
		if (err != nil) != (cluster == "c1") {
			t.Errorf("%s at the next leader: %v", cluster, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
