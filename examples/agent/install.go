// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/internal/wait"
)

const (
	installAgain  = 500 * time.Millisecond
	installAtMost = 30 * time.Second
)

// install installs the CRD on the cluster. While the API server is unreachable it retries, until
// ctx ends.
func install(ctx context.Context, cluster *spoke.Cluster) error {
	for attempt := 0; ; attempt++ {
		err := cluster.Install(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil || !spoke.Away(err):
			return err
		case attempt == 0:
			klog.FromContext(ctx).Error(err, "Failed to reach the API server, retrying until it answers")
		}
		if wait.Sleep(ctx, clock.RealClock{}, wait.Backoff(installAgain, installAtMost, attempt)) != nil {
			return nil
		}
	}
}
