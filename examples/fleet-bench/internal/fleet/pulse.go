// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"k8s.io/utils/clock"
)

// never is an interval that no run lasts. A pulse knows by it which ticker it is asked for.
const never = 1000 * time.Hour

// pulse is the real clock, but for one ticker that ticks when beat is called: so a source compares what it has with
// its agents at the moment that is measured.
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

// beat returns when the tick was taken, or nobody will take it.
func (p *pulse) beat(ended <-chan struct{}) {
	select {
	case p.ticks <- time.Now():
	case <-ended:
	}
}

type pulseTicker struct{ pulse *pulse }

func (t pulseTicker) C() <-chan time.Time { return t.pulse.ticks }
func (pulseTicker) Stop()                 {}
