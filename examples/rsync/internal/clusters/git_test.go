// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clusters_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/examples/rsync/internal/clusters"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/gitserver"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// applyToGit applies a manifest to git+edge1 with a value of --git.
func applyToGit(t *testing.T, value, manifest string) error {
	t.Helper()
	mux, err := clusters.Open(map[string]string{"git": value})
	if err != nil {
		return err
	}
	c, err := mux.Connector(t.Context(), "git", "edge1")
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return c.Apply(t.Context(),
		connector.Batch{AppContextID: "v1", App: "x", Cluster: appcontext.ClusterID{Provider: "git", Name: "edge1"},
			Resources: []appcontext.Resource{{Object: appcontext.Object{Kind: "ConfigMap", Namespace: "shop", Name: "a"},
				Manifest: []byte(manifest)}}})
}

// TestGit checks that each form of repository URL leads to the requested branch and folder.
func TestGit(t *testing.T) {
	const manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}}\n"
	folder := t.TempDir()
	secret, ca := filepath.Join(folder, "secret"), certtest.New(t)
	if err := os.WriteFile(secret, []byte("s3cr3t\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		reason string
		server gitserver.Options
		value  func(*gitserver.Server) string
		file   string // with its branch
	}{
		{"a folder", gitserver.Options{}, func(s *gitserver.Server) string { return s.Path() }, "main:git+edge1"},
		{"a folder from here", gitserver.Options{}, func(s *gitserver.Server) string {
			t.Chdir(filepath.Dir(s.Path()))
			return filepath.Base(s.Path())
		}, "main:git+edge1"},
		{
			"an empty repository", gitserver.Options{Empty: true},
			func(s *gitserver.Server) string { return "file://" + s.Path() + "?create-branch=true&branch=fleet" },
			"fleet:git+edge1",
		},
		{"no credentials", gitserver.Options{}, func(s *gitserver.Server) string { return s.URL() + "?path=a/b" },
			"main:a/b/git+edge1"},
		{
			"a password, and an authority of our own",
			gitserver.Options{User: "bot", Password: "s3cr3t", Identity: ca.Issue(t, "git")},
			func(s *gitserver.Server) string {
				return s.URL() + "?user=bot&password-file=" + secret + "&ca-file=" + ca.Write(t, folder, "ca")
			}, "main:git+edge1",
		},
		{
			"a token", gitserver.Options{User: "bot", Password: "s3cr3t", Identity: ca.Issue(t, "git")},
			func(s *gitserver.Server) string {
				return s.URL() + "?token-file=" + secret + "&ca-file=" + ca.Write(t, folder, "ca")
			}, "main:git+edge1",
		},
		{"ssh", gitserver.Options{}, func(s *gitserver.Server) string {
			way := s.SSH()
			return way.URL + "?ssh-key-file=" + way.KeyFile + "&known-hosts=" + way.KnownHostsFile
		}, "main:git+edge1"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			server := gitserver.New(t, tt.server)
			if err := applyToGit(t, tt.value(server), manifest); err != nil {
				t.Fatal(err)
			}
			if got := server.Git("cat-file", "blob", tt.file+"/shop/ConfigMap/a.yaml"); got != manifest {
				t.Errorf("the file has %q", got)
			}
		})
	}
}

// TestGitURL checks that an invalid URL is reported when the program starts, without any secret in
// it.
func TestGitURL(t *testing.T) {
	for value, want := range map[string]string{
		"":                                    "URL: must not be empty",
		"https://bot:s3cr3t@host/fleet.git":   "credentials",
		"https://host/fleet.git?token=s3cr3t": `unknown setting "token": must be one of branch, ca-file`,
		"/fleet.git?branch=a&branch=b":        "branch is given 2 times",
		"/fleet.git?branch=a..b":              "must be a short name",
		"/fleet.git?create-branch=yes!":       `create-branch: "yes!": must be true or false`,
		"/fleet.git?%zz=s3cr3t":               "name=value",
		"/fleet.git?path=/a":                  "path",
		"ssh://git@host/fleet.git":            "SSHKeyFile",
		"ftp://host/fleet.git":                "scheme",
	} {
		_, err := clusters.Open(map[string]string{"git": value})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "--git: ") ||
			strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%q: %v, want %q", value, err, want)
		}
	}
	server := gitserver.New(t, gitserver.Options{})
	err := applyToGit(t, server.Path()+"?branch=other",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}}")
	if !errors.Is(err, connector.ErrTerminal) || !strings.Contains(err.Error(), "there is no such branch") {
		t.Errorf("a branch that does not exist: %v", err)
	}
}
