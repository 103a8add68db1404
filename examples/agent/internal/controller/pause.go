// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	workv1 "open-cluster-management.io/api/work/v1"
)

const (
	// quick is the time that the rules of a work may take without a pause.
	quick = 100 * time.Millisecond
	// pauseFactor is the pause of a work, as a multiple of the time that its rules took. Each work
	// therefore uses at most a tenth of a worker, whatever the hub or the objects contain.
	pauseFactor = 9
)

// pauseUntil is the earliest time at which a work is served again.
type pauseUntil struct {
	always time.Time // also when its spec changes
	same   time.Time // while its spec is of this generation
	of     int64
}

// pauseWork pauses a work if its rules took long, or for the pause of its contested objects.
func (c *Controller) pauseWork(w *workv1.ManifestWork, pause, spent time.Duration, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := pauseUntil{same: now.Add(pause), of: w.Generation}
	if spent > quick {
		r.always = now.Add(pauseFactor * spent)
	}
	c.pauses[w.Name] = r
}

// pauseLeft returns the remaining pause of a work. A deletion does not wait for it.
func (c *Controller) pauseLeft(w *workv1.ManifestWork, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.pauses[w.Name]
	left := r.always.Sub(now)
	if r.of == w.Generation {
		left = max(left, r.same.Sub(now))
	}
	return left
}

// forget removes the state of a work that does not exist any more.
func (c *Controller) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pauses, name)
	delete(c.contests, name)
}
