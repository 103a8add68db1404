// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/gitserver"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/git"
)

// refusedBy expects that reads and writes fail with a class and a text that never contains a
// secret. Probe must fail only if the class is ErrUnreachable.
func refusedBy(t *testing.T, c connector.Connector, want error, text string) {
	t.Helper()
	_, getErr := c.Get(t.Context(), batch("a"))
	for verb, err := range map[string]error{"Apply": c.Apply(t.Context(), batch("a=1")),
		"Delete": c.Delete(t.Context(), batch("a")), "Get": getErr} {
		class(t, err, want)
		if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "branch main of ") {
			t.Errorf("%s: %v, want %q and the repository", verb, err, text)
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), "s3cr3t") {
			t.Errorf("%s: the error has a secret: %#v", verb, err)
		}
	}
	if err := c.Probe(t.Context()); (err == nil) == errors.Is(want, connector.ErrUnreachable) {
		t.Errorf("Probe: %v where calls get class %v", err, want)
	}
}

func TestNoBranch(t *testing.T) {
	for _, empty := range []bool{false, true} {
		t.Run(fmt.Sprint("empty ", empty), func(t *testing.T) { testNoBranch(t, empty) })
	}
}

func testNoBranch(t *testing.T, empty bool) {
	eachWay(t, gitserver.Options{Empty: empty}, func(t *testing.T, s served) {
		s.at.Branch = "main"
		if !empty {
			s.server.Git("branch", "-m", "main", "other")
		}
		refusedBy(t, open(t, s.at, git.Options{}), connector.ErrTerminal,
			"there is no such branch: create it, or set CreateBranch")
		s.at.CreateBranch = true
		c := open(t, s.at, git.Options{})
		if states, err := c.Get(t.Context(), batch("a")); err != nil || states[0].Exists {
			t.Errorf("Get: %+v, %v", states, err)
		}
		if err := c.Delete(t.Context(), batch("a")); err != nil || s.server.Tip() != "" {
			t.Errorf("Delete: %v, and the tip is %q", err, s.server.Tip())
		}
		apply(t, c, "a=1")
		apply(t, c, "a=2")
		if got := s.server.Subjects(); len(got) != 2 {
			t.Errorf("commits are %v", got)
		}
		s.server.Check()
	})
}

// TestNameOfBranchIsTaken: git cannot have a branch main/x next to a branch main.
func TestNameOfBranchIsTaken(t *testing.T) {
	s := ways["http"](t, gitserver.Options{})
	s.at.Branch, s.at.CreateBranch = "main/x", true
	err := open(t, s.at, git.Options{}).Apply(t.Context(), batch("a=1"))
	if class(t, err, connector.ErrTerminal); !strings.Contains(fmt.Sprint(err), "there is a branch main") {
		t.Errorf("%v, want what is in the way", err)
	}
}

func TestRefusals(t *testing.T) {
	tests := map[string]struct {
		reason string
		at     func(t *testing.T) git.Repository
		class  error
		text   string
	}{
		"wrong password": {
			reason: "it will not become right", class: connector.ErrTerminal,
			text: "the server does not accept the credentials: check Auth",
			at: func(t *testing.T) git.Repository {
				s := ways["https"](t, gitserver.Options{})
				s.at.Auth.Password = "s3cr3t-and-wrong"
				return s.at
			},
		},
		"no rights": {
			reason: "nor does it change by itself", class: connector.ErrTerminal, text: "the server denies access",
			at: func(t *testing.T) git.Repository { return answers(t, http.StatusForbidden) },
		},
		"no repository over http": {
			reason: "somebody has to make it", class: connector.ErrTerminal, text: "there is no such repository",
			at: func(t *testing.T) git.Repository {
				s := ways["http"](t, gitserver.Options{})
				s.at.URL = strings.Replace(s.at.URL, "fleet", "other", 1)
				return s.at
			},
		},
		"no repository in the file system": {
			reason: "the same", class: connector.ErrTerminal, text: "there is no such repository",
			at: func(t *testing.T) git.Repository { return git.Repository{URL: filepath.Join(t.TempDir(), "nothing")} },
		},
		"a folder that is none": {
			reason: "the same", class: connector.ErrTerminal, text: "does not appear to be a git repository",
			at: func(t *testing.T) git.Repository { return git.Repository{URL: t.TempDir()} },
		},
		"no repository over ssh": {
			reason: "the same", class: connector.ErrTerminal, text: "does not appear to be a git repository",
			at: func(t *testing.T) git.Repository {
				s := ways["ssh"](t, gitserver.Options{})
				s.at.URL += "x"
				return s.at
			},
		},
		"another ssh key": {
			reason: "it will not become right", class: connector.ErrTerminal,
			text: "the server does not accept the key: check Auth",
			at: func(t *testing.T) git.Repository {
				s, other := ways["ssh"](t, gitserver.Options{}), gitserver.New(t, gitserver.Options{}).SSH()
				s.at.Auth.SSHKeyFile = other.KeyFile
				return s.at
			},
		},
		"unknown host": {
			reason: "no server is trusted unseen", class: connector.ErrTerminal, text: "the server is not in KnownHostsFile",
			at: func(t *testing.T) git.Repository {
				s := ways["ssh"](t, gitserver.Options{})
				s.at.Auth.KnownHostsFile = write(t, "")
				return s.at
			},
		},
		"another host": {
			reason: "somebody else answers", class: connector.ErrTerminal, text: "differs from KnownHostsFile",
			at: func(t *testing.T) git.Repository {
				s, other := ways["ssh"](t, gitserver.Options{}), gitserver.New(t, gitserver.Options{}).SSH()
				other.Know(t, s.proxy.Addr())
				s.at.Auth.KnownHostsFile = other.KnownHostsFile
				return s.at
			},
		},
		"another authority": {
			reason: "the server has another name", class: connector.ErrTerminal,
			text: "certificate cannot be verified, check CAFile",
			at: func(t *testing.T) git.Repository {
				s := ways["https"](t, gitserver.Options{})
				s.at.CAFile = certtest.New(t).Write(t, t.TempDir(), "other")
				return s.at
			},
		},
		"expired certificate": {
			reason: "the server's people will see to it", class: connector.ErrUnreachable, text: "certificate has expired",
			at: func(t *testing.T) git.Repository {
				ca := certtest.New(t)
				s := gitserver.New(t, gitserver.Options{Identity: ca.IssueUntil(t, "git", time.Now().Add(-time.Minute))})
				return git.Repository{URL: s.URL(), CAFile: ca.Write(t, t.TempDir(), "ca")}
			},
		},
		"a file that is missing": {
			reason: "it may be replaced just now", class: connector.ErrRetryable, text: "no such file",
			at: func(t *testing.T) git.Repository {
				s := ways["https"](t, gitserver.Options{})
				s.at.Auth.Password, s.at.Auth.PasswordFile = "", filepath.Join(t.TempDir(), "password")
				return s.at
			},
		},
		"nobody listens": {
			reason: "it may come back", class: connector.ErrUnreachable, text: "refused",
			at: func(t *testing.T) git.Repository { return git.Repository{URL: "http://127.0.0.1:1/fleet.git"} },
		},
		"a gateway without its server": {
			reason: "the same", class: connector.ErrUnreachable, text: "the server answered 502 Bad Gateway",
			at: func(t *testing.T) git.Repository { return answers(t, http.StatusBadGateway) },
		},
		"a broken server": {reason: "it answers", class: connector.ErrRetryable, text: "500",
			at: func(t *testing.T) git.Repository { return answers(t, 500) }},
		"too many requests": {reason: "later", class: connector.ErrRetryable, text: "429",
			at: func(t *testing.T) git.Repository { return answers(t, 429) }},
		"gone": {reason: "never", class: connector.ErrTerminal, text: "410 Gone",
			at: func(t *testing.T) git.Repository { return answers(t, 410) }},
		"no git server": {reason: "it may be a page of somebody on the way", class: connector.ErrRetryable,
			text: "the server does not speak git's protocol", at: func(t *testing.T) git.Repository { return answers(t, 200) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			refusedBy(t, open(t, test.at(t), git.Options{}), test.class, test.text)
		})
	}
}

// answers returns a server that sends the same status to every request. The body repeats the
// headers of the request.
func answers(t *testing.T, status int) git.Repository {
	s := gitserver.New(t, gitserver.Options{Empty: true, Wrap: func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			fmt.Fprintf(w, "you said %v %s", r.Header, strings.Repeat("and so on ", 10000))
		})
	}})
	return git.Repository{URL: s.URL(), PlainHTTP: true, Auth: git.Auth{Username: "bot", Password: "s3cr3t"}}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestCredentials: credential files are read again for each call, and tokens work.
func TestCredentials(t *testing.T) {
	s := ways["https"](t, gitserver.Options{})
	file, ca := write(t, "old\n"), s.at.CAFile
	good, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	s.at.Auth, s.at.CAFile = git.Auth{TokenFile: file}, write(t, "not a certificate")
	c := open(t, s.at, git.Options{})
	replace := func(file string, text []byte) {
		t.Helper()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refusedBy(t, c, connector.ErrRetryable, "it has no certificate in PEM")
	replace(s.at.CAFile, good)
	refusedBy(t, c, connector.ErrTerminal, "the server does not accept the credentials")
	replace(file, nil)
	refusedBy(t, c, connector.ErrRetryable, "it is empty")
	replace(file, []byte("s3cr3t-word\r\n"))
	apply(t, c, "a=1")
}

// TestPrintedValuesHaveNoSecrets: a printed value never shows its secrets.
func TestPrintedValuesHaveNoSecrets(t *testing.T) {
	at := git.Repository{URL: "https://example.com/x.git",
		Auth: git.Auth{Username: "bot", Password: "s3cr3t", Token: "s3cr3t", SSHPassphrase: "s3cr3t"}}
	text, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, auth := range []git.Auth{at.Auth, {Password: "s3cr3t"}, {SSHKeyFile: "x", SSHPassphrase: "s3cr3t"}, {}} {
		printed := fmt.Sprintf("%v %+v %#v %s", auth, auth, auth, auth)
		if strings.Contains(printed, "s3cr3t") || (auth != git.Auth{}) != strings.Contains(printed, "[redacted]") {
			t.Errorf("%s", printed)
		}
	}
	if printed := fmt.Sprintf("%v %+v %#v %s", at, at, at, text); strings.Contains(printed, "s3cr3t") ||
		!strings.Contains(printed, "example.com") {
		t.Errorf("%s", printed)
	}
}

// TestTooLarge: a repository that exceeds MaxFetchBytes is refused, for its size on the wire and in
// memory.
func TestTooLarge(t *testing.T) {
	eachWay(t, gitserver.Options{}, func(t *testing.T, s served) {
		files := map[string]string{}
		for i := range 500 {
			files[fmt.Sprintf("folder-with-a-long-name-%d/file", i)] = fmt.Sprint(i)
		}
		s.server.Commit("many", files)
		refusedBy(t, open(t, s.at, git.Options{MaxFetchBytes: 10_000}), connector.ErrTerminal,
			"larger than Options.MaxFetchBytes")
		apply(t, open(t, s.at, git.Options{MaxFetchBytes: 500_000}), "a=1")
	})
}

func TestConfiguration(t *testing.T) {
	ssh := git.Auth{SSHKeyFile: "id", KnownHostsFile: "known_hosts"}
	for name, test := range map[string]struct {
		key     string
		at      git.Repository
		options git.Options
		want    string
	}{
		"no URL": {want: "Repository.URL: must not be empty"},
		"URL with password": {at: git.Repository{URL: "https://bot:s3cr3t@example.com/x.git"},
			want: "the URL has credentials"},
		"URL with token": {at: git.Repository{URL: "https://s3cr3t@example.com/x.git"}, want: "the URL has credentials"},
		"broken URL":     {at: git.Repository{URL: "https://bot:s3cr3t@exa mple.com/%"}, want: "cannot be parsed"},
		"git protocol":   {at: git.Repository{URL: "git://example.com/x.git"}, want: `the URL's scheme "git"`},
		"relative":       {at: git.Repository{URL: "x.git"}, want: "the URL's scheme"},
		"query":          {at: git.Repository{URL: "https://example.com/x.git?token=s3cr3t"}, want: "query"},
		"no host":        {at: git.Repository{URL: "https:///x.git"}, want: "no host"},
		"plain": {at: git.Repository{URL: "http://example.com/x.git", Auth: git.Auth{Token: "s3cr3t"}},
			want: "use https"},
		"both": {at: git.Repository{URL: "https://example.com/x.git",
			Auth: git.Auth{Token: "s3cr3t", Password: "x"}}, want: "exclude each other"},
		"file and value": {at: git.Repository{URL: "https://example.com/x.git",
			Auth: git.Auth{Token: "s3cr3t", TokenFile: "x"}}, want: "exclude each other"},
		"ssh for https": {at: git.Repository{URL: "https://example.com/x.git", Auth: ssh},
			want: "does not support SSH keys"},
		"no key": {at: git.Repository{URL: "git@example.com:x.git"}, want: "needs Auth.SSHKeyFile"},
		"no hosts": {at: git.Repository{URL: "ssh://example.com/x.git", Auth: git.Auth{SSHKeyFile: "id"}},
			want: "needs Auth.KnownHostsFile"},
		"password for ssh": {at: git.Repository{URL: "ssh://example.com/x.git", Auth: git.Auth{Password: "s3cr3t"}},
			want: "an ssh URL does not support passwords"},
		"short with password": {at: git.Repository{URL: "bot:s3cr3t@example.com:x.git", Auth: ssh}, want: "user@host:path"},
		"long branch":         {at: git.Repository{URL: "/x", Branch: "refs/heads/main"}, want: "must be a short name"},
		"bad branch":          {at: git.Repository{URL: "/x", Branch: "a..b"}, want: "must be a short name"},
		"path out":            {at: git.Repository{URL: "/x", Path: "a/../.."}, want: `has the part ".."`},
		"path into git":       {at: git.Repository{URL: "/x", Path: "a/.GIT"}, want: "git rejects"},
		"path from top":       {at: git.Repository{URL: "/x", Path: "/a"}, want: "begins or ends with a slash"},
		"path with control":   {at: git.Repository{URL: "/x", Path: "a\n"}, want: "has the character"},
		"key":                 {key: "edge", at: git.Repository{URL: "/x"}, want: `key "edge"`},
		"negative":            {at: git.Repository{URL: "/x"}, options: git.Options{PushAttempts: -1}, want: "negative"},
		"author": {at: git.Repository{URL: "/x"}, options: git.Options{Author: git.Signature{Name: "a\nb"}},
			want: "Author"},
	} {
		t.Run(name, func(t *testing.T) {
			key := test.key
			if key == "" {
				key = "*"
			}
			_, err := git.New(map[string]git.Repository{key: test.at}, test.options)
			if !errors.Is(err, git.ErrInvalid) || !strings.Contains(err.Error(), test.want) ||
				strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("%v, want ErrInvalid with %q", err, test.want)
			}
		})
	}
	at := git.Repository{URL: "git@example.com:fleet.git", Auth: ssh}
	other := at
	other.Auth.SSHKeyFile = "other"
	if _, err := git.New(map[string]git.Repository{"edge+*": at, "core+*": other}, git.Options{}); !errors.Is(err,
		git.ErrInvalid) {
		t.Errorf("two keys for one branch: %v", err)
	}
	other = at
	other.Path = "core"
	connectors, err := git.New(map[string]git.Repository{"edge+*": at, "core+c1": other}, git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = openCluster(t, connectors, edge1)
	if _, err := connectors.Connector(t.Context(), "core", "c2"); !errors.Is(err, connector.ErrTerminal) ||
		!strings.Contains(err.Error(), "core+c2") {
		t.Errorf("a cluster without a repository: %v", err)
	}
}

// TestMostSpecificKeyApplies: the most specific key applies.
func TestMostSpecificKeyApplies(t *testing.T) {
	s := ways["file"](t, gitserver.Options{})
	at := func(path string) git.Repository {
		out := s.at
		out.Path = path
		return out
	}
	connectors, err := git.New(map[string]git.Repository{"edge+c1": at("one"), "edge+*": at("edge"), "*": at("rest")},
		git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"edge c1 one", "edge c2 edge", "core c1 rest"} {
		var provider, cluster, path string
		if _, err := fmt.Sscan(id, &provider, &cluster, &path); err != nil {
			t.Fatal(err)
		}
		c, err := connectors.Connector(t.Context(), provider, cluster)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, c, "a=1")
		if err := errors.Join(c.Close(), c.Close()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if _, ok := s.server.Files()[path+"/"+provider+"+"+cluster+"/shop/ConfigMap/a.yaml"]; !ok {
			t.Errorf("%s is not there", id)
		}
	}
}
