// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package gitserver serves a real git repository next to a test: as a folder, over HTTP with git's
// own http-backend, and over SSH.
//
//	server := gitserver.New(t, gitserver.Options{User: "bot", Password: "secret"})
//	connectors, err := git.New(map[string]git.Repository{"*": {URL: server.URL(), …}}, git.Options{})
//	…
//	server.Commit("somebody else was here", map[string]string{"README": "hello"})
//
// Without git, the test is skipped. With the environment variable CI set to "true", it fails
// instead.
package gitserver

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// Options configures a Server. The zero value has a branch main with one file, and requires no
// login.
type Options struct {
	// Empty makes a repository without commits.
	Empty bool
	// User and Password are required over HTTP.
	User, Password string
	// Identity enables TLS for HTTP.
	Identity *certtest.Identity
	// Wrap wraps the handler of the HTTP server.
	Wrap func(http.Handler) http.Handler
	// Config is the git configuration of the repository, for example "receive.denyDeletes": "true".
	Config map[string]string
}

// Server has one bare repository. Its methods may be called concurrently. Methods that can fail the
// test, which are all that run git, may be called only from goroutines of the test.
type Server struct {
	t    testing.TB
	path string
	http *httptest.Server
	env  []string
}

// New makes a repository and serves it until the end of the test.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	program := daemon.Require(t, "git", "git")
	root := t.TempDir()
	s := &Server{t: t, path: filepath.Join(root, "fleet.git")}
	// The user's configuration is not used, and no editor or password prompt may appear.
	s.env = append(os.Environ(), "HOME="+root, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0")
	s.run(root, nil, "init", "-q", "--bare", "-b", "main", s.path)
	for _, key := range slices.Sorted(maps.Keys(o.Config)) {
		s.Git("config", key, o.Config[key])
	}
	if !o.Empty {
		s.Commit("The beginning", map[string]string{"README": "hello\n"})
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(s.run(root, nil, "--exec-path")), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=bot", "HOME=" + root,
			"PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH")},
	}
	backend.Stderr, backend.Logger = io.Discard, log.New(io.Discard, "", 0)
	var handler http.Handler = backend
	if o.Wrap != nil {
		handler = o.Wrap(handler)
	}
	s.http = httptest.NewUnstartedServer(authenticated(o, handler))
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0) // tests break connections on purpose
	if o.Identity != nil {
		s.http.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{o.Identity.Certificate}}
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	t.Cleanup(s.http.Close)
	return s
}

func authenticated(o Options, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		bearer := o.Password != "" && r.Header.Get("Authorization") == "Bearer "+o.Password
		if o.User != "" && !bearer && (user != o.User || password != o.Password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you, "+user+" with "+password+"?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// URL returns the URL of the repository over HTTP.
func (s *Server) URL() string { return s.http.URL + "/" + filepath.Base(s.path) }

// Addr returns the address, host:port, of the HTTP server.
func (s *Server) Addr() string { return s.http.Listener.Addr().String() }

// Path returns the path of the bare repository.
func (s *Server) Path() string { return s.path }

// Git runs git in the repository and returns its output.
func (s *Server) Git(args ...string) string {
	s.t.Helper()
	return s.run(s.path, nil, args...)
}

// Hook installs a shell script as a hook of the repository. An empty script removes the hook.
func (s *Server) Hook(name, script string) {
	s.t.Helper()
	file := filepath.Join(s.path, "hooks", name)
	if script == "" {
		_ = os.Remove(file)
		return
	}
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// Commit adds files on main as another client would, with a fast-forward.
func (s *Server) Commit(message string, files map[string]string) {
	s.t.Helper()
	for {
		if s.tryCommit(message, files) {
			return
		}
	}
}

// tryCommit reports whether the commit was added. It returns false if another commit was faster.
func (s *Server) tryCommit(message string, files map[string]string) bool {
	s.t.Helper()
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit refs/heads/main\ncommitter Rival <rival@example.com> 1700000000 +0000\ndata %d\n%s\n",
		len(message), message)
	tip := s.Tip()
	if tip != "" {
		fmt.Fprintf(&in, "from %s\n", tip)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", name, len(files[name]), files[name])
	}
	cmd := exec.Command("git", "fast-import", "--quiet")
	cmd.Dir, cmd.Env, cmd.Stdin = s.path, s.env, &in
	out, err := cmd.CombinedOutput()
	text := string(out)
	switch {
	case err == nil && !strings.Contains(text, "warning: Not updating"):
		return true
	case strings.Contains(text, "Not updating"), strings.Contains(text, "cannot lock ref"),
		strings.Contains(text, "Unable to update"):
		return false
	}
	s.t.Fatalf("git fast-import: %v\n%s", err, text)
	return false
}

// Tip returns the commit of main, or "" if main has no commit.
func (s *Server) Tip() string {
	s.t.Helper()
	return strings.TrimSpace(s.Git("for-each-ref", "--format=%(objectname)", "refs/heads/main"))
}

// Files returns the files of main with their content.
func (s *Server) Files() map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for name := range strings.SplitSeq(s.Git("-c", "core.quotePath=false", "ls-tree", "-r", "-z", "--name-only", "main"),
		"\x00") {
		if name != "" {
			out[name] = s.Git("cat-file", "blob", "main:"+name)
		}
	}
	return out
}

// Subjects returns the first lines of main's commits, oldest first.
func (s *Server) Subjects() []string {
	s.t.Helper()
	return strings.Split(strings.TrimSpace(s.Git("log", "--reverse", "--format=%s", "main")), "\n")
}

// Check fails the test if the repository is corrupt, or if its history is not linear.
func (s *Server) Check() {
	s.t.Helper()
	s.Git("fsck", "--full", "--strict")
	if merges := s.Git("log", "--merges", "--format=%H", "main"); merges != "" {
		s.t.Errorf("main has merges: %s", merges)
	}
}

func (s *Server) run(folder string, stdin []byte, args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = folder, s.env, bytes.NewReader(stdin)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("git %s: %v\n%s%s", strings.Join(args, " "), err, &out, &complaint)
	}
	return out.String()
}

// Special adds entries to main with other modes than a plain file: 100755, 120000 for a link,
// 160000 for a submodule.
func (s *Server) Special(modes map[string]string) {
	s.t.Helper()
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit refs/heads/main\ncommitter Rival <rival@example.com> 1700000000 +0000\ndata "+
		"7\nspecial\nfrom %s\n", s.Tip())
	for _, name := range slices.Sorted(maps.Keys(modes)) {
		if modes[name] == "160000" {
			fmt.Fprintf(&in, "M 160000 %s %s\n", s.Tip(), name)
			continue
		}
		fmt.Fprintf(&in, "M %s inline %s\ndata 6\ntarget\n", modes[name], name)
	}
	s.run(s.path, in.Bytes(), "fast-import", "--quiet")
}
