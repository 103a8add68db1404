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
	"slices"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// MaestroSource is the source of all works that Maestro sends to agents.
const MaestroSource = "maestro"

// Maestro is Maestro's server with its database. Both gRPC ports accept only TLS 1.3.
type Maestro struct {
	*Server // the broker for agents, which requires a client certificate
	CA      *certtest.Authority
	// Sources is the link to the gRPC endpoint of sources. It accepts each client: other
	// authorization needs a Kubernetes cluster.
	Sources *tcpproxy.Proxy
	rest    string // URL
}

// StartMaestro starts PostgreSQL and Maestro with the database's schema and a cluster. It returns
// when the server accepts requests.
func StartMaestro(t testing.TB, cluster string) *Maestro {
	t.Helper()
	ca, folder, program := certtest.New(t), t.TempDir(), maestroProgram(t)
	certificate, key := ca.Issue(t, "maestro", "localhost").Write(t, folder, "server")
	database := maestroDatabase(t, folder)
	if out, err := exec.Command(program, append([]string{"migration"}, database...)...).CombinedOutput(); err != nil {
		t.Fatalf("maestro migration: %v\n%s", err, out)
	}
	args := append([]string{program, "server", "--v=2", "--message-broker-type=grpc", "--server-hostname=127.0.0.1",
		"--heartbeat-check-interval=1s", // the first heartbeat confirms the subscription of a source
		"--grpc-tls-cert-file=" + certificate, "--grpc-tls-key-file=" + key,
		"--grpc-broker-tls-cert-file=" + certificate, "--grpc-broker-tls-key-file=" + key,
		"--grpc-broker-client-ca-file=" + ca.Write(t, folder, "ca")}, database...)
	ports := []string{"grpc-broker", "grpc-server", "http-server", "metrics-server", "health-check-server"}
	server := StartServer(t, "Maestro", len(ports), func(addrs []netip.AddrPort) ([]string, error) {
		all := slices.Clone(args)
		for i, addr := range addrs {
			all = append(all, fmt.Sprintf("--%s-bindport=%d", ports[i], addr.Port()))
		}
		return all, nil
	})
	m := &Maestro{Server: server, CA: ca, Sources: server.Links[1],
		rest: fmt.Sprintf("http://%s/api/maestro/v1", server.Links[2].Addr())}
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

// maestroDatabase starts PostgreSQL, and returns the flags of Maestro for a new database.
func maestroDatabase(t testing.TB, folder string) (flags []string) {
	t.Helper()
	database, err := url.Parse(postgres.Start(t, postgres.Options{}).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := database.User.Password()
	for name, value := range map[string]string{
		"host": database.Hostname(), "port": database.Port(), "name": strings.TrimPrefix(database.Path, "/"),
		"user": database.User.Username(), "password": password,
	} {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "--db-"+name+"-file="+file)
	}
	return flags
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
