// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// managerFlags disable all controllers that need nodes, and make the two remaining controllers fast
// enough for tests.
var managerFlags = []string{
	"--controllers=garbage-collector-controller,namespace-controller",
	"--leader-elect=false",
	"--kube-api-qps=1000",
	"--kube-api-burst=2000",
	"--bind-address=127.0.0.1",
	"--authentication-skip-lookup=true",
	"--v=2",
}

// StartControllerManager starts kube-controller-manager with the garbage collector and the
// namespace controller. It returns when both work: objects with a deleted owner are deleted, and
// namespaces can be deleted. The garbage collector looks for new types only every 30 seconds, so
// install the CRDs of the test first. StartControllerManager may be called again after
// StopControllerManager. The flags are added to the command line, where the last flag of a name
// counts.
//
// On a [Shared] cluster the first call starts it for all tests, without flags.
func (c *Cluster) StartControllerManager(flags ...string) {
	c.t.Helper()
	path := filepath.Join(assets(c.t, "kube-controller-manager"), "kube-controller-manager")
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.shared {
		if len(flags) > 0 {
			c.mustOwn()
		}
		if c.manager != nil {
			return
		}
	}
	if err := c.startManager(path, daemon.FreeAddr(c.t), flags); err != nil {
		c.t.Fatalf("kube: %v", err)
	}
}

// startManager returns when the manager works, or with an error. Its files are next to those of the
// API server.
func (p *plane) startManager(path string, address netip.AddrPort, flags []string) error {
	folder := filepath.Join(p.folder, "manager")
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(kubeconfig, p.env.KubeConfig, 0o600)); err != nil {
		return err
	}
	own := []string{"--kubeconfig=" + kubeconfig, "--cert-dir=" + folder, fmt.Sprintf("--secure-port=%d", address.Port())}
	manager, err := daemon.Start(path, slices.Concat(own, managerFlags, flags)...)
	if err != nil {
		return err
	}
	p.manager = manager
	transport := &http.Transport{
		// The manager has just created its own certificate.
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec
		DisableKeepAlives: true,
	}
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	return manager.WaitReady(startLimit, func() error {
		response, err := client.Get("https://" + address.String() + "/healthz")
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("healthz: %s", response.Status)
		}
		if !strings.Contains(manager.Log(), "all resource monitors have synced") {
			return fmt.Errorf("the garbage collector has not read all types yet")
		}
		return nil
	})
}

// StopControllerManager ends the controller manager, if it runs.
func (c *Cluster) StopControllerManager() {
	c.t.Helper()
	c.mustOwn()
	c.stopManager()
}

func (p *plane) stopManager() {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.manager != nil {
		p.manager.Stop()
	}
}
