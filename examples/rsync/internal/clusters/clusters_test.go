// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clusters_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/examples/rsync/internal/clusters"
	"github.com/spokewire/sdk-go/rsync/connector"
)

func TestMux(t *testing.T) {
	mux, err := clusters.Open(map[string]string{"fake": "2"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := mux.Connector(t.Context(), "fake", "cluster2")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Probe(t.Context()), c.Close()); err != nil {
		t.Error(err)
	}
	for _, tt := range [][3]string{
		{"edge", "cluster1", `unknown provider "edge": must be one of fake`},
		{"fake", "cluster3", "must be cluster1 to cluster2"},
		{"fake", "cluster0", "must be cluster1 to cluster2"},
		{"fake", "cluster01", "must be cluster1 to cluster2"},
		{"fake", "1", "must be cluster1 to cluster2"},
	} {
		_, err := mux.Connector(t.Context(), tt[0], tt[1])
		if !errors.Is(err, connector.ErrTerminal) || !strings.Contains(err.Error(), tt[2]) {
			t.Errorf("%s+%s: %v, want %q", tt[0], tt[1], err, tt[2])
		}
	}
	dir := t.TempDir()
	if mux, err = clusters.Open(map[string]string{"kubeconfig-dir": dir}); err != nil {
		t.Fatal(err)
	}
	if c, err = mux.Connector(t.Context(), "kube", "c1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Probe(t.Context()); !errors.Is(err, connector.ErrTerminal) ||
		!strings.Contains(err.Error(), dir+"/c1.kubeconfig does not exist") {
		t.Errorf("without a kubeconfig: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{dir + "/nothing", "clusters_test.go"} {
		if _, err := clusters.Open(map[string]string{"kubeconfig-dir": bad}); err == nil ||
			!strings.Contains(err.Error(), "--kubeconfig-dir: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, bad := range []string{"", "0", "many", "10001"} {
		if _, err := clusters.Open(map[string]string{"fake": bad}); err == nil || !strings.Contains(err.Error(), "--fake: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
