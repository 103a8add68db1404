// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// MaestroSource is the source of all works that Maestro sends to agents.
const MaestroSource = "maestro"

// Maestro is Maestro's server with its database. Both gRPC ports accept only TLS 1.3.
type Maestro struct {
	*daemon.Daemon
	CA     *certtest.Authority
	Agents *tcpproxy.Proxy // the link to the gRPC broker of agents, which requires a client certificate
	// Sources is the link to the gRPC endpoint of sources. It accepts each client: other
	// authorization needs a Kubernetes cluster.
	Sources *tcpproxy.Proxy

	t        testing.TB
	folder   string
	database []string // flags
	rest     string   // URL
}

// StartMaestro starts PostgreSQL and Maestro with the database's schema and a cluster. It returns
// when the server accepts requests.
func StartMaestro(t testing.TB, cluster string) *Maestro {
	t.Helper()
	m := &Maestro{t: t, CA: certtest.New(t), folder: t.TempDir()}
	m.CA.Write(t, m.folder, "ca")
	m.CA.Issue(t, "maestro", "localhost").Write(t, m.folder, "server")
	database, err := url.Parse(postgres.Start(t, postgres.Options{}).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := database.User.Password()
	for name, value := range map[string]string{
		"host": database.Hostname(), "port": database.Port(), "name": strings.TrimPrefix(database.Path, "/"),
		"user": database.User.Username(), "password": password,
	} {
		file := filepath.Join(m.folder, name)
		if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
		m.database = append(m.database, "--db-"+name+"-file="+file)
	}
	program := maestroProgram(t)
	if out, err := exec.Command(program, append([]string{"migration"}, m.database...)...).CombinedOutput(); err != nil {
		t.Fatalf("maestro migration: %v\n%s", err, out)
	}
	agents, sources := m.start()
	m.Agents, m.Sources = tcpproxy.Start(t, agents.String()), tcpproxy.Start(t, sources.String())
	response, err := http.Post(m.rest+"/consumers", "application/json",
		strings.NewReader(fmt.Sprintf(`{"name":%q}`, cluster)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("create the consumer %s: %s", cluster, response.Status)
	}
	return m
}

// maestroProgram returns the path of Maestro's program. The test fails if it is not built.
func maestroProgram(t testing.TB) string {
	t.Helper()
	script := filepath.Join("..", "..", "maestro", "build.sh") // only the script has the version
	out, err := exec.Command("bash", script, "--dir").Output()
	if err != nil {
		t.Fatalf("%s --dir: %v", script, err)
	}
	path := filepath.Join(strings.TrimSpace(string(out)), "maestro")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: build Maestro with internal/maestro/build.sh or `make maestro`", err)
	}
	return path
}

// Restart kills the server and starts it again.
func (m *Maestro) Restart() {
	m.t.Helper()
	m.Kill()
	agents, sources := m.start()
	m.Agents.Forward(agents.String())
	m.Sources.Forward(sources.String())
}

// start starts the server on free ports, and returns the addresses for agents and sources.
func (m *Maestro) start() (agents, sources netip.AddrPort) {
	m.t.Helper()
	for attempt := 1; ; attempt++ {
		agents, sources = daemon.FreeAddr(m.t), daemon.FreeAddr(m.t)
		rest := daemon.FreeAddr(m.t)
		err := m.run(agents, sources, rest)
		if err == nil {
			m.rest = fmt.Sprintf("http://%s/api/maestro/v1", rest)
			return agents, sources
		}
		if attempt == 3 || !strings.Contains(err.Error(), "address already in use") {
			m.t.Fatal(err)
		}
	}
}

// run starts the server, and returns when all ports accept connections.
func (m *Maestro) run(agents, sources, rest netip.AddrPort) error {
	file := func(name string) string { return filepath.Join(m.folder, name) }
	d, err := daemon.Start(maestroProgram(m.t), append([]string{"server", "--v=2",
		"--message-broker-type=grpc", "--server-hostname=127.0.0.1",
		"--heartbeat-check-interval=1s", // the first heartbeat confirms the subscription of a source
		fmt.Sprint("--http-server-bindport=", rest.Port()),
		fmt.Sprint("--grpc-server-bindport=", sources.Port()),
		fmt.Sprint("--grpc-broker-bindport=", agents.Port()),
		fmt.Sprint("--metrics-server-bindport=", daemon.FreeAddr(m.t).Port()),
		fmt.Sprint("--health-check-server-bindport=", daemon.FreeAddr(m.t).Port()),
		"--grpc-tls-cert-file=" + file("server.crt"), "--grpc-tls-key-file=" + file("server.key"),
		"--grpc-broker-tls-cert-file=" + file("server.crt"), "--grpc-broker-tls-key-file=" + file("server.key"),
		"--grpc-broker-client-ca-file=" + file("ca.crt"),
	}, m.database...)...)
	if err != nil {
		return err
	}
	// The program waits for its streams when it ends, so it is killed.
	m.t.Cleanup(func() {
		d.Kill()
		if m.t.Failed() {
			m.t.Logf("end of the log of Maestro:\n%s", d.Log())
		}
	})
	m.Daemon = d
	return d.WaitReady(e2etest.Patience, func() error {
		if strings.Contains(d.Log(), "address already in use") {
			d.Kill() // it would continue without this port
		}
		for _, addr := range []netip.AddrPort{agents, sources, rest} {
			if err := dial(addr.String()); err != nil {
				return err
			}
		}
		return nil
	})
}
