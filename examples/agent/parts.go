// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/internal/wait"
)

// part is a component that runs until ctx ends.
type part func(context.Context) error

// together runs all parts, and stops all when one ends.
func together(ctx context.Context, parts ...part) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(parts))
	var group sync.WaitGroup
	for i, p := range parts {
		group.Go(func() {
			defer cancel()
			errs[i] = p(ctx)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

const (
	installAgain  = 500 * time.Millisecond
	installAtMost = 30 * time.Second
)

// install installs the CRD on the cluster. While the API server is unreachable it retries, until
// ctx ends.
func install(ctx context.Context, cluster *spoke.Cluster, stdout io.Writer) error {
	for attempt := 0; ; attempt++ {
		err := cluster.Install(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil || !spoke.Away(err):
			return err
		case attempt == 0:
			fmt.Fprintf(stdout, "not yet   %v; the agent retries until the API server answers\n", err)
		}
		if wait.Sleep(ctx, clock.RealClock{}, wait.Backoff(installAgain, installAtMost, attempt)) != nil {
			return nil
		}
	}
}
