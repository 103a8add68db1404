// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"time"
)

// silence is the number of beats without a message after which an agent is silent: the agent or its
// connection is down.
const silence = 3

// silent reports whether an agent with works is silent. An agent is not silent until the hub has
// run for that time.
func (v *view) silent(cluster string) bool {
	last := v.reports[cluster]
	if last.Before(v.began) {
		last = v.began
	}
	return time.Since(last) > silence*v.options.Beat
}

// watchSilence notifies in each beat that the state may have changed, because an agent that becomes
// silent causes no event.
func (h *Hub) watchSilence(ctx context.Context) error {
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
