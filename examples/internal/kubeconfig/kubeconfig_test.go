// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/examples/internal/kubeconfig"
)

func TestLoad(t *testing.T) {
	write := func(host string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "kubeconfig")
		text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://" + host + "'}}]\n" +
			"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	t.Setenv("KUBECONFIG", write("of-the-environment"))
	for host, file := range map[string]string{"of-the-environment": "", "named": write("named")} {
		if config, err := kubeconfig.Load(file); err != nil || config.Host != "https://"+host {
			t.Errorf("%q: %+v, %v", file, config, err)
		}
	}
	missing := filepath.Join(t.TempDir(), "kubeconfig")
	if _, err := kubeconfig.Load(missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("%v does not name the file", err)
	}
}
