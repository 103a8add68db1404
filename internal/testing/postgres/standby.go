// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"path/filepath"
	"testing"
)

// Standby starts a server that receives all changes of this server, until the end of the test. It
// accepts only reads until Promote.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	standby := &Server{t: t, bin: s.bin, opts: s.opts, password: s.password}
	standby.folder = filepath.Join(standby.newFolder(""), "data")
	s.Program(t, "pg_basebackup", "-D", standby.folder, "--write-recovery-conf", "--wal-method=stream",
		"--checkpoint=fast", "--no-sync")
	standby.start()
	return standby
}

// Promote makes a standby a primary.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.Exec(t, "postgres", "SELECT pg_promote()")
}
