// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/internal/wait"
)

const (
	installAgain  = 500 * time.Millisecond
	installAtMost = 30 * time.Second
)

// installCRD installs the CRD of AppliedWork on the cluster, unless the cluster has it. While the API
// server is unreachable it retries, until ctx ends.
func installCRD(ctx context.Context, cluster *spoke.Cluster) error {
	for attempt := 0; ; attempt++ {
		err := cluster.Install(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case apierrors.IsForbidden(err):
			return fmt.Errorf("%w: apply the manifests of agent install, which have the CRD and the rights of the agent", err)
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
