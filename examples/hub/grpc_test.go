// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
	"github.com/spokewire/sdk-go/internal/testing/background"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

// TestAgentsOverGRPC checks that a hub serves its agents without a broker, with certificates and
// without, and again after a restart.
func TestAgentsOverGRPC(t *testing.T) {
	for _, secured := range []bool{false, true} {
		t.Run(map[bool]string{false: "loopback", true: "certificates"}[secured], func(t *testing.T) {
			s, folder, ca := newSite(t), t.TempDir(), certtest.New(t)
			args := []string{"--grpc", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--store", t.TempDir()}
			client := grpc.Options{Insecure: !secured}
			if secured {
				cert, key := ca.Issue(t, "hub", "127.0.0.1").Write(t, folder, "hub")
				args = append(args, "--grpc-cert", cert, "--grpc-key", key, "--grpc-client-ca", ca.Write(t, folder, "ca"))
				client.CAFile = ca.Write(t, folder, "ca")
				client.CertFile, client.KeyFile = ca.Issue(t, "c1").Write(t, folder, "c1")
			}
			o, err := parse(args)
			if err == nil {
				err = check(o)
			}
			if err != nil {
				t.Fatal(err)
			}
			s.options = o
			s.start()
			client.Address = s.said.find(t, `"Started serving events" address=`)
			transport, err := grpc.New(client)
			if err != nil {
				t.Fatal(err)
			}
			s.agentOver(transport, "c1")
			s.must("PUT", "/api/v1/clusters/c1", cluster("c1", ""))
			s.stranger(client, ca, folder, secured)
			s.must("PUT", "/api/v1/applications/shop", application("shop", "a=one"))
			s.must("PUT", "/api/v1/placements/p", placement("p", "shop", all))
			if got := s.status("shop"); got != "Synced Healthy 1" {
				t.Errorf("status %q", got)
			}
			s.objects("c1", `x/a={"v":"one"}`)

			s.stop()
			s.options.GRPC = client.Address
			s.start()
			s.must("PUT", "/api/v1/applications/shop", application("shop", "a=two"))
			if got := s.status("shop"); got != "Synced Healthy 2" {
				t.Errorf("after a restart: status %q", got)
			}
			s.objects("c1", `x/a={"v":"two"}`)
		})
	}
}

// stranger runs an agent that asks for a source that no hub has. The hub reports it.
func (s *site) stranger(client grpc.Options, ca *certtest.Authority, folder string, secured bool) {
	s.t.Helper()
	if secured {
		client.CertFile, client.KeyFile = ca.Issue(s.t, "c7").Write(s.t, folder, "c7")
	}
	transport, err := grpc.New(client)
	if err != nil {
		s.t.Fatal(err)
	}
	a, err := work.NewAgent(transport, work.AgentOptions{ClusterName: "c7", Sources: []string{"hubb"}})
	if err != nil {
		s.t.Fatal(err)
	}
	stop := background.Run(s.t, a.Start)
	defer stop()
	s.showsOn("/api/v1/status", `"reason":"no document names the cluster, and its agent asks for the source \"hubb\", `+
		`and this hub is \"hub\": start the agent with --source hub","agent":"NeverJoined"`)
	s.showsOn("/clusters/c7", "start the agent with --source hub")
}

// find waits for a message that begins with prefix, and returns its rest.
func (l *lines) find(t *testing.T, prefix string) (rest string) {
	t.Helper()
	eventually(t, prefix, func() bool {
		for line := range strings.Lines(l.String()) {
			if _, after, ok := strings.Cut(strings.TrimSpace(line), prefix); ok {
				rest, _, _ = strings.Cut(after, " ")
			}
		}
		return rest != ""
	})
	return rest
}

func TestAgentFlagsRefuses(t *testing.T) {
	const all = " --grpc-cert c --grpc-key k --grpc-client-ca ca"
	commandtest.Refuses(t, parse, map[string]string{
		"--dir d":                            "--broker or --grpc is required",
		"--grpc :8443 --broker mqtt://b":     "--broker and --grpc are both set: remove one of them",
		"--grpc 8443" + all:                  `--grpc: "8443": must be host:port or :port`,
		"--grpc :8443":                       "--grpc :8443 can be reached from other machines: add --grpc-cert",
		"--grpc :8443 --grpc-cert c":         "--grpc :8443 can be reached from other machines: add --grpc-cert",
		"--broker mqtt://b --grpc-cert c":    "--grpc-cert needs --grpc",
		"--grpc 127.0.0.1:1 --username u":    "--username needs --broker",
		"--grpc 127.0.0.1:1 --password-file": "--password-file needs a value",
		"--grpc=":                            "--grpc must not be empty",
	})
}
