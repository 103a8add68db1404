// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// Bouncer runs pgbouncer in front of the server until the end of the test. mode is its pool_mode:
// session or transaction. Bouncer returns a function that replaces the server's address by that of
// pgbouncer in a connection string of the superuser.
func (s *Server) Bouncer(t testing.TB, mode string) func(connString string) string {
	t.Helper()
	path := daemon.Require(t, "pgbouncer", "pgbouncer")
	folder := s.newFolder("")
	var addr string
	for attempt := 1; ; attempt++ {
		port := int(daemon.FreeAddr(t).Port())
		addr = net.JoinHostPort(host, strconv.Itoa(port))
		err := s.startBouncer(t, path, folder, mode, port)
		if err == nil {
			break
		}
		if attempt == startAttempts || !strings.Contains(err.Error(), "already in use") {
			t.Fatalf("pgbouncer: %v", err)
		}
	}
	return func(connString string) string { return strings.Replace(connString, s.Addr(), addr, 1) }
}

func (s *Server) startBouncer(t testing.TB, path, folder, mode string, port int) error {
	files := map[string]string{
		"users.txt": fmt.Sprintf("%q %q\n", superuser, s.password),
		"pgbouncer.ini": fmt.Sprintf(`[databases]
* = host=%s port=%d
[pgbouncer]
listen_addr = %s
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = %s
default_pool_size = 10
`, host, s.port, host, port, filepath.Join(folder, "users.txt"), mode),
	}
	for name, content := range files {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			return err
		}
		if err := give(file); err != nil {
			return err
		}
	}
	line := asUser(path, filepath.Join(folder, "pgbouncer.ini"))
	run, err := daemon.Start(line[0], line[1:]...)
	if err != nil {
		return err
	}
	t.Cleanup(func() {
		run.Kill() // it would wait for clients
		if t.Failed() {
			t.Logf("log of pgbouncer:\n%s", run.Log())
		}
	})
	return run.WaitReady(startLimit, func() error {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, strconv.Itoa(port)), time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}
