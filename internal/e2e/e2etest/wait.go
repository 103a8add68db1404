// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2etest has helpers for the end-to-end tests of all packages. They wait for a condition,
// run a function in the background of a test, build the example programs, and measure processes.
package e2etest

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/spokewire/sdk-go/internal/testing/background"
)

// Patience limits each wait. It is long because other packages' tests run at the same time.
const Patience = 90 * time.Second

// Eventually waits until check returns nil. It checks often at first, because most conditions hold
// soon, and then less often: each check takes processor time from the tested programs.
func Eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	pause := wait.Backoff{Duration: 10 * time.Millisecond, Factor: 1.3, Steps: 20, Cap: 200 * time.Millisecond}
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-time.After(pause.Step()):
		case <-deadline.C:
			t.Fatalf("%s: not within %s: %v", what, Patience, err)
		}
	}
}

// Background runs f until the end of the test, or until stop. stop waits until f returns. An error
// of f fails the test.
func Background(t testing.TB, f func(context.Context) error) (stop func()) {
	return background.Run(t, f)
}
