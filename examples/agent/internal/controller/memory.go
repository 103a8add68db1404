// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
)

const (
	// maxMemory limits the decoded manifests of all large works that are served at the same time,
	// in bytes, as an estimate.
	maxMemory = 256 << 20
	// smallWork is the maximum memory of a work that waits for no other work, in bytes.
	smallWork = 1 << 20
	// leastMemory is the minimum that is counted for a large work. It limits the number of large
	// works that are served at the same time.
	leastMemory = 32 << 20
)

// needs returns the source of a work, if it is known, and the memory of the work's decoded
// manifests.
func (c *Controller) needs(name string) (source string, size int) {
	w, err := c.get(name)
	if err != nil || w == nil {
		return "", 0
	}
	return w.Labels[codec.LabelOriginalSource], manifest.Memory(w)
}

// nextLarge serves a large work as soon as there is memory for it. Meanwhile the workers serve
// other works, also if a source has many large works.
func (c *Controller) nextLarge(ctx context.Context, name, source string, size int) {
	defer c.queue.Done(name)
	end, err := c.memory.Take(ctx, source, max(size, leastMemory))
	if err != nil {
		return // the agent stops
	}
	defer end()
	c.serveNow(ctx, name, size)
}
