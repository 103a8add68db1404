// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"strings"
	"testing"
)

// TestKubectl runs a script with kubectl's verbs.
func TestKubectl(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.agent("cluster1")
	out, err := s.command(s.cluster.Kubeconfig(), "bash", "testdata/kubectl.sh")
	if err != nil || !strings.HasSuffix(out, "\nPASS\n") {
		t.Fatalf("testdata/kubectl.sh: %v\n%s", err, out)
	}
	if log := s.server.Log(); strings.Contains(log, "is forbidden") {
		t.Errorf("the manifests lack rights: the log of the server is\n%s", log)
	}
}
