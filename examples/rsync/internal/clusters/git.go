// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/git"
)

// openGit returns the connectors of clusters that are folders of a repository. Cluster git+NAME is
// the folder git+NAME below path.
func openGit(value string) (connector.Connectors, error) {
	at, query, _ := strings.Cut(value, "?")
	if info, err := os.Stat(at); err == nil && info.IsDir() {
		if at, err = filepath.Abs(at); err != nil {
			return nil, err
		}
	}
	repository, createBranch := git.Repository{URL: at}, "false"
	err := readSettings(query, map[string]*string{
		"branch": &repository.Branch, "path": &repository.Path, "create-branch": &createBranch,
		"user": &repository.Auth.Username, "password-file": &repository.Auth.PasswordFile,
		"token-file":   &repository.Auth.TokenFile,
		"ssh-key-file": &repository.Auth.SSHKeyFile, "known-hosts": &repository.Auth.KnownHostsFile,
		"ca-file": &repository.CAFile,
	})
	if err != nil {
		return nil, err
	}
	if repository.CreateBranch, err = strconv.ParseBool(createBranch); err != nil {
		return nil, fmt.Errorf("create-branch: %q: must be true or false", createBranch)
	}
	return git.New(map[string]git.Repository{"git+*": repository}, git.Options{})
}
