// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/rsync/connector"
)

// ErrInvalid is wrapped by the errors of [New]: the configuration is invalid.
var ErrInvalid = errors.New("git: the configuration is invalid")

// Repository is a branch of a repository, and a folder in it. Repositories with the same URL and
// Branch may differ only in Path. A value prints without credentials.
type Repository struct {
	// URL is https://host/path, ssh://user@host/path or user@host:path. A repository on this
	// machine is file:///path or /path, and requires the program git. http is for tests: see
	// PlainHTTP. The only credential in a URL is the user of ssh.
	URL string
	// Branch is the branch for commits. Defaults to "main".
	Branch string
	// Path is the folder of the clusters' folders, with slashes between its parts but not at its
	// ends. Defaults to the root.
	Path string
	// CreateBranch makes the first Apply create a missing branch, also in an empty repository. The
	// branch then has its own history. Without CreateBranch, a missing branch is an error.
	CreateBranch bool
	// Auth has the credentials.
	Auth Auth
	// CAFile holds the CAs of an https server in PEM, instead of the system's. Each call reads it.
	CAFile string
	// PlainHTTP allows an http URL with credentials, which are then readable on the network.
	PlainHTTP bool
}

// Auth has credentials for the scheme of the URL. Files are read again for each call, so they can
// be replaced. Line breaks at their ends are ignored. A value prints without secrets, also as JSON.
type Auth struct {
	// Username is the user of basic authentication over https. For ssh it is the user if the URL
	// has no user, and defaults to "git".
	Username string
	// Password, or PasswordFile, is the password. Most forges take an access token in its place.
	Password, PasswordFile string
	// Token, or TokenFile, is sent over https as a bearer token, in place of user and password.
	Token, TokenFile string
	// SSHKeyFile is a private key in a form that OpenSSH reads. SSHPassphrase decrypts it. Agents
	// and configuration files of ssh are not used.
	SSHKeyFile, SSHPassphrase string
	// KnownHostsFile has the keys of servers in the format of OpenSSH. It is required for an ssh
	// URL, because no server is trusted without its key.
	KnownHostsFile string
}

// String returns the kinds of the credentials, without the credentials.
func (a Auth) String() string {
	switch {
	case a.Token != "" || a.TokenFile != "":
		return "{token [redacted]}"
	case a.SSHKeyFile != "":
		return "{ssh key [redacted]}"
	case a.Username != "" || a.Password != "" || a.PasswordFile != "":
		return "{user [redacted]}"
	}
	return "{}"
}

// GoString is String.
func (a Auth) GoString() string { return a.String() }

// MarshalText is String, for JSON and structured logs.
func (a Auth) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Signature is the author of a commit.
type Signature struct{ Name, Email string }

// Options configures [New]; the zero value is useful.
type Options struct {
	// Author is the author of commits. Defaults to rsync <rsync@localhost>.
	Author Signature
	// Message returns the message of a commit. It may be called several times for a commit.
	// Defaults to [Message].
	Message func(Commit) string
	// Status may change the states that Get returns, for example after a request to the cluster or
	// its agent. The states are in the order of the batch. Get returns the errors of Status. It may
	// be called concurrently.
	Status func(ctx context.Context, batch connector.Batch, states []connector.State) error
	// PushAttempts limits the attempts to push while other writers push to the branch. After the
	// last attempt the error is retryable. Defaults to 10.
	PushAttempts int
	// MaxFetchBytes limits one compressed answer of the server, and the memory for the folders of a
	// repository, in bytes. A larger repository is a terminal error. Defaults to 256 MiB.
	MaxFetchBytes int64
	// MaxManifestBytes limits one manifest. Defaults to 1.5 MiB, as in API servers.
	MaxManifestBytes int
	// Clock is the clock for the times of commits. Defaults to the real clock.
	Clock clock.Clock
}

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.PushAttempts < 0 || o.MaxFetchBytes < 0 || o.MaxManifestBytes < 0:
		return o, fmt.Errorf("%w: Options.PushAttempts, MaxFetchBytes and MaxManifestBytes: must not be negative", ErrInvalid)
	case strings.ContainsAny(o.Author.Name+o.Author.Email, "<>\n\x00"):
		return o, fmt.Errorf("%w: Options.Author: the name and address must not have <, > or line breaks", ErrInvalid)
	}
	o.Author.Name = cmp.Or(o.Author.Name, "rsync")
	o.Author.Email = cmp.Or(o.Author.Email, "rsync@localhost")
	o.PushAttempts = cmp.Or(o.PushAttempts, 10)
	o.MaxFetchBytes = cmp.Or(o.MaxFetchBytes, 256<<20)
	o.MaxManifestBytes = cmp.Or(o.MaxManifestBytes, 3<<19)
	if o.Message == nil {
		o.Message = Message
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o, nil
}

// withDefaults also validates.
func (r Repository) withDefaults() (Repository, error) {
	r.Branch = cmp.Or(r.Branch, "main")
	if err := plumbing.NewBranchReferenceName(r.Branch).Validate(); err != nil || strings.HasPrefix(r.Branch, "refs/") {
		return r, fmt.Errorf("%w: Repository.Branch: %q: must be a short name, for example main", ErrInvalid, r.Branch)
	}
	if err := checkPath(r.Path); err != nil {
		return r, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if a := r.Auth; a.Password != "" && a.PasswordFile != "" || a.Token != "" && a.TokenFile != "" {
		return r, fmt.Errorf("%w: a secret and a file for it exclude each other", ErrInvalid)
	}
	if err := r.checkURL(); err != nil {
		return r, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return r, nil
}

// checkURL validates the URL. Its errors never quote the URL, which may contain a password.
func (r Repository) checkURL() error {
	a := r.Auth
	secret := a.Password+a.PasswordFile+a.Token+a.TokenFile != ""
	u, err := url.Parse(r.URL)
	switch {
	case r.URL == "":
		return errors.New("Repository.URL: must not be empty")
	case filepath.IsAbs(r.URL):
		return nil
	case isSCP(r.URL):
		if user, rest, _ := strings.Cut(r.URL, ":"); !strings.Contains(user, "@") && strings.Contains(rest, "@") {
			return errors.New("the short URL must be user@host:path, with credentials in Auth")
		}
		return a.checkSSH(secret)
	case err != nil:
		return errors.New("the URL cannot be parsed")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("the URL has a query or a fragment")
	}
	if _, password := u.User.Password(); password || u.User != nil && u.Scheme != "ssh" {
		return errors.New("the URL has credentials: set them in Auth")
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" {
			return errors.New("a file URL must have three slashes: file:///path")
		}
		return nil
	case "ssh":
		return a.checkSSH(secret)
	case "http", "https":
		if u.Host == "" {
			return errors.New("the URL has no host")
		}
		if a.SSHKeyFile != "" || a.KnownHostsFile != "" {
			return errors.New("an http or https URL does not support SSH keys and known hosts")
		}
		if (a.Password+a.PasswordFile != "") && (a.Token+a.TokenFile != "") {
			return errors.New("a password and a token exclude each other")
		}
		if u.Scheme == "http" && secret && !r.PlainHTTP {
			return errors.New("http does not encrypt the credentials: use https, or set PlainHTTP")
		}
		return nil
	}
	return fmt.Errorf("the URL's scheme %q: must be https, ssh, file or http", u.Scheme)
}

func (a Auth) checkSSH(secret bool) error {
	switch {
	case secret:
		return errors.New("an ssh URL does not support passwords and tokens: set SSHKeyFile")
	case a.SSHKeyFile == "":
		return errors.New("an ssh URL needs Auth.SSHKeyFile")
	case a.KnownHostsFile == "":
		return errors.New("an ssh URL needs Auth.KnownHostsFile to verify the server")
	}
	return nil
}

// isSCP reports whether a URL is of the short form user@host:path.
func isSCP(s string) bool {
	host, _, ok := strings.Cut(s, ":")
	return ok && !strings.Contains(s, "://") && !strings.Contains(host, "/")
}
