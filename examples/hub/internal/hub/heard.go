// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"time"
)

// silence is after how many beats without a word an agent is silent: it, or the way to it, is away.
const silence = 3

// heard returns when the agent of a cluster was last heard of, to the minute, so that the page does not change with each message.
func (h *Hub) heard(cluster string) time.Time { return h.options.Heard(cluster).Truncate(time.Minute) }

// silent reports whether an agent that has works is away. None is before it had the time to be heard of.
func (h *Hub) silent(cluster string) bool {
	last := h.options.Heard(cluster)
	if last.Before(h.began) {
		last = h.began
	}
	return time.Since(last) > silence*h.options.Beat
}

// listen says in each beat that the state may have changed: whoever falls silent does not tell.
func (h *Hub) listen(ctx context.Context) error {
	beat := time.NewTicker(h.options.Beat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			h.options.Changed()
		}
	}
}
