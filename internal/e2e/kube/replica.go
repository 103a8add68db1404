// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// StartReplica starts a second API server on the etcd of the first, and returns its configuration.
// The replica ends with the test.
func (c *Cluster) StartReplica() *rest.Config {
	c.t.Helper()
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.apiServers()[0]))
	if err != nil {
		c.t.Fatalf("kube: %v", err)
	}
	args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	config, err := c.startReplica(args)
	for range 2 {
		if err == nil || !strings.Contains(err.Error(), "address already in use") {
			break // another process of the tests can take the port between its choice and its use
		}
		config, err = c.startReplica(args)
	}
	if err != nil {
		c.t.Fatalf("kube: start a replica of the API server: %v", err)
	}
	return config
}

// startReplica starts a program with the arguments of an API server, but on another port.
func (c *Cluster) startReplica(args []string) (*rest.Config, error) {
	port := daemon.FreeAddr(c.t).Port()
	for i, arg := range args {
		if strings.HasPrefix(arg, "--secure-port=") {
			args[i] = fmt.Sprintf("--secure-port=%d", port)
		}
	}
	replica, err := daemon.Start(args[0], args[1:]...)
	if err != nil {
		return nil, err
	}
	c.t.Cleanup(replica.Stop)
	config := c.Config()
	config.Host = fmt.Sprintf("127.0.0.1:%d", port)
	client := discovery.NewDiscoveryClientForConfigOrDie(config).RESTClient()
	return config, replica.WaitReady(startLimit, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return client.Get().AbsPath("/readyz").Do(ctx).Error()
	})
}
