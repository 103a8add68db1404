// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
)

const (
	// quick is the time that the rules of a work may take without a pause.
	quick = 100 * time.Millisecond
	// pauseFactor is the pause of a work, as a multiple of the time that its rules took. Each work
	// therefore uses at most a tenth of a worker, whatever the hub or the objects contain.
	pauseFactor = 9
	// patient is how many times an object must be applied again to count as contested.
	patient = 4
	// settled is the time without a further change after which a contest is over.
	settled = 5 * time.Minute
)

// state is the state of a work between two services.
type state struct {
	slow time.Time // the earliest next service after slow rules
	// The others are for one generation of the work.
	generation int64
	contested  time.Time // the earliest next service
	contests   map[appliedwork.Key]contest
}

// contest counts how often an object had to be applied again.
type contest struct {
	again int
	last  time.Time
}

// judge marks the contested outcomes of an apply. The work then pauses: longer each time, a minute
// at most. It returns the time until the next contest is over; 0 without contests.
func (c *Controller) judge(w *workv1.ManifestWork, r *spoke.Result, now time.Time) (over time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[w.Name]
	if s == nil {
		s = &state{}
		c.states[w.Name] = s
	}
	s.contested = time.Time{}
	if s.contests == nil || s.generation != w.Generation {
		// The first apply of a generation is no change by others.
		s.generation, s.contests = w.Generation, map[appliedwork.Key]contest{}
		return 0
	}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		is := s.contests[o.Key]
		if is.again > 0 && now.Sub(is.last) >= settled {
			delete(s.contests, o.Key)
			is = contest{}
		}
		if o.Configured {
			is = contest{is.again + 1, now}
			s.contests[o.Key] = is
		}
		if o.Contested = is.again >= patient; !o.Contested {
			continue
		}
		over = sooner(over, settled-now.Sub(is.last))
		pause := min(leastInterval<<min(is.again-patient+1, 10), retryAtMost)
		if until := now.Add(pause); o.Configured && until.After(s.contested) {
			s.contested = until
		}
	}
	return over
}

// spent pauses a work if its rules took long.
func (c *Controller) spent(w *workv1.ManifestWork, took time.Duration, now time.Time) {
	if took <= quick {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.states[w.Name]; s != nil {
		s.slow = now.Add(pauseFactor * took)
	}
}

// pauseLeft returns the remaining pause of a work. A deletion does not wait for it.
func (c *Controller) pauseLeft(w *workv1.ManifestWork, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[w.Name]
	switch {
	case s == nil:
		return 0
	case s.generation == w.Generation && s.contested.After(s.slow):
		return s.contested.Sub(now)
	}
	return s.slow.Sub(now)
}

// forget removes the state of a work that does not exist any more.
func (c *Controller) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.states, name)
}
