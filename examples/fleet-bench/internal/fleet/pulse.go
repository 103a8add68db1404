// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"k8s.io/utils/clock"
)

// never is an interval that is longer than any run. A pulse identifies its ticker by it.
const never = 1000 * time.Hour

// pulse is the real clock, except for one ticker that ticks when beat is called. So a source starts
// its resync at the measured moment.
type pulse struct {
	clock.RealClock
	ticks chan time.Time
}

func newPulse() *pulse { return &pulse{ticks: make(chan time.Time)} }

// NewTicker implements [clock.WithTicker].
func (p *pulse) NewTicker(d time.Duration) clock.Ticker {
	if d == never {
		return pulseTicker{p}
	}
	return p.RealClock.NewTicker(d)
}

// beat waits until the tick was received, or ended is closed.
func (p *pulse) beat(ended <-chan struct{}) {
	select {
	case p.ticks <- time.Now():
	case <-ended:
	}
}

type pulseTicker struct{ pulse *pulse }

func (t pulseTicker) C() <-chan time.Time { return t.pulse.ticks }
func (pulseTicker) Stop()                 {}
