// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

const (
	maxBackoff = 10 * time.Second
	// jitter is the largest random extension of a delay, as a fraction of the delay.
	jitter = 0.3
	// longest is the delay that becomes maxBackoff with the most jitter.
	longest = maxBackoff * 10 / 13
)

// newBackoff returns the delays between attempts, which grow from 100 ms to 10 s. Each has its own
// jitter, so that clients of a restarted broker do not connect at the same time.
func newBackoff() wait.DelayFunc {
	return wait.Backoff{
		Duration: 100 * time.Millisecond,
		Factor:   1.6,
		Jitter:   jitter,
		Steps:    100,
		Cap:      longest,
	}.DelayFunc()
}

// slowest returns the longest delay, with its own jitter.
func slowest() time.Duration { return wait.Jitter(longest, jitter) }

// retries paces the items that the broker refuses for now. All of them wait together: the reason of
// one refusal mostly applies to the others.
type retries struct {
	clock clock.WithTicker
	delay wait.DelayFunc
	timer clock.Timer
	last  time.Time
}

// due returns a channel that fires when postponed items must be published again. It returns nil,
// which never fires, if there are none.
func (r *retries) due(postponed bool) <-chan time.Time {
	if !postponed {
		return nil
	}
	if r.timer == nil {
		if now := r.clock.Now(); r.delay == nil || now.Sub(r.last) > maxBackoff {
			r.delay = newBackoff() // no refusal for a while
		}
		r.timer = r.clock.NewTimer(r.delay())
	}
	return r.timer.C()
}

func (r *retries) stop() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer, r.last = nil, r.clock.Now()
	}
}
