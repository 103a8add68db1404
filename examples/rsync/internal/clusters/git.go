// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/git"
)

// gitSettings are what a URL of --git may say after its question mark. Secrets are in files only: command lines can be read by others.
var gitSettings = map[string]func(*git.Repository) *string{
	"branch":         func(r *git.Repository) *string { return &r.Branch },
	"path":           func(r *git.Repository) *string { return &r.Path },
	"user":           func(r *git.Repository) *string { return &r.Auth.Username },
	"password-file":  func(r *git.Repository) *string { return &r.Auth.PasswordFile },
	"token-file":     func(r *git.Repository) *string { return &r.Auth.TokenFile },
	"ssh-key-file":   func(r *git.Repository) *string { return &r.Auth.SSHKeyFile },
	"known-hosts":    func(r *git.Repository) *string { return &r.Auth.KnownHostsFile },
	"ca-file":        func(r *git.Repository) *string { return &r.CAFile },
	createBranchFlag: nil,
}

const createBranchFlag = "create-branch"

// openGit is for clusters that are folders of a repository: git+NAME is in git+NAME, below path.
func openGit(value string) (connector.Connectors, error) {
	at, query, _ := strings.Cut(value, "?")
	settings, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("what follows the question mark is not name=value&name=value") // and may have a password
	}
	if info, err := os.Stat(at); err == nil && info.IsDir() {
		if at, err = filepath.Abs(at); err != nil {
			return nil, err
		}
	}
	repository := git.Repository{URL: at}
	for name, values := range settings {
		field, known := gitSettings[name]
		switch {
		case !known:
			return nil, fmt.Errorf("there is no setting %q, only %s", name, strings.Join(slices.Sorted(maps.Keys(gitSettings)), ", "))
		case len(values) > 1:
			return nil, fmt.Errorf("%s is there %d times", name, len(values))
		case name == createBranchFlag:
			if repository.CreateBranch, err = strconv.ParseBool(values[0]); err != nil {
				return nil, fmt.Errorf("%s is true or false, not %q", name, values[0])
			}
		default:
			*field(&repository) = values[0]
		}
	}
	return git.New(map[string]git.Repository{"git+*": repository}, git.Options{})
}
