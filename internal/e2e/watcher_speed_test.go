// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package e2e_test

import (
	"testing"
	"time"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// TestWatcherStopSpeed: many watches end at once, and so does one that many objects share.
func TestWatcherStopSpeed(t *testing.T) {
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns := client.namespace("stop")
	createSecrets(client, ns, many)
	for name, options := range map[string]dynamicwatcher.Options{"single": {}, "shared": consolidated} {
		t.Run(name, func(t *testing.T) {
			w := startWatcher(t, cluster.Config(), options, nil)
			watchMany(w, ns, many)
			w.settled(many)
			if name == "shared" {
				w.eventuallyShared(client, many, 0)
			}
			if took := w.stop(); took > 300*time.Millisecond {
				t.Errorf("the end of %d watched objects took %v", many, took)
			}
		})
	}
}

// TestWatcherHangingRequestSpeed: beside a request that never ends, watches begin and end as fast as without it.
func TestWatcherHangingRequestSpeed(t *testing.T) {
	p99, end := besideHangingRequest(t)
	if p99 > 30*time.Millisecond {
		t.Errorf("p99 %v", p99)
	}
	if end > 300*time.Millisecond {
		t.Errorf("the end took %v", end)
	}
}
