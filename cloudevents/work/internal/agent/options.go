// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
)

// Options configures an [Agent]. Package work documents and checks them.
type Options struct {
	peer.Options
	ClusterName, AgentID string
	Sources              []string
	// PartialLists is whether lists and watches do not wait for the initial sync.
	PartialLists bool
	// QuietTime is how long a source that marks no end of its answers must send no event before it
	// counts as complete.
	QuietTime                time.Duration
	PartialSyncTimeout       time.Duration // 0 is never
	MaxSourceBytes, MaxBytes int64
}
