// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
)

const (
	// maxMemory is about how many bytes the decoded manifests of all large works take that are
	// served at a time.
	maxMemory = 256 << 20
	// smallWork is the memory of the largest work that waits for no other.
	smallWork = 1 << 20
	// leastMemory is counted for each large work. It bounds how many are served at a time.
	leastMemory = 32 << 20
)

// needs returns the source of a work, if it is known, and the memory of the work's decoded
// manifests.
func (c *Controller) needs(name string) (source string, size int) {
	w, err := c.latest(name)
	if err != nil {
		return "", 0
	}
	return w.Labels[codec.LabelOriginalSource], manifest.Memory(w)
}

// nextLarge serves a large work as soon as there is memory for it. Meanwhile the workers serve
// others: a source with many large works does not occupy them.
func (c *Controller) nextLarge(ctx context.Context, name, source string, size int) {
	defer c.queue.Done(name)
	end, err := c.memory.Take(ctx, source, max(size, leastMemory))
	if err != nil {
		return // the agent stops
	}
	defer end()
	c.serveNow(ctx, name, size)
}
