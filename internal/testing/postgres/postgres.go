// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package postgres runs a real PostgreSQL server next to a test.
//
//	server := postgres.Start(t, postgres.Options{})
//	store, err := pgstore.Open(ctx, pgstore.Options{ConnString: server.Database(t)})
//
// Each server has its own process, port and folder, and ends with the test. PostgreSQL refuses to
// run as root, so a test that runs as root starts it as another user. Without the programs, the
// test is skipped. With the environment variable CI set to "true", it fails instead.
package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

const (
	host       = "127.0.0.1"
	superuser  = "postgres"
	startLimit = 60 * time.Second
	// startAttempts limits how often Start looks for another port.
	startAttempts = 5
)

// Options configures the server. The zero value is a server that does not sync its files, which is
// safe while the machine runs.
type Options struct {
	// Settings are lines of postgresql.conf.
	Settings []string
	// Sync makes each commit durable, as in production.
	Sync bool
	// Folder is an existing folder for the data, for example on a small disk. Defaults to a new
	// folder.
	Folder string
	// CertFile and KeyFile are the server's certificate and its key, in PEM. If set, clients must
	// use TLS.
	CertFile, KeyFile string
}

// Server is a PostgreSQL server. Its methods may be called concurrently, except Restart.
type Server struct {
	t        testing.TB
	bin      string
	folder   string
	opts     Options
	password string
	port     int

	databases atomic.Int32

	mu  sync.Mutex
	run *daemon.Daemon
	log []string // of earlier processes
}

// Start runs a server until the end of the test, and returns when it accepts connections. If the
// test fails, the end of the server's log is in the test's output.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	s := &Server{t: t, bin: programs(t), opts: opts, password: "secret-" + rand.Text()}
	s.folder = filepath.Join(s.newFolder(opts.Folder), "data")
	if err := s.initialize(); err != nil {
		t.Fatalf("postgres: %v", err)
	}
	s.start()
	return s
}

// programs returns the folder of the newest installed version.
func programs(t testing.TB) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // Debian's folders
	if err != nil {
		t.Fatal(err)
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		daemon.Missing(t, "PostgreSQL is not installed (on Debian: apt-get install postgresql)")
	}
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(found[len(found)-1])
}

func version(path string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	if err != nil {
		return 0 // not a folder of Debian
	}
	return n
}

// newFolder creates a folder that the server's user owns. The folder of t.TempDir is only for the
// test's own user.
func (s *Server) newFolder(parent string) string {
	s.t.Helper()
	folder, err := os.MkdirTemp(parent, "postgres-")
	if err == nil {
		err = give(folder)
	}
	if err != nil {
		s.t.Fatalf("postgres: %v", err)
	}
	s.t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

// serverUser returns the user of the server if the test runs as root, and nil otherwise.
func serverUser() (*user.User, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if u, err := user.Lookup("postgres"); err == nil {
		return u, nil
	}
	return user.Lookup("nobody")
}

// give makes the server's user the owner of a file or folder.
func give(path string) error {
	u, err := serverUser()
	if u == nil {
		return err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	return os.Chown(path, uid, gid)
}

// asUser returns the command line that runs a program as the server's user. The process ID is that
// of the program. This user may lack access to the folder of the test, in which some versions of the
// programs do not start.
func asUser(path string, args ...string) []string {
	line := append([]string{path}, args...)
	if u, err := serverUser(); err == nil && u != nil {
		line = append([]string{
			"env", "--chdir=/", "setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups", "--",
		}, line...)
	}
	return line
}

// initialize creates the data folder.
func (s *Server) initialize() error {
	secret := filepath.Join(filepath.Dir(s.folder), "password")
	if err := os.WriteFile(secret, []byte(s.password), 0o600); err != nil {
		return err
	}
	if err := give(secret); err != nil {
		return err
	}
	if _, err := s.program("initdb", "-D", s.folder, "-U", superuser, "--pwfile="+secret, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-sync"); err != nil {
		return err
	}
	return s.configure()
}

// configure appends the settings to the server's files.
func (s *Server) configure() error {
	lines := []string{"listen_addresses = '" + host + "'", "unix_socket_directories = ''", "max_wal_size = 256MB"}
	if !s.opts.Sync {
		lines = append(lines, "fsync = off", "full_page_writes = off")
	}
	hosts := "host"
	if s.opts.CertFile != "" {
		key, err := os.ReadFile(s.opts.KeyFile)
		if err != nil {
			return err
		}
		cert, err := os.ReadFile(s.opts.CertFile)
		if err != nil {
			return err
		}
		for name, content := range map[string][]byte{"server.key": key, "server.crt": cert} {
			if err := s.write(name, content); err != nil {
				return err
			}
		}
		hosts, lines = "hostssl", append(lines, "ssl = on")
	}
	lines = append(lines, s.opts.Settings...)
	const rule = "%s %s all %s/32 scram-sha-256\n"
	access := fmt.Sprintf(rule, hosts, "all", host) + fmt.Sprintf(rule, hosts, "replication", host)
	if err := s.write("pg_hba.conf", []byte(access)); err != nil {
		return err
	}
	return s.write("postgresql.auto.conf", []byte(strings.Join(lines, "\n")+"\n"))
}

// write replaces a file of the data folder.
func (s *Server) write(name string, content []byte) error {
	path := filepath.Join(s.folder, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	return give(path)
}

// start starts the server on a free port.
func (s *Server) start() {
	s.t.Helper()
	s.t.Cleanup(s.cleanup)
	for attempt := 1; ; attempt++ {
		s.port = int(daemon.FreeAddr(s.t).Port())
		err := s.launch()
		if err == nil {
			return
		}
		if attempt == startAttempts || !strings.Contains(err.Error(), "Address already in use") {
			s.t.Fatalf("postgres: %v", err)
		}
	}
}

// launch starts the process, and waits until it answers.
func (s *Server) launch() error {
	line := asUser(filepath.Join(s.bin, "postgres"), "-D", s.folder, "-p", strconv.Itoa(s.port))
	run, err := daemon.Start(line[0], line[1:]...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.run = run
	s.mu.Unlock()
	err = run.WaitReady(startLimit, func() error {
		if !strings.Contains(run.Log(), "ready to accept") {
			return errors.New("the server does not accept connections yet")
		}
		conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		run.Kill()
	}
	return err
}

// Addr returns the address, host:port, of the server.
func (s *Server) Addr() string { return net.JoinHostPort(host, strconv.Itoa(s.port)) }

// Password returns the password of the superuser.
func (s *Server) Password() string { return s.password }

// ConnString returns a connection string of the superuser for a database.
func (s *Server) ConnString(database string) string {
	return s.ConnStringAs(superuser, s.password, database)
}

// ConnStringAs returns a connection string of a user.
func (s *Server) ConnStringAs(name, password, database string) string {
	mode := "disable"
	if s.opts.CertFile != "" {
		mode = "require"
	}
	return (&url.URL{
		Scheme: "postgres", User: url.UserPassword(name, password), Host: s.Addr(), Path: "/" + database,
		RawQuery: "sslmode=" + mode,
	}).String()
}

// Database creates a database, and returns a connection string of the superuser.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", s.databases.Add(1))
	s.Exec(t, "postgres", "CREATE DATABASE "+name)
	return s.ConnString(name)
}

// Exec runs statements as the superuser.
func (s *Server) Exec(t testing.TB, database, sql string) {
	t.Helper()
	if err := s.TryExec(database, sql); err != nil {
		t.Fatalf("postgres: %s: %v", sql, err)
	}
}

// TryExec is Exec, and returns the error.
func (s *Server) TryExec(database, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.ConnString(database))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // the statements have ended
	_, err = conn.Exec(ctx, sql)
	return err
}

// Program runs a client program of PostgreSQL, like pg_dump, as the superuser of the server. It
// returns its output.
func (s *Server) Program(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := s.program(name, args...)
	if err != nil {
		t.Fatalf("postgres: %v", err)
	}
	return out
}

func (s *Server) program(name string, args ...string) (string, error) {
	line := asUser(filepath.Join(s.bin, name), args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "PGHOST="+host, "PGUSER="+superuser, "PGPASSWORD="+s.password, "LC_ALL=C")
	if s.port != 0 { // not for initdb
		cmd.Env = append(cmd.Env, "PGPORT="+strconv.Itoa(s.port))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return string(out), nil
}

// PID returns the process ID of the server.
func (s *Server) PID() int { return s.current().PID() }

// Log returns the end of the output of the server, for each process since Start.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(append(s.log[:len(s.log):len(s.log)], s.run.Log()), "\n")
}

// Stop ends the server and its connections, without waiting for clients. Restart starts it again.
func (s *Server) Stop() {
	_ = syscall.Kill(s.current().PID(), syscall.SIGINT) // a fast shutdown; SIGTERM waits for clients
	s.current().Stop()
}

// Kill ends the server like a crash. Restart starts it again.
func (s *Server) Kill() { s.current().Kill() }

// Restart stops the server if it still runs, and starts it on the same port with the same data.
// Lines are added to the settings.
func (s *Server) Restart(lines ...string) {
	s.t.Helper()
	s.Stop()
	s.mu.Lock()
	s.log = append(s.log, s.run.Log())
	s.opts.Settings = append(s.opts.Settings, lines...)
	s.mu.Unlock()
	if len(lines) > 0 {
		if err := s.configure(); err != nil {
			s.t.Fatalf("postgres: %v", err)
		}
	}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		err := s.launch()
		if err == nil {
			return
		}
		// After a crash, the processes of connections end a moment later.
		if !strings.Contains(err.Error(), "still in use") || time.Since(began) > startLimit {
			s.t.Fatalf("postgres: restart: %v", err)
		}
	}
}

func (s *Server) current() *daemon.Daemon {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}

func (s *Server) cleanup() {
	if s.current() == nil {
		return
	}
	s.Stop()
	if s.t.Failed() {
		s.t.Logf("log of postgres at %s:\n%s", s.Addr(), s.Log())
	}
}

// Pause stops all processes of the server until Resume or the end of the test: it accepts
// connections, but does not answer.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	s.signal(syscall.SIGSTOP)
	t.Cleanup(s.Resume)
}

// Resume ends Pause.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// signal sends a signal to the server and to its children.
func (s *Server) signal(signal syscall.Signal) {
	pid := s.PID()
	_ = syscall.Kill(pid, signal) // first: it starts no more children
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return // not Linux, or the server has ended
	}
	for child := range strings.FieldsSeq(string(children)) {
		if pid, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(pid, signal)
		}
	}
}

// Hold opens a connection, and returns the function that closes it.
func (s *Server) Hold(t testing.TB, connString string) (release func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, connString)
	if err != nil {
		t.Fatalf("postgres: %v", err)
	}
	var once sync.Once
	release = func() { once.Do(func() { _ = conn.Close(context.Background()) }) }
	t.Cleanup(release)
	return release
}

// SharedFolder returns a new folder for files of the server's programs, which run as another user.
func (s *Server) SharedFolder(t testing.TB) string {
	t.Helper()
	folder := s.newFolder("")
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	return folder
}
